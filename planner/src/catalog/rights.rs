//! What a role may do with what it names: the checks, in PostgreSQL's words. A superuser passes all of them.

use crate::pg::error::{Result, SqlError, state};
use crate::pg::identity::Acting;
use tenon_storage::rights::{self, Secured};
use tenon_storage::{DatabaseState, Relation, privilege};

/// One role's rights in one snapshot.
#[derive(Clone, Copy)]
pub(crate) struct Rights<'a> {
    pub state: &'a DatabaseState,
    pub acting: Acting,
}

pub(crate) fn denied(kind: &str, name: &str) -> SqlError {
    let message = format!("permission denied for {kind} {name}");
    SqlError::new(state::INSUFFICIENT_PRIVILEGE, message)
}

/// 42501 with a message of its own.
pub(crate) fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INSUFFICIENT_PRIVILEGE, message)
}

fn must_own(kind: &str, name: &str) -> SqlError {
    refused(format!("must be owner of {kind} {name}"))
}

/// Schemas that are not stored may be used by all, and nothing can be made in them.
fn schema_oid(state: &DatabaseState, name: &str) -> Option<u32> {
    state.schema(name).map(|schema| schema.oid)
}

impl Rights<'_> {
    /// Whether the role has all of some rights on the whole of a relation.
    pub fn has(&self, relation: &Relation, wanted: u32) -> bool {
        let kind = Secured::of_relation(relation);
        self.acting.superuser
            || self.state.granted(self.acting.role, kind, relation.oid(), wanted) == wanted & kind.rights()
    }

    /// Whether it has one of some rights.
    pub fn has_one(&self, relation: &Relation, wanted: u32) -> bool {
        let kind = Secured::of_relation(relation);
        self.acting.superuser || self.state.granted(self.acting.role, kind, relation.oid(), wanted) != 0
    }

    /// Whether it has a right on the relation, or on a column of it.
    pub fn has_any(&self, relation: &Relation, wanted: u32) -> bool {
        self.has(relation, wanted)
            || self
                .state
                .granted_on_any_column(self.acting.role, relation.oid(), wanted)
                != 0
    }

    pub fn check(&self, relation: &Relation, wanted: u32) -> Result<()> {
        match self.has(relation, wanted) {
            true => Ok(()),
            false => Err(denied(relation.kind(), relation.name())),
        }
    }

    /// A right on the relation, or on each of the columns; of none, on any.
    pub fn check_columns<'n>(
        &self,
        relation: &Relation,
        wanted: u32,
        columns: impl IntoIterator<Item = &'n str>,
    ) -> Result<()> {
        if self.has(relation, wanted) {
            return Ok(());
        }
        let (role, oid) = (self.acting.role, relation.oid());
        let mut columns = columns.into_iter().peekable();
        let granted = match columns.peek() {
            None => self.state.granted_on_any_column(role, oid, wanted) != 0,
            Some(_) => columns.all(|column| self.state.granted_on_column(role, oid, column, wanted) != 0),
        };
        match granted {
            true => Ok(()),
            false => Err(denied(relation.kind(), relation.name())),
        }
    }

    pub fn owns(&self, oid: u32) -> bool {
        self.acting.superuser || self.state.owns(self.acting.role, oid)
    }

    pub fn check_owner(&self, relation: &Relation) -> Result<()> {
        match self.owns(relation.oid()) {
            true => Ok(()),
            false => Err(must_own(relation.kind(), relation.name())),
        }
    }

    /// Indexes belong to whom their table belongs.
    pub fn check_owner_of_index(&self, table: u32, index: &str) -> Result<()> {
        match self.owns(table) {
            true => Ok(()),
            false => Err(must_own("index", index)),
        }
    }

    pub fn check_owner_of(&self, oid: u32, kind: &str, name: &str) -> Result<()> {
        match self.owns(oid) {
            true => Ok(()),
            false => Err(must_own(kind, name)),
        }
    }

    /// Whether it has one of some rights on a schema.
    pub fn has_schema(&self, name: &str, wanted: u32) -> bool {
        if self.acting.superuser {
            return true;
        }
        // Whoever may make temporary tables has those of the session; the tables of others are theirs anyway.
        if name.starts_with("pg_temp_") {
            return self.check_database("", privilege::TEMPORARY).is_ok();
        }
        match schema_oid(self.state, name) {
            Some(oid) => self.state.granted(self.acting.role, Secured::Schema, oid, wanted) == wanted,
            None => wanted == privilege::USAGE,
        }
    }

    pub fn check_schema(&self, name: &str, wanted: u32) -> Result<()> {
        match self.has_schema(name, wanted) {
            true => Ok(()),
            false => Err(denied("schema", name)),
        }
    }

    pub fn check_function(&self, oid: u32, name: &str) -> Result<()> {
        let kind = Secured::Function;
        let granted = self.acting.superuser || self.state.granted(self.acting.role, kind, oid, privilege::EXECUTE) != 0;
        match granted {
            true => Ok(()),
            false => Err(denied("function", name)),
        }
    }

    /// USAGE of a type, which is called so.
    pub fn check_type(&self, oid: u32, name: impl FnOnce() -> String) -> Result<()> {
        let granted = self.acting.superuser
            || self
                .state
                .granted(self.acting.role, Secured::Type, oid, privilege::USAGE)
                != 0;
        match granted {
            true => Ok(()),
            false => Err(denied("type", &name())),
        }
    }

    pub fn check_database(&self, name: &str, wanted: u32) -> Result<()> {
        let kind = Secured::Database;
        let granted =
            self.acting.superuser || self.state.granted(self.acting.role, kind, rights::DATABASE_OID, wanted) == wanted;
        match granted {
            true => Ok(()),
            false => Err(denied("database", name)),
        }
    }

    /// Whether it has the rights of a predefined role.
    pub fn is_in(&self, role: u32) -> bool {
        self.acting.has_rights_of(self.state, role)
    }
}
