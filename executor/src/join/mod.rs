//! Joins: the plan node (`exec`), what its partitions share (`prepare`), the choice of an operator (`choice`), and what
//! conditions say of order (`ranges`).
//!
//! Streaming past a table of the build side: the build side (`side`, `build`, `table`, `packing`), the probe loop
//! (`probe`) and the rows it puts out (`output`). Both sides in memory, any operator and condition: `collected`.
//! Joins that look the other side up in an index: `indexed`.

mod build;
pub mod choice;
mod collected;
mod exec;
mod indexed;
mod machine;
mod output;
mod packing;
mod prepare;
mod probe;
mod ranges;
mod side;
mod spec;
mod table;
mod visited;

pub use exec::JoinExec;
pub use indexed::{IndexJoinExec, IndexJoinSpec, Lookup};
pub use ranges::RangeCondition;
pub use spec::JoinSpec;
