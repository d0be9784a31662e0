//! One parsed statement with its place in the query string it came in.

use crate::pg::parse::analyze::Analyze;
use crate::pg::parse::copy::Copy;
use crate::pg::parse::cursor::{Direction, Fetch};
use crate::pg::parse::definition::Definition;
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;

/// A parsed statement. `text[start..end]` is its own text; error positions count in the whole query string.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(crate) text: Arc<str>,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: Kind,
    /// Whether a query of it, at any depth, may lock rows: FOR UPDATE and its like are among its words.
    pub(crate) may_lock: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// An empty query string in the extended protocol.
    Empty,
    Sql(Box<ast::Statement>),
    Copy(Box<Copy>),
    Analyze(Box<Analyze>),
    Fetch(Box<Fetch>),
    Definition(Box<Definition>),
    /// CREATE SCHEMA, and what is to be made in it.
    Schema(Box<ast::Statement>, Vec<Statement>),
    Utility(Utility),
}

/// Statements known by their first words.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Utility {
    /// Accepted, and nothing to do: its command tag.
    Nothing(&'static str),
    /// Has the store, if there is one, begin a new log.
    Checkpoint,
    /// Sends a copy of the store.
    Backup,
    Discard,
    /// Refused with 0A000.
    Unsupported(&'static str),
}

impl Statement {
    /// What an empty query string prepares to.
    pub fn empty() -> Self {
        Self {
            text: "".into(),
            start: 0,
            end: 0,
            kind: Kind::Empty,
            may_lock: false,
        }
    }

    /// The statement's own text, without the semicolon.
    pub fn sql(&self) -> &str {
        &self.text[self.start..self.end]
    }

    /// COMMIT, ROLLBACK and the like: what a failed transaction still takes.
    pub fn ends_transaction(&self) -> bool {
        match &self.kind {
            Kind::Sql(statement) => {
                matches!(
                    **statement,
                    ast::Statement::Commit { .. } | ast::Statement::Rollback { .. }
                )
            }
            _ => false,
        }
    }

    /// Whether it reads rows, so that a transaction's snapshot is taken for it; what only concerns settings does not, nor LOCK
    /// TABLE, after which one reads what others have committed before they gave up the table.
    pub(crate) fn reads_rows(&self) -> bool {
        match &self.kind {
            Kind::Definition(definition) => !matches!(**definition, Definition::Lock(_)),
            Kind::Sql(statement) => !matches!(
                **statement,
                ast::Statement::Set(_) | ast::Statement::ShowVariable { .. }
            ),
            _ => true,
        }
    }

    /// VACUUM, also with ANALYZE.
    pub(crate) fn is_vacuum(&self) -> bool {
        match &self.kind {
            Kind::Utility(Utility::Nothing(tag)) => *tag == "VACUUM",
            Kind::Analyze(analyze) => analyze.tag == "VACUUM",
            _ => false,
        }
    }

    /// The cursor that a FETCH reads.
    pub fn fetched_cursor(&self) -> Option<String> {
        match &self.kind {
            Kind::Fetch(fetch) if !fetch.is_move => Some(fetch.cursor.clone()),
            _ => None,
        }
    }

    /// The cursor that a MOVE goes forward in, and over how many rows at most.
    pub fn moves_over(&self) -> Option<(String, usize)> {
        let Kind::Fetch(fetch) = &self.kind else { return None };
        let limit = match fetch.direction {
            Direction::Forward(None) => usize::MAX,
            Direction::Forward(Some(rows)) => usize::try_from(rows).ok()?,
            _ => return None,
        };
        fetch.is_move.then(|| (fetch.cursor.clone(), limit))
    }

    /// The same statement around another syntax tree (EXPLAIN's inner one).
    pub(crate) fn with_kind(&self, kind: Kind) -> Self {
        Self { kind, ..self.clone() }
    }
}
