//! Indexes: what a table declares of them. The rows themselves are found by the executor, which builds an index's data
//! from segments; uniqueness is checked here (`unique`).

use super::table::TableDefinition;
use super::unique::{ComputedSlot, KeyRows};
use crate::error::{ErrorKind, Result, StorageError};
use crate::types::SqlType;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Most columns of an index, as in PostgreSQL.
const INDEX_COLUMNS_MAX: usize = 32;

/// What an index is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexKind {
    /// A PRIMARY KEY's.
    Primary,
    /// A UNIQUE constraint's.
    Constraint,
    /// CREATE UNIQUE INDEX.
    Unique,
    /// CREATE INDEX.
    Plain,
}

/// When a constraint's keys are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deferral {
    /// With the statement, whatever is said.
    #[default]
    Never,
    /// With the statement, unless SET CONSTRAINTS defers it.
    Immediate,
    /// At the end of the transaction, unless SET CONSTRAINTS says otherwise.
    Deferred,
}

impl Deferral {
    pub(super) fn is_never(&self) -> bool {
        *self == Deferral::Never
    }
}

/// `a DESC NULLS LAST` and an operator class. What it says is shown, but changes no answer: any order of the keys finds
/// the same rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnOrder {
    pub descending: bool,
    pub nulls_first: bool,
    /// Where it is not the type's own (`text_pattern_ops`).
    pub operator_class: Option<String>,
}

/// What an index was declared with that changes nothing, and is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexShown {
    /// The access method; None: btree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// WITH: names and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
    /// ON ONLY a table that has partitions: no partition has its rows in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<OnlyIndex>,
}

/// An index of a partitioned table that none of its partitions has one for: it is not valid, holds no rows and forbids none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlyIndex {
    /// It was declared UNIQUE, which is shown.
    pub unique: bool,
    /// It is a constraint's: the primary key's, or a UNIQUE constraint's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<IndexKind>,
}

impl IndexShown {
    fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or("btree")
    }
}

/// An index of a table, the primary key's among them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Index {
    pub oid: u32,
    pub name: String,
    pub kind: IndexKind,
    /// Positions in the table, in the key's order.
    pub columns: Vec<usize>,
    /// One a column.
    pub order: Vec<ColumnOrder>,
    /// Positions of INCLUDE's columns, which are shown and change nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<usize>,
    #[serde(default, skip_serializing_if = "IndexShown::is_plain")]
    pub shown: IndexShown,
    /// NULLs are equal to each other where the index is unique.
    pub nulls_not_distinct: bool,
    #[serde(default, skip_serializing_if = "Deferral::is_never")]
    pub deferral: Deferral,
    /// Shared with the versions of the table before and after.
    #[serde(skip)]
    pub slot: Arc<IndexSlot>,
    /// Likewise: where keys are looked for that are to be in one row at most.
    #[serde(skip)]
    pub key_rows: Arc<KeyRows>,
}

impl Index {
    pub fn is_primary(&self) -> bool {
        self.kind == IndexKind::Primary
    }

    pub fn is_unique(&self) -> bool {
        self.kind != IndexKind::Plain
    }

    /// Whether it has the table's rows.
    pub fn is_valid(&self) -> bool {
        self.shown.only.is_none()
    }

    /// Whether it was declared UNIQUE, which one that is not valid sees to in no row.
    pub fn is_declared_unique(&self) -> bool {
        self.is_unique() || self.shown.only.is_some_and(|only| only.unique)
    }

    /// What it is there for, also of one that is not valid yet.
    pub fn declared_kind(&self) -> IndexKind {
        match self.shown.only {
            Some(OnlyIndex {
                constraint: Some(kind), ..
            }) => kind,
            Some(OnlyIndex { unique: true, .. }) => IndexKind::Unique,
            _ => self.kind,
        }
    }

    /// Whether a PRIMARY KEY or UNIQUE constraint is made of it, of one that is not valid yet too.
    pub fn is_constraint(&self) -> bool {
        matches!(self.declared_kind(), IndexKind::Primary | IndexKind::Constraint)
    }
}

/// Holds an index's data, whose type is its builder's affair: it goes when the last version of the table goes that has
/// the index.
#[derive(Default)]
pub struct IndexSlot(OnceLock<Arc<dyn Any + Send + Sync>>);

impl IndexSlot {
    /// The data, made at first use; None where another type was put here.
    pub fn get_or_make<T: Any + Send + Sync + Default>(&self) -> Option<Arc<T>> {
        self.0.get_or_init(|| Arc::new(T::default())).clone().downcast().ok()
    }
}

impl fmt::Debug for IndexSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndexSlot")
    }
}

/// An index whose keys are expressions, or that holds some of the rows only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExpressionIndex {
    pub oid: u32,
    pub name: String,
    pub unique: bool,
    pub nulls_not_distinct: bool,
    /// SQL text over the table's columns.
    pub keys: Vec<String>,
    /// WHERE, likewise.
    pub predicate: Option<String>,
    /// What computes its keys, given by who reads or writes rows.
    #[serde(skip)]
    pub computed: ComputedSlot,
    /// As those of an [`Index`].
    #[serde(skip)]
    pub slot: Arc<IndexSlot>,
    #[serde(skip)]
    pub key_rows: Arc<KeyRows>,
    /// One a key; none where the store is older than these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<ColumnOrder>,
    /// Names of INCLUDE's columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    #[serde(default, skip_serializing_if = "IndexShown::is_plain")]
    pub shown: IndexShown,
    /// The partition whose rows alone it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
}

