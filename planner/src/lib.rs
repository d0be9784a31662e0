//! SQL sessions: parsing, catalog binding, statistics, join ordering and plans.

mod bind;
mod catalog;
mod context;
mod dialect;
pub mod engine;
pub mod error;
mod errors;
mod explain;
mod files;
mod functions;
mod lex;
mod nodes;
pub mod optimizer;
pub mod outcome;
mod parse;
mod plan_cache;
mod planning;
mod rewrite;
mod run;
mod semantics;
pub mod session;
pub mod settings;
pub mod statement;
mod statements;
mod tokens;
mod types;

pub use engine::{Engine, EngineOptions};
pub use session::{Prepared, Session, SessionInfo};
pub use statement::Statement;
