//! Commit: a transaction's changes on top of what others have committed.

use super::super::database::Published;
use super::super::state::{Relation, SchemaEntry, State};
use super::{Touch, Transaction};
use crate::error::{ErrorKind, Result, StorageError};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Transaction {
    /// Makes the changes visible to all. On error nothing is changed; a SerializationFailure may succeed when retried
    /// from the beginning.
    pub fn commit(self) -> Result<()> {
        match self.publish()? {
            Some(published) => published.wait(),
            None => Ok(()),
        }
    }

    /// `commit`, which leaves it to the caller to wait until the changes are durable; None: there are none.
    pub fn publish(self) -> Result<Option<Published>> {
        if !self.is_dirty() {
            return Ok(None);
        }
        if let Some(store) = self.database.store() {
            // Here, where nobody waits for it: others commit meanwhile.
            store.write_rows(&self.base, &self.state)?;
        }
        let published = self.database.publish(|current| {
            if Arc::ptr_eq(current, &self.base) {
                Ok(self.state.clone())
            } else {
                Ok(Arc::new(self.merge(current)?))
            }
        });
        published.map(Some)
    }

    /// Moves the transaction onto what is committed now, keeping its changes: a new snapshot for the next statement.
    pub fn refresh(&mut self) -> Result<()> {
        let current = self.database.snapshot();
        if Arc::ptr_eq(&current, &self.base) {
            return Ok(());
        }
        self.state = if self.is_dirty() {
            Arc::new(self.merge(&current)?)
        } else {
            current.clone()
        };
        for (oid, touch) in &mut self.touched {
            if touch.base.is_some() {
                touch.base = current.relation_by_oid(*oid).cloned();
            }
        }
        self.base = current;
        Ok(())
    }

    /// Whether it has changed more than rows.
    fn changes_meaning(&self) -> bool {
        let rows_alone = |(oid, touch): (&u32, &Touch)| match (&touch.base, self.state.relation_by_oid(*oid)) {
            (Some(Relation::Table(base)), Some(Relation::Table(own))) => {
                Arc::ptr_eq(base.definition(), own.definition())
            }
            _ => false,
        };
        !(self.objects.is_empty()
            && self.schemas_created.is_empty()
            && self.schemas_dropped.is_empty()
            && self.touched.iter().all(rows_alone))
    }

    /// The current state of others with this transaction's changes.
    fn merge(&self, current: &State) -> Result<State> {
        let mut next = current.clone();
        for name in &self.schemas_created {
            if next.schema(name).is_some() {
                let message = format!("schema \"{name}\" already exists");
                return Err(StorageError::new(ErrorKind::DuplicateSchema, message));
            }
            let oid = self.state.schema(name).map_or(0, |schema| schema.oid);
            next.schemas.insert(
                name.clone(),
                Arc::new(SchemaEntry {
                    oid,
                    relations: BTreeMap::new(),
                }),
            );
        }
        let mut finals = Vec::new();
        for (oid, touch) in &self.touched {
            let own = self.state.relation_by_oid(*oid);
            let Some(base) = &touch.base else {
                finals.extend(own.cloned());
                continue;
            };
            let theirs = next
                .relation_by_oid(*oid)
                .cloned()
                .ok_or_else(StorageError::serialization)?;
            next.remove(theirs.schema_name(), theirs.name());
            match (base, &theirs) {
                (Relation::Table(base), Relation::Table(theirs)) if base.version() == theirs.version() => {
                    finals.extend(own.cloned());
                }
                (Relation::Table(base), Relation::Table(theirs))
                    if !touch.rewritten && Arc::ptr_eq(base.definition(), theirs.definition()) =>
                {
                    finals.push(Relation::Table(
                        theirs.appended(&touch.appended, self.database.budget())?,
                    ));
                }
                (Relation::View(base), Relation::View(theirs)) if Arc::ptr_eq(base, theirs) => {
                    finals.extend(own.cloned())
                }
                (Relation::Partition(base), Relation::Partition(theirs)) if Arc::ptr_eq(base, theirs) => {
                    finals.extend(own.cloned())
                }
                (Relation::Sequence(base), Relation::Sequence(theirs)) if Arc::ptr_eq(base, theirs) => {
                    finals.extend(own.cloned())
                }
                _ => return Err(StorageError::serialization()),
            }
        }
        for relation in finals {
            let table = relation.as_table();
            let own_indexes = table.iter().flat_map(|table| table.definition().all_indexes());
            for name in own_indexes.map(|index| index.name.as_str()).chain([relation.name()]) {
                let taken = next
                    .schema(relation.schema_name())
                    .is_some_and(|schema| schema.has(name));
                if taken {
                    return Err(StorageError::duplicate_table(name));
                }
            }
            if !next.put(relation) {
                return Err(StorageError::serialization());
            }
        }
        for (key, before) in &self.objects {
            let theirs = next.objects.get(key);
            let same = match (before, theirs) {
                (Some(before), Some(theirs)) => before.is(theirs),
                (before, theirs) => before.is_none() && theirs.is_none(),
            };
            if !same {
                return Err(StorageError::serialization());
            }
            match self.state.objects.get(key) {
                Some(own) => next.objects.insert(key.clone(), own.clone()),
                None => next.objects.remove(key),
            };
        }
        for name in &self.schemas_dropped {
            if next.schema(name).is_none_or(|schema| !schema.relations.is_empty()) {
                return Err(StorageError::serialization());
            }
            next.schemas.remove(name);
        }
        match self.changes_meaning() {
            true => next.change_meaning(),
            false => next.meaning = current.meaning,
        }
        Ok(next)
    }
}
