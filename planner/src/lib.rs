//! SQL sessions: parsing, catalog binding, statistics, join ordering and plans.
//!
//! Four layers; each imports from its own and from those before it.

mod pg;

mod catalog;

mod optimizer;

pub mod session;

pub use pg::functions::record::parse_record;
pub use pg::statement::Statement;
pub use pg::types::pg_type as wire_type;
pub use pg::{error, outcome, settings, statement};
pub use session::engine;
pub use session::engine::{ConnectionRule, Engine, EngineOptions, STACK_BYTES};
pub use session::login;
pub use session::{Ends, Prepared, Session, SessionInfo};
