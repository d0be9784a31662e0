//! Functions that PostgreSQL has and DataFusion lacks.

pub(crate) mod aggregate;
pub(crate) mod array;
pub(crate) mod constant;
pub(crate) mod datetime;
mod float;
pub(crate) mod json;
mod length;
mod math;
mod misc;
mod nested;
mod number_format;
mod one_type;
pub(crate) mod operators;
pub(crate) mod ordered_set;
mod rounding;
pub(crate) mod sample;
mod send;
pub(crate) mod session;
pub(crate) mod sets;
pub(crate) mod simple;
mod trigonometry;
mod width_bucket;
pub(crate) mod window;

pub(crate) use simple::TEXT;

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
        .chain(math::functions())
        .chain(trigonometry::functions())
        .chain(one_type::functions())
        .chain(number_format::functions())
        .chain(send::functions())
        .chain(array::functions())
        .chain(json::functions())
        .chain([width_bucket::udf(), length::Length::udf(), simple::Text::udf()])
    {
        state.register_udf(Arc::new(function))?;
    }
    let to_char = state.udf("to_char")?;
    state.register_udf(Arc::new(number_format::with(to_char)))?;
    for function in aggregate::functions() {
        state.register_udaf(Arc::new(function))?;
    }
    Ok(())
}