impl ExpressionIndex {
    /// Whether it was declared UNIQUE, which one that is not valid sees to in no row.
    pub fn is_declared_unique(&self) -> bool {
        self.unique || self.shown.only.is_some_and(|only| only.unique)
    }

    /// Its keys, each with its order.
    pub fn ordered_keys(&self) -> impl Iterator<Item = (&String, ColumnOrder)> {
        let order = |at| self.order.get(at).cloned().unwrap_or_default();
        self.keys.iter().enumerate().map(move |(at, key)| (key, order(at)))
    }
}

/// What CREATE INDEX asks for.
#[derive(Clone, Debug, Default)]
pub struct IndexDef {
    /// Made from the table and its columns where None.
    pub name: Option<String>,
    pub columns: Vec<(String, ColumnOrder)>,
    pub unique: bool,
    /// A UNIQUE constraint of the table needs it.
    pub constraint: bool,
    pub nulls_not_distinct: bool,
    /// Names of INCLUDE's columns.
    pub include: Vec<String>,
    pub shown: IndexShown,
}

impl TableDefinition {
    /// The primary key's index, then the others.
    pub fn all_indexes(&self) -> impl Iterator<Item = &Index> {
        self.primary_key.iter().chain(&self.indexes)
    }

    /// What another table asks for to have an index as this one's, without its name.
    pub fn index_def(&self, index: &Index) -> IndexDef {
        let name = |at: &usize| self.columns[*at].name.clone();
        IndexDef {
            name: None,
            columns: index
                .columns
                .iter()
                .map(name)
                .zip(index.order.iter().cloned())
                .collect(),
            unique: index.is_declared_unique(),
            constraint: index.kind == IndexKind::Constraint,
            nulls_not_distinct: index.nulls_not_distinct,
            include: index.include.iter().map(name).collect(),
            shown: IndexShown {
                only: None,
                ..index.shown.clone()
            },
        }
    }

    /// The primary key's index, of one that is not valid yet too.
    pub fn declared_primary_key(&self) -> Option<&Index> {
        self.all_indexes()
            .find(|index| index.declared_kind() == IndexKind::Primary)
    }

    /// Those whose keys are computed: its own, and its partitions'.
    pub fn computed_indexes(&self) -> impl Iterator<Item = &ExpressionIndex> {
        self.expression_indexes.iter().chain(&self.partition_indexes)
    }

    /// The oids of its own indexes.
    pub(super) fn index_oids(&self) -> impl Iterator<Item = u32> {
        let computed = self.expression_indexes.iter().map(|index| index.oid);
        self.all_indexes().map(|index| index.oid).chain(computed)
    }

    pub(super) fn all_indexes_mut(&mut self) -> impl Iterator<Item = &mut Index> {
        self.primary_key.iter_mut().chain(&mut self.indexes)
    }

    /// Positions and orders of an index's columns.
    pub(super) fn index_columns(&self, columns: &[(String, ColumnOrder)]) -> Result<(Vec<usize>, Vec<ColumnOrder>)> {
        if columns.len() > INDEX_COLUMNS_MAX {
            let message = format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index");
            return Err(StorageError::new(ErrorKind::TooManyColumns, message));
        }
        let mut positions = Vec::new();
        for (name, _) in columns {
            let position = self.column_index(name).ok_or_else(|| {
                StorageError::new(ErrorKind::UndefinedColumn, format!("column \"{name}\" does not exist"))
            })?;
            if self.columns[position].sql_type == SqlType::Json {
                let message = "data type json has no default operator class for access method \"btree\"";
                return Err(StorageError::new(ErrorKind::UndefinedObject, message).hint(
                    "You must specify an operator class for the index or define a default operator class for the data type.",
                ));
            }
            positions.push(position);
        }
        let order = columns.iter().map(|(_, order)| order.clone()).collect();
        Ok((positions, order))
    }

    /// Positions of INCLUDE's columns.
    pub(super) fn included_columns(&self, names: &[String]) -> Result<Vec<usize>> {
        let position = |name: &String| {
            let missing = || StorageError::new(ErrorKind::UndefinedColumn, format!("column \"{name}\" does not exist"));
            self.column_index(name).ok_or_else(missing)
        };
        names.iter().map(position).collect()
    }

    /// Data of other rows than those to come is of no use to them.
    pub(super) fn forget_index_data(&mut self) {
        for index in self.all_indexes_mut() {
            index.slot = Arc::default();
            index.key_rows = Arc::default();
        }
        for index in self.expression_indexes.iter_mut().chain(&mut self.partition_indexes) {
            index.slot = Arc::default();
            index.key_rows = Arc::default();
        }
    }

    /// Takes column `at` out of the indexes' positions; those that have it go.
    pub(super) fn drop_from_indexes(&mut self, at: usize) {
        let keeps = |index: &Index| !index.columns.contains(&at) && !index.include.contains(&at);
        self.primary_key = self.primary_key.take().filter(keeps);
        self.indexes.retain(keeps);
        for index in self.all_indexes_mut() {
            let positions = index.columns.iter_mut().chain(&mut index.include);
            positions.filter(|own| **own > at).for_each(|own| *own -= 1);
        }
    }
}
