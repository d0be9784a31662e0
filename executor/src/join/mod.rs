//! Joins on the CPU. Indexed nested loops are in `indexed`. Equality joins by a hash table: one file a concept, from the plan node (`exec`) through the build side (`build`, `table`,
//! `packing`) to the probe loop (`probe`) and the rows it puts out (`output`).

mod build;
mod exec;
mod indexed;
mod output;
mod packing;
mod probe;
mod table;
mod visited;

pub use exec::{JoinExec, JoinSpec};
pub use indexed::{IndexJoinExec, IndexJoinSpec, Lookup};
