//! Functions that PostgreSQL has and DataFusion lacks.

pub(crate) mod aggregate;
mod any;
pub(crate) mod array;
pub(crate) mod array_literal;
pub(crate) mod constant;
mod datetime;
mod length;
mod misc;
mod numeric;
pub(crate) mod operators;
pub(crate) mod ordered_set;
mod rounding;
pub(crate) mod sample;
pub(crate) mod session;
pub(crate) mod sets;
mod simple;
pub(crate) mod window;

use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use std::sync::Arc;

/// Adds the functions that depend on no session.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in misc::functions()
        .into_iter()
        .chain(datetime::functions())
        .chain(rounding::functions())
        .chain(window::functions())
        .chain(ordered_set::functions())
        .chain(sets::functions())
        .chain([
            any::AnyEqual::udf(),
            array_literal::udf(),
            array::OrEmpty::udf(),
            length::Length::udf(),
        ])
    {
        state.register_udf(Arc::new(function))?;
    }
    for function in aggregate::functions() {
        state.register_udaf(Arc::new(function))?;
    }
    Ok(())
}
