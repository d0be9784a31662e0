//! Sequences, and what is no relation.

use super::super::objects::{Object, ObjectKey};
use super::super::rights::Secured;
use super::super::sequence::{Sequence, SequenceDef, SequenceOwner};
use super::super::state::Relation;
use super::Transaction;
use crate::error::{ErrorKind, Result, StorageError};
use std::sync::Arc;

impl Transaction {
    pub fn create_sequence(
        &mut self,
        schema: &str,
        name: &str,
        def: SequenceDef,
        owner: Option<SequenceOwner>,
    ) -> Result<Arc<Sequence>> {
        self.check_free(schema, name)?;
        let oid = self.database.new_oid();
        self.touch_created(oid);
        let sequence = Sequence::new(oid, schema, name, def, owner).with_log(self.database.sequence_log(schema));
        let sequence = Arc::new(sequence);
        self.put(Relation::Sequence(sequence.clone()));
        self.own_relation(schema, oid, Secured::Sequence);
        Ok(sequence)
    }

    /// ALTER SEQUENCE: another definition and, with `restart`, another next value.
    pub fn alter_sequence(
        &mut self,
        schema: &str,
        name: &str,
        def: SequenceDef,
        owner: Option<SequenceOwner>,
        restart: Option<i64>,
    ) -> Result<()> {
        let relation = self.relation(schema, name)?;
        let Relation::Sequence(current) = &relation else {
            let message = format!("\"{name}\" is not a sequence");
            return Err(StorageError::new(ErrorKind::WrongObjectType, message));
        };
        let next = Sequence {
            def,
            owner,
            ..(**current).clone()
        };
        let next = restart.map_or_else(|| next.clone(), |at| next.restarted(at));
        self.touch(&relation).rewritten = true;
        self.put(Relation::Sequence(Arc::new(next)));
        Ok(())
    }

    /// The sequences that belong to a table, or to one of its columns.
    pub fn owned_sequences(&self, table_oid: u32, column: Option<&str>) -> Vec<Arc<Sequence>> {
        let owned = |sequence: &&Arc<Sequence>| {
            sequence
                .owner
                .as_ref()
                .is_some_and(|owner| owner.table_oid == table_oid && column.is_none_or(|column| owner.column == column))
        };
        self.state
            .relations()
            .filter_map(Relation::as_sequence)
            .filter(owned)
            .cloned()
            .collect()
    }

    pub(super) fn drop_owned_sequences(&mut self, table_oid: u32, column: Option<&str>) -> Result<()> {
        for sequence in self.owned_sequences(table_oid, column) {
            self.drop_relation(&sequence.schema_name, &sequence.name)?;
        }
        Ok(())
    }

    /// Has the sequences of a column follow its new name.
    pub(super) fn rename_owner(&mut self, table_oid: u32, column: &str, to: &str) -> Result<()> {
        for sequence in self.owned_sequences(table_oid, Some(column)) {
            let owner = sequence.owner.clone().map(|owner| SequenceOwner {
                column: to.into(),
                ..owner
            });
            let def = sequence.def.clone();
            self.alter_sequence(&sequence.schema_name, &sequence.name, def, owner, None)?;
        }
        Ok(())
    }

    pub fn new_oid(&self) -> u32 {
        self.database.new_oid()
    }

    /// Of a type, and behind it that of the type of its arrays.
    pub fn new_oids(&self) -> (u32, u32) {
        let first = self.database.new_oids();
        (first, first + 1)
    }

    /// Puts an object in the place of the one there, if any; None drops it.
    pub fn put_object(&mut self, key: ObjectKey, object: Option<Object>) {
        let before = self.state.objects.get(&key).cloned();
        let is_new = before.is_none();
        self.objects.entry(key.clone()).or_insert(before);
        self.state_mut().change_meaning();
        let made = object.as_ref().filter(|_| is_new).and_then(Object::secured);
        let schema = made.and_then(|_| Some(self.state.schema(key.schema()?)?.oid));
        let objects = &mut self.state_mut().objects;
        match object {
            Some(object) => objects.insert(key, object),
            None => objects.remove(&key),
        };
        // One that has only been renamed has an owner.
        if let Some((oid, kind)) = made
            && self.state.rights(oid).is_none()
        {
            self.own(kind, oid, schema.unwrap_or(0));
        }
    }

    /// Drops what is said of an object that goes.
    pub(super) fn drop_comments(&mut self, of: u32) {
        let first = ObjectKey::Comment { oid: of, column: 0 };
        let last = ObjectKey::Comment {
            oid: of,
            column: u32::MAX,
        };
        let keys: Vec<ObjectKey> = self
            .state
            .objects
            .range(first..=last)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.put_object(key, None);
        }
    }

    /// Drops what a schema holds beside its relations.
    pub(super) fn drop_objects_of(&mut self, schema: &str) {
        let own = |key: &&ObjectKey| key.schema() == Some(schema);
        let keys: Vec<ObjectKey> = self.state.objects.keys().filter(own).cloned().collect();
        for key in keys {
            self.put_object(key, None);
        }
    }
}
