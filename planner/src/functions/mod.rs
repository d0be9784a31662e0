//! Functions that PostgreSQL has and DataFusion lacks.

pub(crate) mod constant;
pub(crate) mod session;

use datafusion::error::Result;
use datafusion::execution::SessionState;

/// Adds the functions that depend on no session.
pub(crate) fn register(_state: &mut SessionState) -> Result<()> {
    Ok(())
}
