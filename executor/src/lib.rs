//! Physical operators: the scan over storage segments, indexes, joins, aggregation and the expressions that they are fed with.

pub mod aggregate;
pub mod device;
pub mod expr;
mod gpu_error;
pub mod hostile;
pub mod index;
pub mod join;
pub mod keys;
pub mod options;
pub mod per_execution;
pub mod runtime_filter;
pub mod scan;
