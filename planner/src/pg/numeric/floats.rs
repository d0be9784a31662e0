//! Numerics as arguments of functions that take floats, and in lists of reals.

use super::Class;
use super::operators::as_float;
use super::unify::{is_numeric, to_float};
use crate::pg::semantics::fields;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, cast};
use tenon_storage::types::NUMERIC;

/// Functions of floats that take numerics for such.
const OF_FLOATS: [&str; 19] = [
    "to_timestamp",
    "make_interval",
    "make_time",
    "make_timestamp",
    "make_timestamptz",
    "covar_pop",
    "covar_samp",
    "corr",
    "regr_count",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "regr_r2",
    "regr_slope",
    "regr_intercept",
    "pg_sleep",
    "setseed",
];

/// The types that a function of these asks for, but for numerics: DataFusion has no cast, and they become floats before it
/// looks for one.
pub(crate) fn with_numerics(given: &[DataType], mut wanted: Vec<DataType>) -> Vec<DataType> {
    for (given, wanted) in given.iter().zip(&mut wanted) {
        if *given == NUMERIC && *wanted == DataType::Float64 {
            *wanted = given.clone();
        }
    }
    wanted
}

pub(super) fn floats_of(name: &str, args: &mut [Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for arg in args.iter_mut().filter(|_| OF_FLOATS.contains(&name)) {
        if is_numeric(arg, schema) {
            *arg = as_float(std::mem::take(arg));
            changed = true;
        }
    }
    changed
}

/// An exact number in a list of reals, which are an array of such: these and it are compared as doubles. Whether it was one.
pub(super) fn beside_reals(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types: Vec<Option<DataType>> = all.iter().map(|expr| fields::data_type(expr, schema).ok()).collect();
    let Some(own) = types[0].as_ref().map(Class::of) else {
        return false;
    };
    let exact = matches!(own, Class::Integer | Class::Decimal | Class::Numeric);
    if !exact || !types[1..].contains(&Some(DataType::Float32)) {
        return false;
    }
    let [value, items @ ..] = all else { return false };
    to_float(
        items.iter_mut().map(|item| &mut **item).collect(),
        schema,
        &DataType::Float32,
    );
    for item in items {
        **item = cast(cast(std::mem::take(*item), DataType::Float32), DataType::Float64);
    }
    **value = match own {
        Class::Numeric => as_float(std::mem::take(*value)),
        _ => cast(std::mem::take(*value), DataType::Float64),
    };
    true
}
