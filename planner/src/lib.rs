//! SQL sessions: parsing, catalog binding, statistics, join ordering and plans.

pub mod error;
pub mod optimizer;
pub mod outcome;
pub mod session;
