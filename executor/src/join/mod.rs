//! Joins: the plan node (`exec`), what its partitions share (`prepare`) and who waits for it (`listeners`), what
//! conditions say of order (`ranges`), and the choice of an operator: `choice`, from what is known of the inputs
//! (`expected`) and what each way costs (`cost`) on this machine (`machine`, as `calibrate` measures it). What came of it
//! on the device: `account`.
//!
//! Streaming past a table of the build side: the build side (`side`, `build`, `table`, `packing`), the probe loop
//! (`probe`) and the rows it puts out (`output`). Both sides in memory, any operator and condition: `collected`.
//! Joins that look the other side up in an index: `indexed`.

mod account;
mod build;
pub mod calibrate;
pub mod choice;
mod collected;
mod cost;
mod exec;
pub mod expected;
mod indexed;
mod listeners;
pub mod machine;
mod output;
mod packing;
mod prepare;
mod probe;
mod ranges;
mod side;
mod spec;
mod table;
mod visited;

pub use collected::Streaming;
pub use exec::JoinExec;
pub use indexed::{IndexJoinExec, IndexJoinSpec, Lookup};
pub use ranges::RangeCondition;
pub use spec::JoinSpec;
