//! Joins: the plan node (`exec`), a partition of it as it runs (`partition`), what partitions share (`prepare`) and who waits for it (`listeners`), what
//! conditions say of order (`ranges`), and the choice of an operator: `choice`, among the
//! join paths (`path`), from what is known of the inputs (`expected`) and what each costs (`cost`) on this machine (as
//! `calibrate` measures it).
//!
//! Pipelined past a table of the build side: the build side (`side`, `build`, `table`, `packing`), the probe loop
//! (`probe`) and the rows it puts out (`output`). Both sides materialized, any operator and condition: `materialized`.
//! A join's condition as a kernel: `condition`; keys as both devices sort and hash them: `normalized_keys`.
//! Joins that look the other side up in an index: `indexed`.

mod build;
pub mod calibrate;
pub mod choice;
mod condition;
pub mod cost;
mod exec;
pub mod expected;
mod indexed;
mod kind;
mod listeners;
mod match_bitmap;
mod materialized;
pub mod normalized_keys;
mod output;
mod packing;
mod partition;
mod path;
mod prepare;
mod probe;
pub(crate) mod ranges;
mod side;
mod spec;
mod table;

pub use exec::JoinExec;
pub use indexed::{IndexJoinExec, IndexJoinSpec, Lookup};
pub use materialized::ChunkLimits;
pub use path::{JoinPath, Operator};
pub use ranges::RangeCondition;
pub use spec::JoinSpec;
