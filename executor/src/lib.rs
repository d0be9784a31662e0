//! Physical operators: the scan over storage segments, indexes, joins, aggregation and the expressions that they are fed with.

pub mod aggregate;
mod codegen;
pub mod counts;
pub mod device;
pub mod explain;
pub mod expr;
pub mod gather;
mod gpu_error;
pub mod group_top;
pub mod index;
pub mod join;
pub mod keys;
pub mod memory_size;
pub mod node;
mod offload;
pub mod options;
pub mod per_execution;
pub mod pinned;
pub mod pipeline;
pub mod runtime_filter;
pub mod scan;
pub mod test_hooks;
pub mod window;
