//! Keys of deferrable constraints: rows may have them twice until the transaction ends, or SET CONSTRAINTS has them checked.
//!
//! Added rows are checked at once all the same. Where they meet rows of the same key and the constraint is deferred, its index is
//! noted, and all its rows are checked later: so that transactions in which that does not happen pay nothing.

use super::Transaction;
use crate::catalog::index::{Deferral, Index};
use crate::catalog::unique;
use crate::error::{Result, StorageError};

impl Transaction {
    /// Whether a constraint, by its oid, is checked at the end of the transaction.
    pub(super) fn waits(&self, oid: u32, deferral: Deferral) -> bool {
        let asked = self.references.asked(oid);
        deferral != Deferral::Never && asked.unwrap_or(deferral == Deferral::Deferred)
    }

    pub(super) fn key_waits(&self, index: &Index) -> bool {
        self.waits(index.oid, index.deferral)
    }

    /// Notes indexes of a table in which keys stand twice.
    pub(super) fn add_waiting(&mut self, table: u32, indexes: Vec<u32>) {
        let waiting = &mut self.references.waiting_keys;
        waiting.extend(indexes.into_iter().map(|index| (table, index)));
    }

    /// Fails where a key stands twice (23505) that is to be checked now: `all`, or those of constraints that are not deferred.
    pub fn check_waiting_keys(&mut self, all: bool) -> Result<()> {
        for (oid, index) in std::mem::take(&mut self.references.waiting_keys) {
            let Some(table) = self.state.table_by_oid(oid) else {
                continue;
            };
            let definition = table.definition();
            let Some(own) = definition.all_indexes().find(|own| own.oid == index) else {
                continue;
            };
            if !all && self.key_waits(own) {
                self.references.waiting_keys.insert((oid, index));
                continue;
            }
            unique::check_one(definition, own, &[], table.segments(), self.database.budget())?;
        }
        Ok(())
    }

    /// Has a constraint that makes these columns unique be checked later than at once.
    pub fn defer_key(&mut self, schema: &str, table: &str, columns: &[String], deferral: Deferral) -> Result<()> {
        self.redefine(schema, table, |definition| {
            let places = columns.iter().map(|name| definition.column_index(name));
            let places: Option<Vec<usize>> = places.collect();
            let is_meant = |index: &&mut Index| {
                index.is_constraint() && Some(&index.columns) == places.as_ref() && index.deferral == Deferral::Never
            };
            let keys = definition.primary_key.iter_mut().chain(&mut definition.indexes);
            let key = keys.rev().find(is_meant);
            key.ok_or_else(|| StorageError::internal("there is no such key"))?
                .deferral = deferral;
            Ok(())
        })
    }
}
