//! FOREIGN KEY constraints as tables declare them. Whether rows satisfy them is the planner's to check.
//!
//! A constraint names its columns by their places in the referencing table, and those of the referenced table by their
//! places in the unique index that it depends on: columns may be renamed, and others dropped, on both sides.

use super::index::Index;
use super::state::{DatabaseState, Relation};
use super::table::{TableDefinition, TableVersion};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most columns of a foreign key, as in PostgreSQL.
pub const FOREIGN_KEY_COLUMNS_MAX: usize = 32;

/// What becomes of the referencing rows when the referenced one goes or gets another key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReferentialAction {
    #[default]
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

/// A FOREIGN KEY constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    pub oid: u32,
    pub name: String,
    /// Positions in the referencing table, as they were listed.
    pub columns: Vec<usize>,
    /// oid of the referenced table.
    pub references: u32,
    /// oid of the unique index of it that the constraint depends on.
    pub index: u32,
    /// For each of `columns` the place of the referenced one among the index's columns.
    pub places: Vec<usize>,
    pub on_update: ReferentialAction,
    pub on_delete: ReferentialAction,
    /// The columns that ON DELETE SET NULL or SET DEFAULT sets, as they were listed; all of `columns` where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_delete_columns: Vec<usize>,
    /// MATCH FULL: the columns are all NULL or none is.
    pub match_full: bool,
    pub deferrable: bool,
    pub initially_deferred: bool,
    /// False where it was added NOT VALID and the rows that were there have not been checked.
    pub validated: bool,
    /// Nobody looks whether new rows have what they reference: the triggers of its table are off.
    #[serde(default)]
    pub unchecked: bool,
    /// Nobody looks for what references rows that go: those of the referenced table are.
    #[serde(default)]
    pub unfollowed: bool,
}

impl ForeignKey {
    /// The index that it depends on, of the referenced table.
    pub fn index_of<'a>(&self, referenced: &'a TableDefinition) -> Option<&'a Index> {
        referenced.all_indexes().find(|index| index.oid == self.index)
    }

    /// Positions in the referenced table, one for each of `columns`.
    pub fn referenced_columns(&self, referenced: &TableDefinition) -> Option<Vec<usize>> {
        let index = self.index_of(referenced)?;
        self.places.iter().map(|at| index.columns.get(*at).copied()).collect()
    }
}

impl TableDefinition {
    pub fn foreign_key(&self, name: &str) -> Option<&ForeignKey> {
        self.foreign_keys.iter().find(|key| key.name == name)
    }

    /// Takes column `at` out of the foreign keys' positions; those that have it go.
    pub(super) fn drop_from_foreign_keys(&mut self, at: usize) {
        self.foreign_keys.retain(|key| !key.columns.contains(&at));
        let keys = self.foreign_keys.iter_mut();
        let columns = keys.flat_map(|key| key.columns.iter_mut().chain(&mut key.on_delete_columns));
        columns.filter(|own| **own > at).for_each(|own| *own -= 1);
    }
}

impl DatabaseState {
    /// The foreign keys that reference a table, each with its own table, in the order of their creation.
    pub fn references_to(&self, oid: u32) -> Vec<(Arc<TableVersion>, ForeignKey)> {
        let mut found = Vec::new();
        for table in self.relations().filter_map(Relation::as_table) {
            let keys = table.definition().foreign_keys.iter();
            found.extend(
                keys.filter(|key| key.references == oid)
                    .map(|key| (table.clone(), key.clone())),
            );
        }
        found.sort_by_key(|(_, key)| key.oid);
        found
    }
}
