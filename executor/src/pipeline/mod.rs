//! Parts of queries on the device: fused pipelines over tables' columns (`tenon_gpu::pipeline`).
//!
//! ```text
//! plan -> pipelines as code (compiled; compile: scans, filters, projections; join; group; top) over columns as storage keeps them
//! (stored) and tables made by earlier pipelines (made), windows over their rows in order (window) -> a fragment, if that pays (cost) -> its code, compiled while the CPU
//! answers (prepare); columns, orders and arrays on the device (columns, orders, run) -> groups (result), rows in an
//! order (sorted), with texts that the host makes of their columns (on_host), and what the host does above them (tail)
//! ```
//! Small inputs of joins that have no device form are made by the CPU, and read as tables (given). Whatever else has no device form, has no room or fails there is done by the plan's own nodes on the CPU (`attempt`).

mod aggregated;
mod attempt;
mod col;
mod columns;
mod compile;
mod compiled;
mod cost;
mod counted;
mod exec;
mod flow;
mod fragment;
mod given;
mod group;
mod join;
mod kept;
mod layout;
mod made;
mod on_host;
mod order_steps;
mod orders;
mod passes;
mod prepare;
mod residence;
mod result;
mod room;
mod run;
mod sorted;
mod stored;
mod streamed;
mod tail;
mod top;
mod window;
mod words;

pub use attempt::Ran;
pub use columns::{Cached, cached, cached_bytes};
pub use counted::{NodeRan, address};
pub use exec::OffloadExec;
pub use group::Steps;
pub use residence::reside;
pub use tail::chain;
pub use top::Top;
