//! What CREATE TABLE asks for.

use super::index::IndexDef;
use super::partition::Partitioning;
use crate::types::SqlType;
use serde::{Deserialize, Serialize};

/// A column as CREATE TABLE declares it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnDef {
    pub name: String,
    pub sql_type: SqlType,
    pub not_null: bool,
    /// The DEFAULT expression as SQL text; the planner evaluates it.
    pub default: Option<String>,
    /// Set where the values are not the client's to give.
    pub generated: Option<Generated>,
    /// The domain that it was declared with: schema and name. Its conditions are checked as the domain says now.
    pub domain: Option<(String, String)>,
    /// The collation that it was declared with, which sorts as all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<String>,
}

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generated {
    /// `AS (expression) STORED`: `default` holds the expression, over the other columns.
    Stored,
    /// `ALWAYS AS IDENTITY`: from a sequence, unless INSERT says OVERRIDING SYSTEM VALUE.
    Always,
    /// `BY DEFAULT AS IDENTITY`.
    ByDefault,
}

/// What becomes of a temporary table at the end of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnCommit {
    #[default]
    PreserveRows,
    DeleteRows,
    Drop,
}

impl ColumnDef {
    pub fn new(name: impl Into<String>, sql_type: SqlType) -> Self {
        Self {
            name: name.into(),
            sql_type,
            not_null: false,
            default: None,
            generated: None,
            domain: None,
            collation: None,
        }
    }

    pub fn not_null(mut self) -> Self {
        self.not_null = true;
        self
    }
}

/// What CREATE TABLE asks for.
#[derive(Clone, Debug, Default)]
pub struct TableDef {
    pub columns: Vec<ColumnDef>,
    /// Names of the PRIMARY KEY columns; they become NOT NULL.
    pub primary_key: Vec<String>,
    /// The key's constraint name; `{table}_pkey` where None.
    pub primary_key_name: Option<String>,
    /// UNIQUE constraints.
    pub unique: Vec<IndexDef>,
    pub checks: Vec<Check>,
    pub on_commit: OnCommit,
    /// A materialized view's query.
    pub query: Option<String>,
    pub partitioning: Option<Partitioning>,
    /// Storage parameters: names and values.
    pub options: Vec<(String, String)>,
}

/// A CHECK constraint. The planner evaluates it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    /// The condition as SQL text.
    pub condition: String,
    /// It was added NOT VALID, and the rows that were there have not been checked.
    #[serde(default)]
    pub not_valid: bool,
    /// What COMMENT ON says of it: it has no oid of its own by which comments are kept.
    #[serde(default)]
    pub comment: Option<String>,
}

/// Whether a table's columns are kept in a GPU's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceResidence {
    /// As queries read them and there is room.
    #[default]
    Auto,
    /// From now on, and given up after all others.
    Resident,
    Never,
}

impl DeviceResidence {
    pub const NAMES: [(&'static str, Self); 3] = [
        ("auto", Self::Auto),
        ("resident", Self::Resident),
        ("never", Self::Never),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Resident => "resident",
            Self::Never => "never",
        }
    }
}
