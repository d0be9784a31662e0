//! SQL types between the parser, DataFusion and the wire.

pub(crate) mod planner;
mod describe;

pub(crate) use describe::{describe, pg_type, type_for_oid};
