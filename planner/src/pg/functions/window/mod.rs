//! Window functions as PostgreSQL has them, where DataFusion's fall short.
//!
//! - `framed`: any aggregate, `first_value`, `last_value` and `nth_value` over frames that DataFusion lacks or gets wrong:
//!   offsets that are expressions or intervals, GROUPS, EXCLUDE, and moving frames of aggregates that cannot take a row
//!   out again. `frame` says where a frame begins and ends, `range` what RANGE adds to values, `aggregation`
//!   aggregates the rows of frames;
//! - `shift`: `lag` and `lead` by an offset that is no constant, and with a default of another type;
//! - `tiles`: `ntile` that checks its argument;
//! - `planner`: which calls become these.

mod aggregation;
pub(crate) mod frame;
mod framed;
mod planner;
mod range;
mod shift;
mod tiles;

pub(crate) use framed::{Call, Framed, Function, lower};
pub(crate) use planner::{FRAME, is_datafusions, planner};
pub(crate) use shift::direction;

use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ScalarUDF;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![planner::frame_marker()]
}

fn fail(state: &'static str, message: impl Into<String>) -> DataFusionError {
    to_datafusion(SqlError::new(SqlState(state), message))
}
