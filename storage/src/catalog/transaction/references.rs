//! What a transaction knows of foreign keys: those it declares, keys that it has yet to check, and the tables that its
//! checks relied on.
//!
//! A check relies on rows that others might take away before the transaction commits, or on rows not being there that
//! others might add. Where a table that was relied on is not as it was, the keys are looked up again, and where they were
//! too many to remember, or the table has another definition: SerializationFailure (40001).

use super::super::foreign_key::ForeignKey;
use super::super::state::DatabaseState;
use super::super::table::TableVersion;
use super::Transaction;
use crate::error::{ErrorKind, Result, StorageError};
use arrow::array::{Array, ArrayRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keys that are remembered of a table that was relied on; where there are more of them, the table may not lose any row,
/// or get any.
const KEYS_MAX: usize = 1 << 12;

/// Keys that may violate a constraint: they were not there when their rows were written, or are gone since. What the
/// transaction does later may put that right.
#[derive(Clone, Debug)]
pub struct PendingKeys {
    /// oids of the constraint and of its table.
    pub constraint: u32,
    pub table: u32,
    /// One array for each column of the constraint.
    pub keys: Vec<ArrayRef>,
    /// They are of rows that the referenced table lost; else of rows that the referencing one got.
    pub are_gone: bool,
    /// They are checked at the end of the statement even where the constraint is deferred.
    pub at_once: bool,
}

/// What the checks of a transaction relied on in a table.
#[derive(Clone, Debug, Default)]
struct Reliance {
    /// That no row has these keys in these columns.
    absent: Vec<(Vec<usize>, Vec<ArrayRef>)>,
    /// That more keys are in no row than are listed.
    on_absence: bool,
    /// That the rows with these keys, of the index with that oid, are there.
    keys: Vec<(u32, Vec<ArrayRef>)>,
    /// That more rows are there than are listed.
    on_all: bool,
    /// The same of rows that others have committed since the snapshot.
    newer: Vec<(u32, Vec<ArrayRef>)>,
    /// That they are there, more than are listed, in that version.
    newer_all: Option<u64>,
}

/// Part of a transaction; what a savepoint goes back to.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    relied_on: BTreeMap<u32, Reliance>,
    pending: Vec<PendingKeys>,
    /// SET CONSTRAINTS ALL, and what followed it for single constraints.
    all_deferred: Option<bool>,
    deferred: BTreeMap<u32, bool>,
    /// Indexes in which keys stand twice, each with its table.
    pub(super) waiting_keys: BTreeSet<(u32, u32)>,
    is_replica: bool,
}

impl References {
    /// What SET CONSTRAINTS has said of a constraint.
    pub(super) fn asked(&self, oid: u32) -> Option<bool> {
        self.deferred.get(&oid).copied().or(self.all_deferred)
    }
}

impl Transaction {
    /// Adds a foreign key and gives its oid; the rows there are the caller's to check. Nobody may write to the referenced
    /// table meanwhile: it gets another definition.
    pub fn add_foreign_key(&mut self, schema: &str, table: &str, key: ForeignKey) -> Result<u32> {
        let oid = self.database.new_oid();
        let references = key.references;
        self.redefine(schema, table, |definition| {
            if definition.constraints().any(|known| known == key.name) {
                let message = format!("constraint \"{}\" for relation \"{table}\" already exists", key.name);
                return Err(StorageError::new(ErrorKind::DuplicateObject, message));
            }
            definition.foreign_keys.push(ForeignKey { oid, ..key });
            Ok(())
        })?;
        self.root_changed(references)?;
        Ok(oid)
    }

