//! Functions that PostgreSQL has and DataFusion lacks.

mod any;
pub(crate) mod constant;
mod datetime;
mod misc;
pub(crate) mod operators;
pub(crate) mod session;
mod simple;

use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use std::sync::Arc;

/// Adds the functions that depend on no session.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in misc::functions()
        .into_iter()
        .chain(datetime::functions())
        .chain([any::AnyEqual::udf()])
    {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}
