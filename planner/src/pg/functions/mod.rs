//! Functions that PostgreSQL has and DataFusion lacks.

mod addresses;
pub(crate) mod advisory;
pub(crate) mod aggregate;
pub(crate) mod argument;
pub(crate) mod array;
pub(crate) mod array_literal;
mod backends;
pub(crate) mod bits;
pub(crate) mod common;
pub(crate) mod constant;
mod crypto;
pub(crate) mod datetime;
pub(crate) mod each_row;
pub(crate) mod enums;
pub(crate) mod exported;
mod float;
pub(crate) mod foreign;
pub(crate) mod held;
pub(crate) mod json;
mod length;
mod math;
mod misc;
mod nested;
pub(crate) mod network;
pub(crate) mod notify;
mod number_format;
mod one_type;
pub(crate) mod open;
pub(crate) mod operators;
pub(crate) mod ordered_set;
pub(crate) mod partition_hash;
pub(crate) mod raise;
pub(crate) mod range;
pub(crate) mod record;
mod regex;
mod rounding;
mod row;
pub(crate) mod sample;
pub(crate) mod seeded;
mod send;
pub(crate) mod sequence;
pub(crate) mod session;
mod set_keys;
pub(crate) mod sets;
pub(crate) mod simple;
pub(crate) mod text;
mod transitions;
mod trigonometry;
mod width_bucket;
pub(crate) mod window;

pub(crate) use range::constructor as range_constructor;
pub(crate) use simple::{NULLABLE, TEXT, TypeOf};

use self::constant::{ConstantFunction, OF_BODY};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateDefaults};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{Expr, ScalarUDF};
use std::sync::Arc;
use tenon_storage::SqlType;

/// An expression as text, with the blanks of a `char(n)`.
pub(crate) fn padded(expr: Expr, of: Option<SqlType>) -> Expr {
    match of {
        Some(SqlType::CharOf(_)) => Arc::new(text::padded()).call(vec![expr]),
        _ => expr,
    }
}

/// Adds the functions that depend on no session.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in misc::functions()
        .into_iter()
        .chain(datetime::functions())
        .chain(crypto::functions())
        .chain(rounding::functions())
        .chain(window::functions())
        .chain(ordered_set::functions())
        .chain(sets::functions())
        .chain(math::functions())
        .chain(trigonometry::functions())
        .chain(number_format::functions())
        .chain(send::functions())
        .chain(array::functions())
        .chain(json::functions())
        .chain(record::functions())
        .chain(regex::functions())
        .chain(text::functions())
        .chain(bits::functions())
        .chain(network::functions())
        .chain(range::functions())
        .chain(transitions::functions())
        .chain(common::functions())
        .chain(enums::functions())
        .chain([
            array_literal::udf(),
            width_bucket::udf(),
            partition_hash::udf(),
            length::Length::udf(),
            simple::Text::udf(),
            simple::Nullable::udf(),
            raise(),
            argument::function(argument::ARGUMENT),
            argument::function(argument::WITH_ARGUMENT),
            crate::pg::semantics::repeated(),
        ])
    {
        state.register_udf(Arc::new(function))?;
    }
    state.register_udf(ConstantFunction::udf(OF_BODY, ScalarValue::from(true)))?;
    let to_char = state.udf("to_char")?;
    state.register_udf(Arc::new(number_format::with(to_char)))?;
    // Of a later version of PostgreSQL.
    state.deregister_udaf("any_value")?;
    for function in aggregate::functions().into_iter().chain(range::aggregates()) {
        state.register_udaf(Arc::new(function))?;
    }
    Ok(())
}

fn raise() -> ScalarUDF {
    ScalarUDF::new_from_impl(raise::Raise::new())
}

/// DataFusion's, after the operators that PostgreSQL types otherwise.
pub(crate) fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    let mut planners = vec![operators::planner(), window::planner(), aggregate::planner::planner()];
    planners.extend(SessionStateDefaults::default_expr_planners());
    planners
}
