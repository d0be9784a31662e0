//! Numerics as arguments of functions that take floats.

use super::operators::as_float;
use super::unify::is_numeric;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use tenon_storage::types::NUMERIC;

/// Functions of floats that take numerics for such.
const OF_FLOATS: [&str; 18] = [
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
