//! `int4range(1, 10, '[]')` and `int4multirange(...)`, and so of each type.

use super::super::array::{in_arrays, leaf};
use super::super::enums::undefined;
use super::values::{element, failed, is_unknown, keys, ranges, spans, values};
use crate::pg::conventions;
use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::datetime::Conventions;
use tenon_storage::range::{self, Bound, RangeType};

pub(super) fn functions() -> Vec<ScalarUDF> {
    let types = RangeType::ALL.into_iter();
    types
        .flat_map(|of| [SqlType::Range(of), SqlType::Multirange(of)].map(constructor))
        .collect()
}

/// The function that makes values of a type.
pub(crate) fn constructor(makes: SqlType) -> ScalarUDF {
    let signature = match makes {
        SqlType::Multirange(_) => Signature::one_of(
            vec![TypeSignature::Nullary, TypeSignature::UserDefined],
            Volatility::Immutable,
        ),
        _ => Signature::user_defined(Volatility::Immutable),
    };
    ScalarUDF::new_from_impl(Construct { makes, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Construct {
    makes: SqlType,
    signature: Signature,
}

impl ScalarUDFImpl for Construct {
    fn name(&self) -> &str {
        self.makes.base_name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let none = || undefined(self.name(), types);
        let coerced: Option<Vec<DataType>> = match (self.makes, types) {
            (SqlType::Range(of), [low, high]) => [low, high].into_iter().map(|own| element(of, own)).collect(),
            (SqlType::Range(of), [low, high, flags]) if flags.is_string() || flags.is_null() => {
                let mut types: Option<Vec<_>> = [low, high].into_iter().map(|own| element(of, own)).collect();
                if let Some(types) = &mut types {
                    types.push(DataType::Utf8View);
                }
                types
            }
            (SqlType::Multirange(of), types) => {
                let own = of.data_type();
                let fits = |given: &DataType| {
                    let (item, depth) = leaf(given);
                    is_unknown(given) || (*item == own && depth <= 1)
                };
                types.iter().all(fits).then(|| types.to_vec())
            }
            _ => None,
        };
        coerced.ok_or_else(none)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.makes.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = matches!(self.makes, SqlType::Multirange(_)) && !args.arg_fields.is_empty();
        Ok(Arc::new(self.makes.field(self.name(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let by = conventions::of(&args.config_options);
        in_arrays(&args.args, args.number_rows, |arrays, rows| match self.makes {
            SqlType::Multirange(of) => multiranges(of, arrays, rows, &by),
            other => constructed(other.ranges().unwrap_or(RangeType::Int4), arrays, rows, &by),
        })
    }
}

fn constructed(of: RangeType, arrays: &[ArrayRef], rows: usize, by: &Conventions) -> Result<ArrayRef> {
    let (mut low, mut high) = (keys(of, &arrays[0], by)?, keys(of, &arrays[1], by)?);
    let flags = arrays
        .get(2)
        .map(|flags| cast(flags, &DataType::Utf8View))
        .transpose()?;
    let flags = flags.as_ref().map(|flags| flags.as_string_view());
    let mut out = Vec::with_capacity(rows);
    for row in 0..rows {
        let inclusive = match flags {
            None => (true, false),
            Some(flags) if flags.is_null(row) => {
                let message = "range constructor flags argument must not be null";
                return Err(to_datafusion(SqlError::new(state::DATA_EXCEPTION, message)));
            }
            Some(flags) => match flags.value(row) {
                "[]" => (true, true),
                "[)" => (true, false),
                "(]" => (false, true),
                "()" => (false, false),
                _ => {
                    let error = SqlError::new(state::SYNTAX_ERROR, "invalid range bound flags");
                    let hint = "Valid values are \"[]\", \"[)\", \"(]\", and \"()\".";
                    return Err(to_datafusion(error.hint(hint)));
                }
            },
        };
        let lower = Bound::of(low[row].take().map(Into::into), inclusive.0);
        let upper = Bound::of(high[row].take().map(Into::into), inclusive.1);
        let made = range::make(of, lower, upper).map_err(failed)?;
        out.push(Some(range::to_bytes(made.as_ref())));
    }
    Ok(range::array(SqlType::Range(of), out))
}

const NULL_NOT_ALLOWED: SqlState = SqlState("22004");

/// The multirange of some ranges, and of those in an array.
fn multiranges(of: RangeType, arrays: &[ArrayRef], rows: usize, by: &Conventions) -> Result<ArrayRef> {
    let one = SqlType::Range(of);
    let null_member = || {
        let message = "multirange values cannot contain null members";
        to_datafusion(SqlError::new(NULL_NOT_ALLOWED, message))
    };
    let mut parts = Vec::with_capacity(arrays.len());
    for array in arrays {
        parts.push(match array.data_type() {
            DataType::List(_) => array.clone(),
            _ => ranges(one, array, by)?,
        });
    }
    let mut out = Vec::with_capacity(rows);
    for row in 0..rows {
        let items: Vec<ArrayRef> = parts
            .iter()
            .map(|part| match part.as_list_opt::<i32>() {
                Some(list) => list.value(row),
                None => part.slice(row, 1),
            })
            .collect();
        let missing = parts.iter().any(|part| part.is_null(row));
        if missing && parts.len() == 1 {
            out.push(None);
            continue;
        }
        let mut all = Vec::new();
        for item in &items {
            for bytes in values(item)?.iter() {
                all.extend(spans(one, bytes.ok_or_else(null_member)?));
            }
        }
        out.push(Some(range::write_ranges(&range::of_ranges(all))));
    }
    Ok(range::array(SqlType::Multirange(of), out))
}