    /// ENABLE or DISABLE TRIGGER ALL of a table: of those that look after its foreign keys and such that reference it.
    pub fn switch_references(&mut self, oid: u32, on: bool) -> Result<()> {
        let concerned = |table: &&Arc<TableVersion>| {
            let definition = table.definition();
            let own = definition.oid == oid && !definition.foreign_keys.is_empty();
            own || definition.foreign_keys.iter().any(|key| key.references == oid)
        };
        let tables = self.state.relations().filter_map(|relation| relation.as_table());
        let tables: Vec<Arc<TableVersion>> = tables.filter(concerned).cloned().collect();
        for table in tables {
            let definition = table.definition();
            self.redefine(&definition.schema_name, &definition.name, |next| {
                let is_own = next.oid == oid;
                for key in &mut next.foreign_keys {
                    key.unchecked = if is_own { !on } else { key.unchecked };
                    key.unfollowed = if key.references == oid { !on } else { key.unfollowed };
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Whether rows are written as they are copied from elsewhere: foreign keys are neither checked nor followed.
    pub fn is_replica(&self) -> bool {
        self.references.is_replica
    }

    pub fn set_replica(&mut self, is_replica: bool) {
        self.references.is_replica = is_replica;
    }

    /// VALIDATE CONSTRAINT; the rows there are the caller's to check.
    pub fn set_validated(&mut self, schema: &str, table: &str, name: &str) -> Result<()> {
        self.redefine(schema, table, |definition| {
            let keys = definition.foreign_keys.iter_mut();
            keys.filter(|key| key.name == name).for_each(|key| key.validated = true);
            let checks = definition.checks.iter_mut();
            checks
                .filter(|check| check.name == name)
                .for_each(|check| check.not_valid = false);
            Ok(())
        })
    }

    /// Notes that a check relied on rows of a table. `keys` are distinct, and have the columns and types of the index.
    pub fn rely_on_rows(&mut self, table: u32, index: u32, keys: Option<Vec<ArrayRef>>) {
        let own = self.references.relied_on.entry(table).or_default();
        let known: usize = own.keys.iter().map(|(_, keys)| rows(keys)).sum();
        match keys {
            Some(keys) if known + rows(&keys) <= KEYS_MAX && !own.on_all => own.keys.push((index, keys)),
            _ => {
                own.on_all = true;
                own.keys.clear();
            }
        }
    }

    /// What the transaction began with.
    pub fn base(&self) -> &Arc<DatabaseState> {
        &self.base
    }

    /// The same of rows that others have committed to it since the snapshot, as `theirs` shows.
    pub fn rely_on_newer_rows(&mut self, theirs: &TableVersion, index: u32, keys: Option<Vec<ArrayRef>>) {
        let own = self.references.relied_on.entry(theirs.oid()).or_default();
        match keys {
            Some(keys) if rows(&keys) <= KEYS_MAX => own.newer.push((index, keys)),
            _ => own.newer_all = Some(theirs.version()),
        }
    }

    /// Notes that a check relied on a table having no rows with these keys in these columns, whose types they have.
    pub fn rely_on_absence(&mut self, table: u32, columns: &[usize], keys: Option<Vec<ArrayRef>>) {
        let own = self.references.relied_on.entry(table).or_default();
        let known: usize = own.absent.iter().map(|(_, keys)| rows(keys)).sum();
        match keys {
            Some(keys) if known + rows(&keys) <= KEYS_MAX && !own.on_absence => {
                own.absent.push((columns.to_vec(), keys));
            }
            _ => {
                own.on_absence = true;
                own.absent.clear();
            }
        }
    }

    /// Whether a constraint is checked at the end of the transaction.
    pub fn is_deferred(&self, key: &ForeignKey) -> bool {
        let asked = self.references.asked(key.oid);
        key.deferrable && asked.unwrap_or(key.initially_deferred)
    }

    /// SET CONSTRAINTS of one constraint or, with None, of all.
    pub fn set_deferred(&mut self, constraint: Option<u32>, deferred: bool) {
        match constraint {
            Some(oid) => drop(self.references.deferred.insert(oid, deferred)),
            None => {
                self.references.all_deferred = Some(deferred);
                self.references.deferred.clear();
            }
        }
    }

    pub fn add_pending(&mut self, keys: PendingKeys) {
        self.references.pending.push(keys);
    }

    pub fn has_pending(&self) -> bool {
        !self.references.pending.is_empty() || !self.references.waiting_keys.is_empty()
    }

    /// Takes the keys that are to be checked now: `all`, or those of constraints that are not deferred.
    pub fn take_pending(&mut self, all: bool) -> Vec<PendingKeys> {
        let pending = std::mem::take(&mut self.references.pending);
        let waits = |keys: &PendingKeys| {
            if keys.at_once {
                return false;
            }
            let table = self.state.table_by_oid(keys.table);
            let own = table.and_then(|table| {
                let mut keys_of = table.definition().foreign_keys.iter();
                keys_of.find(|key| key.oid == keys.constraint)
            });
            !all && own.is_some_and(|key| self.is_deferred(key))
        };
        let (later, now): (Vec<_>, Vec<_>) = pending.into_iter().partition(waits);
        self.references.pending = later;
        now
    }

    /// Fails where others have changed a table since that checks relied on.
    pub(super) fn check_relied_on(&self, current: &DatabaseState) -> Result<()> {
        for (oid, reliance) in &self.references.relied_on {
            let Some(base) = self.base.table_by_oid(*oid) else {
                continue;
            };
            let theirs = current.table_by_oid(*oid).ok_or_else(StorageError::serialization)?;
            let newer_there = |(index, keys): &(u32, Vec<ArrayRef>)| -> Result<bool> {
                let own = theirs.definition().all_indexes().find(|own| own.oid == *index);
                let Some(own) = own else { return Ok(false) };
                let found = theirs.locate(own, keys, self.database.budget())?;
                Ok(found.iter().all(Option::is_some))
            };
            for newer in &reliance.newer {
                if !newer_there(newer)? {
                    return Err(StorageError::serialization());
                }
            }
            if reliance.newer_all.is_some_and(|version| version != theirs.version()) {
                return Err(StorageError::serialization());
            }
            if base.version() == theirs.version() {
                continue;
            }
            let same_definition = Arc::ptr_eq(base.definition(), theirs.definition());
            if reliance.on_absence || !same_definition {
                return Err(StorageError::serialization());
            }
            if base.rows_since() != theirs.rows_since() && (reliance.on_all || !self.are_there(theirs, reliance)?) {
                return Err(StorageError::serialization());
            }
        }
        Ok(())
    }

    /// Fails where others have added rows that checks relied on not being there. `next` has both sides' changes.
    pub(super) fn check_absence(&self, current: &DatabaseState, next: &DatabaseState) -> Result<()> {
        for (oid, reliance) in &self.references.relied_on {
            let version = |state: &DatabaseState| state.table_by_oid(*oid).map(|table| table.version());
            let Some(table) = next.table_by_oid(*oid) else {
                continue;
            };
            if version(&self.base) == version(current) {
                continue;
            }
            for (columns, keys) in &reliance.absent {
                let found = table.locate_in(columns, keys, self.database.budget())?;
                if found.iter().any(Option::is_some) {
                    return Err(StorageError::serialization());
                }
            }
        }
        Ok(())
    }

    /// Whether the rows relied on are in a version that has lost some.
    fn are_there(&self, table: &TableVersion, reliance: &Reliance) -> Result<bool> {
        for (oid, keys) in &reliance.keys {
            let Some(index) = table.definition().all_indexes().find(|index| index.oid == *oid) else {
                return Ok(false);
            };
            let found = table.locate(index, keys, self.database.budget())?;
            // Those that this transaction wrote itself were not there at the beginning.
            let missing = (0..found.len()).filter(|row| found[*row].is_none());
            let missing: Vec<usize> = missing.collect();
            if missing.is_empty() {
                continue;
            }
            let Some(base) = self.base.table_by_oid(table.oid()) else {
                return Ok(false);
            };
            let before = base.locate(index, keys, self.database.budget())?;
            if missing.iter().any(|row| before[*row].is_some()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn rows(keys: &[ArrayRef]) -> usize {
    keys.first().map_or(0, |keys| keys.len())
}
