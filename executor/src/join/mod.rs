//! Equality joins on the CPU: one file a concept, from the plan node (`exec`) through the build side (`build`, `table`,
//! `packing`) to the probe loop (`probe`) and the rows it puts out (`output`).

mod build;
mod exec;
mod output;
mod packing;
mod probe;
mod table;
mod visited;

pub use exec::{JoinExec, JoinSpec};
