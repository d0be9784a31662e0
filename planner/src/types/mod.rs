//! SQL types between the parser, DataFusion and the wire.

mod describe;
pub(crate) mod planner;

pub(crate) use describe::{describe, pg_type, type_for_oid};
