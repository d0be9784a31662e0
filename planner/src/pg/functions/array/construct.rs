//! `ARRAY[...]` and `array_fill`.

use super::build::{ARRAY_SUBSCRIPT, error};
use super::leaf;
use super::lists::{Builder, Lists, item_of, list_type};
use super::poly::{common, is_text};
use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::common::is_unknown;
use crate::pg::types::{ARRAY_OID_KEY, OID_KEY};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use tenon_storage::range::is_range;
use tenon_storage::{ArrayType, SqlType};

/// `ARRAY[items]`; of arrays, one of a dimension more.
pub(crate) fn constructor(items: Vec<Expr>) -> Result<Expr> {
    static CONSTRUCTOR: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(Constructor {
            signature: Signature::user_defined(Volatility::Immutable),
        }))
    });
    if items.is_empty() {
        let error = SqlError::new(state::INDETERMINATE_DATATYPE, "cannot determine type of empty array");
        let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
        return Err(to_datafusion(error.hint(hint)));
    }
    Ok(CONSTRUCTOR.call(items))
}

/// The metadata of an array of records whose type is known.
pub(crate) fn array_of_records(item: &FieldRef) -> Option<HashMap<String, String>> {
    let oid = item.metadata().get(ARRAY_OID_KEY)?;
    Some(HashMap::from([(OID_KEY.to_string(), oid.clone())]))
}

