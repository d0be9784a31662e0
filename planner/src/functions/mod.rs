//! Functions that PostgreSQL has and DataFusion lacks.

pub(crate) mod aggregate;
mod any;
pub(crate) mod array;
pub(crate) mod common;
pub(crate) mod constant;
mod datetime;
pub(crate) mod foreign;
mod length;
mod misc;
mod numeric;
pub(crate) mod operators;
pub(crate) mod ordered_set;
mod regex;
mod rounding;
mod row;
pub(crate) mod sample;
pub(crate) mod session;
pub(crate) mod sets;
mod simple;
pub(crate) mod text;
pub(crate) mod window;

use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::Expr;
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
        .chain(rounding::functions())
        .chain(window::functions())
        .chain(ordered_set::functions())
        .chain(sets::functions())
        .chain(regex::functions())
        .chain(text::functions())
        .chain(common::functions())
        .chain([any::AnyEqual::udf(), array::OrEmpty::udf(), length::Length::udf()])
    {
        state.register_udf(Arc::new(function))?;
    }
    for function in aggregate::functions() {
        state.register_udaf(Arc::new(function))?;
    }
    Ok(())
}
