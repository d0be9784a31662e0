//! SQL sessions: parsing, catalog binding, statistics, join ordering and plans.

mod admission;
mod bind;
mod bounds;
mod catalog;
mod context;
pub mod engine;
pub mod error;
mod errors;
mod explain;
mod files;
mod functions;
mod nodes;
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

pub use engine::{Engine, EngineOptions};
pub use session::{Prepared, Session, SessionInfo};
pub use statement::Statement;