/// The metadata of an array of items whose types are one, where it takes more than the Arrow type to say which.
fn array_metadata(items: &[FieldRef], of: &DataType) -> Option<HashMap<String, String>> {
    let mut known = items.iter().filter(|own| !own.data_type().is_null());
    let first = known.next()?;
    if let Some(metadata) = array_of_records(first) {
        let same = known.all(|own| own.metadata().get(ARRAY_OID_KEY) == first.metadata().get(ARRAY_OID_KEY));
        return same.then_some(metadata);
    }
    let array = match SqlType::from_field(first)? {
        item @ (SqlType::Json | SqlType::Name) => ArrayType::of_items(item),
        SqlType::Array(inner) if inner.element() == SqlType::Json => inner.with_dimensions(inner.dimensions() + 1),
        _ => return None,
    };
    let same = known.all(|own| SqlType::from_field(own) == SqlType::from_field(first));
    let field = SqlType::Array(array).field("", true);
    (same && field.data_type() == of).then(|| field.metadata().clone())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Constructor {
    signature: Signature,
}

impl ScalarUDFImpl for Constructor {
    fn name(&self) -> &str {
        "array"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let depth = types.iter().map(|own| leaf(own).1).max().unwrap_or(0);
        let mut item = DataType::Null;
        for own in types {
            let (own, own_depth) = leaf(own);
            if own_depth != depth && !(own_depth == 0 && (is_text(own) || own.is_null())) {
                let message = "ARRAY could not convert the types of its items to one";
                return Err(error(SqlState("42804"), message));
            }
            if own_depth == depth {
                let both = match (&item, own) {
                    (DataType::Null, own) => Some(own.clone()),
                    (before, DataType::Null) => Some(before.clone()),
                    (before, own) => common(before, own),
                };
                item = both.ok_or_else(|| {
                    let names = [&item, own].map(super::poly::type_name);
                    let message = format!("ARRAY types {} and {} cannot be matched", names[0], names[1]);
                    error(state::DATATYPE_MISMATCH, message)
                })?;
            }
        }
        if item.is_null() || is_text(&item) {
            item = DataType::Utf8View;
        }
        // DataFusion has no cast of a literal to these: `plan_array_literal` makes one.
        let own_literals = is_range(&item) || matches!(item, DataType::FixedSizeBinary(_));
        let literal = |own: &DataType| own_literals && is_unknown(own);
        let coerced = types.iter().map(|own| match literal(own) {
            true => own.clone(),
            false => list_type(&item, depth),
        });
        Ok(coerced.collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.iter().find(|own| !is_unknown(own)).or(types.first()) {
            Some(own) => Ok(list_type(own, 1)),
            None => plan_err!("ARRAY takes items"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|own| own.data_type().clone()).collect();
        let of = self.return_type(&types)?;
        // What only a field says of its items' type: of texts that they are json, of records whose type they have.
        let metadata = array_metadata(args.arg_fields, &of).unwrap_or_default();
        Ok(Arc::new(Field::new(self.name(), of, true).with_metadata(metadata)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = args.return_field.data_type();
        in_arrays(&args.args, args.number_rows, |arrays, rows| {
            let (item, depth) = (item_of(returns), leaf(returns).1);
            match depth {
                1 => {
                    let mut out = Builder::new(rows);
                    for row in 0..rows {
                        (0..arrays.len()).for_each(|source| out.pick(source, row));
                        out.row(vec![arrays.len()]);
                    }
                    out.finish(&arrays.iter().collect::<Vec<_>>(), &item, 1)
                }
                _ => of_arrays(arrays, rows, &item, depth),
            }
        })
    }
}

fn of_arrays(arrays: &[ArrayRef], rows: usize, item: &DataType, depth: usize) -> Result<ArrayRef> {
    let lists = arrays.iter().map(Lists::of).collect::<Result<Vec<_>>>()?;
    let uneven = || {
        let message = "multidimensional arrays must have array expressions with matching dimensions";
        error(ARRAY_SUBSCRIPT, message)
    };
    let mut out = Builder::new(rows);
    for row in 0..rows {
        let sizes = lists[0].sizes(row);
        for (source, own) in lists.iter().enumerate() {
            if own.sizes(row) != sizes {
                return Err(uneven());
            }
            out.pick_all(source, own.span(row));
        }
        out.row(match sizes.is_empty() {
            true => Vec::new(),
            false => [vec![lists.len()], sizes].concat(),
        });
    }
    let sources: Vec<&ArrayRef> = lists.iter().map(|own| &own.items).collect();
    out.finish(&sources, item, depth)
}

/// Calls with arrays, of one row where all arguments are constants.
pub(in crate::pg::functions) fn in_arrays(
    args: &[ColumnarValue],
    rows: usize,
    body: impl FnOnce(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let scalar = args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if scalar { 1 } else { rows };
    let arrays = args
        .iter()
        .map(|value| value.to_array(rows))
        .collect::<Result<Vec<_>>>()?;
    let result = body(&arrays, rows)?;
    match scalar {
        true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
        false => Ok(ColumnarValue::Array(result)),
    }
}

/// `array_fill(value, sizes)`, the sizes spread out: `array_fill(value, size, size, ...)`. See `rewrite::arrays`.
pub(crate) const FILL: &str = "\u{1}array_fill";

/// Most items that an array has.
const ITEMS_MAX: usize = 134_217_727;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Fill {
    signature: Signature,
}

pub(super) fn fill() -> ScalarUDF {
    ScalarUDF::new_from_impl(Fill {
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

impl ScalarUDFImpl for Fill {
    fn name(&self) -> &str {
        FILL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let value = match &types[0] {
            text if is_text(text) || text.is_null() => DataType::Utf8View,
            other => other.clone(),
        };
        let mut wanted = vec![DataType::Int32; types.len()];
        wanted[0] = value;
        Ok(wanted)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(list_type(&types[0], (types.len() - 1).max(1)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = args.return_field.data_type();
        in_arrays(&args.args, args.number_rows, |arrays, rows| {
            let mut out = Builder::new(rows);
            let mut total = 0_usize;
            for row in 0..rows {
                let mut sizes = Vec::new();
                for column in &arrays[1..] {
                    let column = column.as_primitive::<Int32Type>();
                    if column.is_null(row) {
                        return Err(error(SqlState("22004"), "dimension values cannot be null"));
                    }
                    let size = usize::try_from(column.value(row));
                    sizes.push(size.map_err(|_| error(ARRAY_SUBSCRIPT, "array size exceeds the maximum allowed"))?);
                }
                let count = match sizes.is_empty() {
                    true => Some(0),
                    false => sizes.iter().try_fold(1_usize, |all, size| all.checked_mul(*size)),
                };
                let count = count.filter(|count| total + count <= ITEMS_MAX).ok_or_else(|| {
                    let message = format!("array size exceeds the maximum allowed ({ITEMS_MAX})");
                    error(state::PROGRAM_LIMIT_EXCEEDED, message)
                })?;
                total += count;
                (0..count).for_each(|_| out.pick(0, row));
                out.row(sizes);
            }
            out.finish(&[&arrays[0]], &item_of(returns), leaf(returns).1)
        })
    }
}
