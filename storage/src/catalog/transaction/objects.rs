//! Sequences, and what is no relation.

use super::super::objects::{Object, ObjectKey};
use super::super::rights::Secured;
use super::super::sequence::{Sequence, SequenceDef, SequenceOwner};
use super::super::state::Relation;
use super::Transaction;
use crate::error::{ErrorKind, Result, StorageError};
use crate::range::RangeType;
use crate::types::SqlType;
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

    /// ALTER SEQUENCE: another definition and, with `restart`, another next value. Values that sessions have taken ahead are given
    /// no more where any is said.
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
        let next = match restart.is_some() || next.def != current.def {
            true => {
                let (next, succession) = next.succeeded(restart);
                self.successions.push(Arc::new(succession));
                next
            }
            false => next,
        };
        self.touch(&relation).rewritten = true;
        self.put(Relation::Sequence(Arc::new(next)));
        Ok(())
    }

    /// Gives a sequence a counter of its own, which goes on from where it stands.
    pub fn recount_sequence(&mut self, schema: &str, name: &str) -> Result<()> {
        let relation = self.relation(schema, name)?;
        if let Relation::Sequence(current) = &relation {
            let (next, succession) = (**current).clone().succeeded(None);
            self.successions.push(Arc::new(succession));
            self.touch(&relation).rewritten = true;
            self.put(Relation::Sequence(Arc::new(next)));
        }
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

    /// 2BP01 where a table or a domain is of an enum or a range that is dropped: a store of such a state could not be read.
    pub(super) fn check_types(&self) -> Result<()> {
        let dropped = self.objects.values().flatten().filter_map(own_type);
        let is_there = |oid: u32| {
            self.state
                .objects
                .values()
                .filter_map(own_type)
                .any(|(own, _)| own == oid)
        };
        let dropped: Vec<(u32, &str)> = dropped.filter(|(oid, _)| !is_there(*oid)).collect();
        if dropped.is_empty() {
            return Ok(());
        }
        let refused = |of: SqlType, what: String| match dropped.iter().find(|(oid, _)| Some(*oid) == type_oid(of)) {
            Some((_, name)) => {
                let message = format!("cannot drop type {name} because other objects depend on it");
                let error = StorageError::new(ErrorKind::DependentObjects, message);
                Err(error.detail(format!("{what} depends on type {name}")))
            }
            None => Ok(()),
        };
        for table in self.state.relations().filter_map(Relation::as_table) {
            for column in &table.definition().columns {
                let what = format!("column {} of table {}", column.name, table.name());
                refused(column.sql_type, what)?;
            }
            let keys = table.definition().partitioning.iter().flat_map(|of| &of.keys);
            for key in keys {
                refused(key.sql_type, format!("table {}", table.name()))?;
            }
        }
        for object in self.state.objects.values() {
            if let Object::Domain(of) = object {
                refused(of.base, format!("type {}", of.name))?;
            }
        }
        Ok(())
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

    /// What is said of a relation's columns after one of them is gone, the first being 1.
    pub(super) fn drop_comment_of_column(&mut self, of: u32, number: u32) {
        let key = |column| ObjectKey::Comment { oid: of, column };
        let own = self.state.objects.range(key(number)..=key(u32::MAX));
        let own: Vec<(ObjectKey, Object)> = own.map(|(key, said)| (key.clone(), said.clone())).collect();
        for (before, said) in own {
            let ObjectKey::Comment { column, .. } = before else {
                continue;
            };
            self.put_object(before, None);
            if column > number {
                self.put_object(key(column - 1), Some(said));
            }
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

/// An enum or a range, by its oid and its name.
fn own_type(object: &Object) -> Option<(u32, &str)> {
    match object {
        Object::Enum(of) => Some((of.oid, &of.name)),
        Object::Range(of, false) => Some((of.oid, &of.name)),
        _ => None,
    }
}

/// The oid of the enum or the range that values, or their items, are of.
fn type_oid(of: SqlType) -> Option<u32> {
    match of {
        SqlType::Enum(of) => Some(of.oid),
        SqlType::Range(RangeType::User(of)) | SqlType::Multirange(RangeType::User(of)) => Some(of.oid),
        SqlType::Array(of) => type_oid(of.element()),
        _ => None,
    }
}
