//! Physical operators: the scan over storage segments, joins, aggregation and the expressions that they are fed with.

pub mod scan;
