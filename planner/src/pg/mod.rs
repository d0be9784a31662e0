//! PostgreSQL's dialect: its syntax, what statements mean, its types, functions and errors. Nothing here knows a session, or how
//! names are found.

pub(crate) mod bounds;
pub(crate) mod collations;
pub(crate) mod conventions;
pub(crate) mod dialect;
pub mod error;
pub(crate) mod errors;
pub(crate) mod functions;
pub(crate) mod identity;
pub(crate) mod lex;
pub(crate) mod named;
pub(crate) mod names;
pub(crate) mod nodes;
pub(crate) mod numeric;
pub(crate) mod occurring;
pub mod outcome;
pub(crate) mod parse;
pub(crate) mod places;
pub(crate) mod planning;
pub(crate) mod plpgsql;
pub(crate) mod rewrite;
pub(crate) mod semantics;
pub mod settings;
pub mod statement;
pub(crate) mod tasks;
pub(crate) mod tokens;
pub(crate) mod types;
pub(crate) mod walk;
