//! Plan nodes that DataFusion lacks: the logical node, how it is planned, and how it runs.

mod apply;
mod limit;
pub(crate) mod materialized;
mod project_set;
mod whole;

pub(crate) use apply::{Apply, ApplyKind, Binding, GUARD, applies};
pub(crate) use limit::{LimitByValue, LimitByValueExec, LimitPlanner, is_limit_by_value};
pub(crate) use materialized::{Materialized, MaterializedPlanner};
pub(crate) use project_set::{ProjectSet, ProjectSetExec, ProjectSetPlanner, SetCall, with_args_changed};
pub(crate) use whole::{WholeRows, WholeRowsPlanner};
