//! Functions of enums: `enum_first`, `enum_last`, `enum_range`; and values of one version of a type in another.

use super::record::{COMPOSITE, RECORD};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::semantics::fields;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListBuilder, TimestampMicrosecondArray, TimestampMicrosecondBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, TimestampMicrosecondType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use std::sync::Arc;
use tenon_storage::{EnumType, SqlType};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    First,
    Last,
    Range,
    /// The argument, which no planner computes.
    Late,
    /// The version to which a value goes.
    Adopted(&'static EnumType),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfEnum {
    what: What,
    signature: Signature,
}

fn function(what: What) -> ScalarUDF {
    let signature = match what {
        What::Range => Signature::one_of(
            vec![TypeSignature::Any(1), TypeSignature::Any(2)],
            Volatility::Immutable,
        ),
        What::Late => Signature::any(1, Volatility::Volatile),
        _ => Signature::any(1, Volatility::Immutable),
    };
    ScalarUDF::new_from_impl(OfEnum { what, signature })
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    [What::First, What::Last, What::Range].map(function).into()
}

/// A value of another version of the type as one of this.
pub(crate) fn adopted(expr: Expr, to: &'static EnumType) -> Expr {
    Arc::new(function(What::Adopted(to))).call(vec![expr])
}

/// Has what holds enums be made when the query runs: as a literal in a plan it would be shown by its Arrow type, which
/// says a zone that there is not.
pub(crate) fn late(expr: Expr) -> Expr {
    Arc::new(function(What::Late)).call(vec![expr])
}

/// Whether values of a type are made of values of an enum: arrays and records.
pub(crate) fn holds_enums(of: &DataType) -> bool {
    let is_one = |of: &DataType| EnumType::of(of).is_some() || holds_enums(of);
    match of {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => is_one(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_one(field.data_type())),
        _ => false,
    }
}

/// A call of constants that makes an array or a record of enums.
pub(crate) fn computed_late(mut call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<ScalarFunction>> {
    let types: Vec<DataType> = call
        .args
        .iter()
        .map(|own| fields::data_type(own, schema))
        .collect::<Result<_>>()?;
    let made = |types: &[DataType]| types.iter().any(|own| EnumType::of(own).is_some() || holds_enums(own));
    // What is volatile may turn out not to be called, as what raises an error is.
    let constant = !call.args.iter().any(Expr::any_column_refs);
    let is_late = constant && made(&types) && holds_enums(&Expr::ScalarFunction(call.clone()).get_type(schema)?);
    // What a record's columns are called, and its type, are literals before its values.
    let one = match call.name() {
        RECORD | COMPOSITE => call.args.last_mut(),
        _ => call.args.first_mut(),
    };
    if is_late && let Some(one) = one {
        *one = late(std::mem::take(one));
    }
    Ok(Transformed::new_transformed(call, is_late))
}

/// The one enum among the arguments: 42883 where there is none, or two.
fn of_all(name: &str, types: &[DataType]) -> Result<&'static EnumType> {
    let mut found: Option<&'static EnumType> = None;
    for own in types {
        match EnumType::of(own) {
            Some(of) if found.is_none_or(|found| found == of) => found = Some(of),
            None if own.is_null() => {}
            _ => return Err(undefined(name, types)),
        }
    }
    found.ok_or_else(|| undefined(name, types))
}

/// 42846: nothing but text becomes an enum, and an enum nothing but text.
pub(crate) fn no_cast(from: &DataType, to: &DataType) -> datafusion::error::DataFusionError {
    let (from, to) = (crate::pg::types::type_name(from), crate::pg::types::type_name(to));
    to_datafusion(SqlError::new(
        crate::pg::error::SqlState("42846"),
        format!("cannot cast type {from} to {to}"),
    ))
}

/// "function does not exist".
pub(crate) fn undefined(name: &str, types: &[DataType]) -> datafusion::error::DataFusionError {
    let shown: Vec<String> = types
        .iter()
        .map(|own| match own {
            DataType::Null | DataType::Utf8 => "unknown".to_string(),
            own => SqlType::from_data_type(own).map_or_else(|| own.to_string(), |own| own.to_string()),
        })
        .collect();
    let message = format!("function {name}({}) does not exist", shown.join(", "));
    to_datafusion(
        SqlError::new(state::UNDEFINED_FUNCTION, message)
            .hint("No function matches the given name and argument types. You might need to add explicit type casts."),
    )
}

impl ScalarUDFImpl for OfEnum {
    fn name(&self) -> &str {
        match self.what {
            What::First => "enum_first",
            What::Last => "enum_last",
            What::Range => "enum_range",
            What::Adopted(_) => "enum_adopted",
            What::Late => "enum_late",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.what {
            What::Adopted(to) => to.data_type(),
            What::Late => types[0].clone(),
            What::Range => DataType::List(Arc::new(Field::new(
                "item",
                of_all(self.name(), types)?.data_type(),
                true,
            ))),
            _ => of_all(self.name(), types)?.data_type(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.what == What::Late {
            return Ok(args.args[0].clone());
        }
        let scalar = args.args.iter().all(|own| matches!(own, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let arrays = args.args.iter().map(|own| own.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let made: ArrayRef = match self.what {
            What::Adopted(to) => match EnumType::of(&types[0]) {
                Some(from) => to.adopt(&arrays[0], from),
                None => cast(&arrays[0], &to.data_type())?,
            },
            What::Late => arrays[0].clone(),
            What::First => one(of_all(self.name(), &types)?, rows, true)?,
            What::Last => one(of_all(self.name(), &types)?, rows, false)?,
            What::Range => ranges(of_all(self.name(), &types)?, &arrays, rows)?,
        };
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?)),
            false => Ok(ColumnarValue::Array(made)),
        }
    }
}

fn one(of: &'static EnumType, rows: usize, first: bool) -> Result<ArrayRef> {
    let last = of.labels.len() as i64 - 1;
    if last < 0 && rows > 0 {
        let message = format!("enum {} contains no values", of.name);
        return Err(to_datafusion(SqlError::new(
            state::OBJECT_NOT_IN_PREREQUISITE_STATE,
            message,
        )));
    }
    let values = TimestampMicrosecondArray::from_value(if first { 0 } else { last }, rows);
    Ok(Arc::new(values.with_data_type(of.data_type())))
}

/// From the first argument to the second, a NULL being no bound; of one argument all.
fn ranges(of: &'static EnumType, bounds: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let bounded = bounds.len() == 2;
    let bounds = bounds
        .iter()
        .map(|own| cast_null(own, of))
        .collect::<Result<Vec<_>>>()?;
    let bound = |at: usize, row: usize| {
        let own = bounds.get(at).filter(|_| bounded)?;
        let own = own.as_primitive::<TimestampMicrosecondType>();
        own.is_valid(row).then(|| own.value(row))
    };
    let item = Field::new("item", of.data_type(), true);
    let values = TimestampMicrosecondBuilder::new().with_data_type(of.data_type());
    let mut lists = ListBuilder::new(values).with_field(item);
    let last = of.labels.len() as i64 - 1;
    for row in 0..rows {
        for at in bound(0, row).unwrap_or(0)..=bound(1, row).unwrap_or(last) {
            lists.values().append_value(at);
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn cast_null(array: &ArrayRef, of: &'static EnumType) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Null => datafusion::arrow::array::new_null_array(&of.data_type(), array.len()),
        _ => array.clone(),
    })
}
