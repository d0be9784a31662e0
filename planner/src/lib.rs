//! SQL sessions: parsing, catalog binding, statistics, join ordering and plans.

mod admission;
mod bind;
mod bounds;
mod catalog;
mod context;
mod conventions;
mod dialect;
pub mod engine;
pub mod error;
mod errors;
mod explain;
mod files;
mod functions;
mod lex;
mod nodes;
mod numeric;
pub mod optimizer;
pub mod outcome;
mod parse;
mod plan_cache;
mod planning;
mod rewrite;
pub mod run;
mod semantics;
pub mod session;
pub mod settings;
mod spill;
pub mod statement;
mod statements;
mod tasks;
mod tokens;
mod types;
mod walk;

pub use engine::{Engine, EngineOptions};
pub use session::{Prepared, Session, SessionInfo};
pub use statement::Statement;
