//! Schemas: made, renamed and dropped.

use super::super::rights::Secured;
use super::super::schema::SchemaEntry;
use super::super::state::Relation;
use super::{Transaction, describe};
use crate::error::{ErrorKind, Result, StorageError};
use std::sync::Arc;

impl Transaction {
    pub fn create_schema(&mut self, name: &str) -> Result<()> {
        if self.state.schema(name).is_some() {
            let message = format!("schema \"{name}\" already exists");
            return Err(StorageError::new(ErrorKind::DuplicateSchema, message));
        }
        // One that the transaction dropped comes back as it was: others see no change.
        let oid = match self.schemas_dropped.remove(name) {
            true => {
                let before = self.base.schema(name).map(|schema| schema.oid);
                // One that has another name now is not it.
                let renamed = self.state.schemas.values().any(|schema| Some(schema.oid) == before);
                if renamed {
                    self.schemas_replaced.insert(name.to_string());
                }
                before.filter(|_| !renamed)
            }
            false => {
                self.schemas_created.insert(name.to_string());
                None
            }
        };
        let entry = SchemaEntry::new(oid.unwrap_or_else(|| self.database.new_oid()));
        let oid = entry.oid;
        self.state_mut().change_meaning();
        self.state_mut().schemas.insert(name.to_string(), Arc::new(entry));
        self.own(Secured::Schema, oid, 0);
        Ok(())
    }

    /// Makes a schema that is, for the time being, another name of one; what is in that is the caller's to move.
    pub fn copy_schema(&mut self, name: &str, to: &str) -> Result<()> {
        let oid = self.state.schema(name).map(|schema| schema.oid);
        let oid = oid.ok_or_else(|| StorageError::undefined_schema(name))?;
        match self.schemas_dropped.remove(to) || self.schemas_replaced.contains(to) {
            true => self.schemas_replaced.insert(to.to_string()),
            false => self.schemas_created.insert(to.to_string()),
        };
        self.state_mut().change_meaning();
        self.state_mut()
            .schemas
            .insert(to.to_string(), Arc::new(SchemaEntry::new(oid)));
        Ok(())
    }

    /// Takes away a name of a schema from which all has been moved to another.
    pub fn forget_schema(&mut self, name: &str) -> Result<()> {
        if self.state.schema(name).is_none_or(|schema| !schema.is_empty()) {
            return Err(StorageError::internal("a schema that is renamed still has relations"));
        }
        self.take_name(name);
        Ok(())
    }

    /// Drops an empty schema, or with `cascade` any.
    pub fn drop_schema(&mut self, name: &str, cascade: bool) -> Result<()> {
        let schema = self
            .state
            .schema(name)
            .cloned()
            .ok_or_else(|| StorageError::undefined_schema(name))?;
        if !schema.is_empty() && !cascade {
            let message = format!("cannot drop schema {name} because other objects depend on it");
            let detail: Vec<_> = schema
                .relations()
                .map(|r| format!("{} depends on schema {name}", describe(r)))
                .collect();
            return Err(StorageError::new(ErrorKind::DependentObjects, message)
                .detail(detail.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for relation in schema.relations().map(Relation::name) {
            // A table takes its sequences with it.
            if self.state.relation(name, relation).is_some() {
                self.drop_relation(name, relation)?;
            }
        }
        self.drop_objects_of(name);
        self.drop_default_rights(schema.oid);
        self.disown(schema.oid);
        self.take_name(name);
        Ok(())
    }

    /// There is no schema of that name any more.
    fn take_name(&mut self, name: &str) {
        self.state_mut().change_meaning();
        self.state_mut().schemas.remove(name);
        self.schemas_replaced.remove(name);
        if !self.schemas_created.remove(name) {
            self.schemas_dropped.insert(name.to_string());
        }
    }
}
