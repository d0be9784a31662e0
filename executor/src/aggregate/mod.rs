//! Grouping on the CPU: the plan node (`exec`), what one partition gathers (`local`), group keys to group numbers
//! (`keys`, `ids`, `text`), and the accumulators that beat DataFusion's (`cells`).

mod cells;
mod exec;
mod ids;
mod keys;
mod local;
mod shares;
mod text;

pub use exec::{GroupExec, GroupSpec};
