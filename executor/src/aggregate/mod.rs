//! Grouping on the CPU: the plan node (`exec`), what one partition gathers (`local`), what all have gathered and who merges
//! it (`gathered`, `shares`, `merge`), group keys to group numbers (`keys`, `ids`, `text`), and the accumulators that beat
//! DataFusion's (`cells`).

mod cells;
mod exec;
mod gathered;
mod ids;
mod keys;
mod local;
mod merge;
mod shares;
mod text;

pub use exec::{GroupExec, GroupSpec};
pub(crate) use gathered::{Found, finished};
