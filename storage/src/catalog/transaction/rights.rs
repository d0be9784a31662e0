//! What becomes of rights as things are made, changed and dropped.

use super::super::objects::{Object, ObjectKey};
use super::super::rights::{Rights, Secured};
use super::Transaction;
use std::sync::Arc;

impl Transaction {
    /// Whose is what the transaction makes from here on.
    pub fn set_creator(&mut self, role: u32) {
        self.creator = role;
    }

    pub fn set_rights(&mut self, oid: u32, rights: Rights) {
        self.put_object(ObjectKey::Rights { oid }, Some(Object::Rights(Arc::new(rights))));
    }

    /// Something was made.
    pub(super) fn own(&mut self, kind: Secured, oid: u32, schema: u32) {
        if let Some(rights) = self.state.rights_of_new(self.creator, kind, oid, schema) {
            self.set_rights(oid, rights);
        }
    }

    pub(super) fn own_relation(&mut self, schema: &str, oid: u32, kind: Secured) {
        let schema = self.state.schema(schema).map_or(0, |schema| schema.oid);
        self.own(kind, oid, schema);
    }

    /// Something goes.
    pub(super) fn disown(&mut self, oid: u32) {
        if self.state.rights(oid).is_some() {
            self.put_object(ObjectKey::Rights { oid }, None);
        }
    }

    /// What is granted on what will be created in a schema that is gone.
    pub(super) fn drop_default_rights(&mut self, of: u32) {
        let own = |key: &&ObjectKey| matches!(key, ObjectKey::DefaultRights { schema, .. } if *schema == of);
        let keys: Vec<ObjectKey> = self.state.objects.keys().filter(own).cloned().collect();
        for key in keys {
            self.put_object(key, None);
        }
    }

    /// A column has another name, or with None is gone.
    pub(super) fn column_renamed(&mut self, oid: u32, column: &str, to: Option<&str>) {
        let Some(rights) = self.state.rights(oid) else { return };
        if !rights.columns.iter().any(|(name, _)| name == column) {
            return;
        }
        let mut rights = (**rights).clone();
        match to {
            Some(to) => {
                let own = rights.columns.iter_mut().filter(|(name, _)| name == column);
                own.for_each(|(name, _)| *name = to.into());
            }
            None => rights.columns.retain(|(name, _)| name != column),
        }
        self.set_rights(oid, rights);
    }
}
