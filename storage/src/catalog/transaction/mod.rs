//! A transaction: the state it began with plus its own changes, merged into the current state by commit.
//!
//! Merge rules. Rows added to a table and rows removed from it survive beside those that others added and removed, but a row
//! that another transaction removed meanwhile is none to be removed. Everything else (TRUNCATE, DROP, ALTER) needs the table
//! to be as it was at the beginning. Else it is a SerializationFailure (40001) and nothing is changed; so it is where
//! others changed rows that a check of a foreign key relied on (`references`), or that a serializable transaction has read (`reads`). A name that another transaction has taken
//! meanwhile gives the error of the statement itself.

mod alter;
mod claims;
mod deferral;
mod index;
mod merge;
mod objects;
mod partition;
mod reads;
mod references;
mod rights;
mod row_locks;
mod rows;
mod schemas;
mod views;

pub use claims::Claimed;
pub(crate) use merge::settle;
pub use reads::Reads;
pub use references::PendingKeys;
pub use row_locks::Locked;
pub use rows::Keys;

use super::database::Database;
use super::declaration::TableDef;
use super::index_names::default_name;
use super::locks::Holder;
use super::moves::Removed;
use super::objects::{Object, ObjectKey};
use super::partition::Partition;
use super::rights::Secured;
use super::sequence::{Sequence, Succession};
use super::state::{DatabaseState, PUBLIC, Relation, View};
use super::table::{TableDefinition, TableVersion};
use crate::error::{ErrorKind, Result, StorageError};
use crate::segment::Segment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the transaction did to one relation.
#[derive(Clone, Debug, Default)]
struct Touch {
    /// The relation as it was at the beginning; None: created here.
    base: Option<Relation>,
    /// Own segments, while adding and removing rows is all that was done. In the table that the transaction sees they follow
    /// what it leaves of those it began with.
    appended: Vec<Arc<Segment>>,
    /// The rows of those it began with that it took out.
    removed: Removed,
    /// Whether own rows have other keys than those taken out.
    keys_changed: bool,
    /// Anything but adding and removing rows.
    rewritten: bool,
}

impl Touch {
    /// From here on the table is not one that others may change, too.
    fn rewrite(&mut self) {
        self.rewritten = true;
        self.appended.clear();
        self.removed.clear();
    }
}

/// Not shared between threads; a clone is a savepoint. Dropping it rolls back.
#[derive(Clone, Debug)]
pub struct Transaction {
    database: Arc<Database>,
    base: Arc<DatabaseState>,
    state: Arc<DatabaseState>,
    touched: BTreeMap<u32, Touch>,
    /// The locks that it holds.
    holder: Option<Arc<Holder>>,
    /// Objects that it has changed, as they were before.
    objects: BTreeMap<ObjectKey, Option<Object>>,
    schemas_created: BTreeSet<String>,
    schemas_dropped: BTreeSet<String>,
    /// Those whose names are another schema's now.
    schemas_replaced: BTreeSet<String>,
    references: references::References,
    /// Of the counters of sequences that it has replaced.
    successions: Vec<Arc<Succession>>,
    /// Of a serializable one.
    reads: Option<Arc<dyn Reads>>,
    /// Whose is what it makes.
    creator: u32,
    /// Of the session that acts.
    process: i32,
}

impl Transaction {
    pub(crate) fn new(database: Arc<Database>, base: Arc<DatabaseState>) -> Self {
        Self {
            database,
            state: base.clone(),
            base,
            touched: BTreeMap::new(),
            holder: None,
            objects: BTreeMap::new(),
            schemas_created: BTreeSet::new(),
            schemas_dropped: BTreeSet::new(),
            schemas_replaced: BTreeSet::new(),
            references: Default::default(),
            successions: Vec::new(),
            reads: None,
            creator: super::roles::BOOTSTRAP,
            process: 0,
        }
    }

    /// What the transaction sees: its snapshot and its own changes.
    pub fn state(&self) -> &Arc<DatabaseState> {
        &self.state
    }

    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Whether anything was changed.
    pub fn is_dirty(&self) -> bool {
        !(self.touched.is_empty()
            && self.objects.is_empty()
            && self.schemas_created.is_empty()
            && self.schemas_dropped.is_empty()
            && self.schemas_replaced.is_empty())
    }

    pub fn create_table(&mut self, schema: &str, name: &str, def: TableDef) -> Result<Arc<TableVersion>> {
        self.check_free(schema, name)?;
        let (oid, key_oid) = (self.database.new_oid(), self.database.new_oid());
        let key_name = self.key_name(schema, name, def.primary_key_name)?;
        let unique = def.unique.clone();
        let def = TableDef {
            primary_key_name: Some(key_name),
            ..def
        };
        let definition = TableDefinition::new(oid, key_oid, schema, name, def)?;
        let table = TableVersion::new(definition, Vec::new());
        self.touch_created(oid);
        self.put(Relation::Table(table));
        self.own_relation(schema, oid, Secured::Table);
        for index in unique {
            self.create_index(schema, name, index)?;
        }
        self.table(schema, name)
    }

    /// Drops a relation. A table takes its sequences and its partitions with it; the rows of a partition are the caller's to
    /// delete.
    pub fn drop_relation(&mut self, schema: &str, name: &str) -> Result<()> {
        let relation = self.relation(schema, name)?;
        if relation.as_table().is_some() {
            self.drop_owned_sequences(relation.oid(), None)?;
        }
        let mut gone = vec![relation.clone()];
        match &relation {
            Relation::Table(table) if table.definition().partitioning.is_some() => {
                let below = self.state.partitions_below(relation.oid());
                gone.extend(below.into_iter().map(Relation::Partition));
            }
            Relation::Partition(partition) => {
                gone.extend(
                    self.state
                        .partitions_under(partition.oid)
                        .into_iter()
                        .map(Relation::Partition),
                );
            }
            _ => {}
        }
        for relation in gone {
            self.drop_comments(relation.oid());
            self.disown(relation.oid());
            let touch = self.touch(&relation);
            touch.rewrite();
            if touch.base.is_none() {
                self.touched.remove(&relation.oid());
            }
            self.state_mut().remove(relation.schema_name(), relation.name());
        }
        match relation {
            Relation::Partition(partition) => self.root_changed(partition.root),
            _ => Ok(()),
        }
    }

    pub fn rename_relation(&mut self, schema: &str, name: &str, to: &str) -> Result<()> {
        self.move_relation(schema, name, schema, to)
    }

    /// RENAME TO and SET SCHEMA.
    pub fn move_relation(&mut self, schema: &str, name: &str, to_schema: &str, to: &str) -> Result<()> {
        let relation = self.relation(schema, name)?;
        self.check_free(to_schema, to)?;
        let (name_now, schema_now) = (to.to_string(), to_schema.to_string());
        let moved = match &relation {
            Relation::Table(table) => {
                let definition = TableDefinition {
                    name: name_now,
                    schema_name: schema_now,
                    ..(**table.definition()).clone()
                };
                Relation::Table(table.redefined(Arc::new(definition)))
            }
            Relation::View(view) => Relation::View(Arc::new(View {
                name: name_now,
                schema_name: schema_now,
                ..(**view).clone()
            })),
            Relation::Partition(partition) => Relation::Partition(Arc::new(Partition {
                name: name_now,
                schema_name: schema_now,
                ..(**partition).clone()
            })),
            Relation::Sequence(sequence) => Relation::Sequence(Arc::new(Sequence {
                name: name_now,
                schema_name: schema_now,
                ..(**sequence).clone()
            })),
        };
        self.touch(&relation).rewritten = true;
        self.state_mut().remove(schema, name);
        self.put(moved);
        Ok(())
    }

    pub fn truncate(&mut self, schema: &str, table: &str) -> Result<()> {
        let current = self.table(schema, table)?;
        let mut definition = (**current.definition()).clone();
        definition.dictionaries.clear();
        definition.forget_index_data();
        let next = TableVersion::new(definition.checked()?, Vec::new());
        self.rewritten(&current, next);
        Ok(())
    }

    fn state_mut(&mut self) -> &mut DatabaseState {
        Arc::make_mut(&mut self.state)
    }

    fn put(&mut self, relation: Relation) {
        self.state_mut().put(relation);
    }

    fn touch(&mut self, relation: &Relation) -> &mut Touch {
        self.touched.entry(relation.oid()).or_insert_with(|| Touch {
            base: Some(relation.clone()),
            ..Touch::default()
        })
    }

    /// The relation of an oid is made by this transaction.
    fn touch_created(&mut self, oid: u32) {
        let touch = Touch {
            rewritten: true,
            ..Touch::default()
        };
        self.touched.insert(oid, touch);
    }

    fn rewritten(&mut self, current: &Arc<TableVersion>, next: Arc<TableVersion>) {
        self.touch(&Relation::Table(current.clone())).rewrite();
        self.align_partitions(current, &next);
        let gone = gone_indexes(current, &next);
        self.put(Relation::Table(next.clone()));
        if self.drop_partition_indexes(gone) {
            self.put(Relation::Table(self.with_partition_indexes(&next)));
        }
    }

    fn relation(&self, schema: &str, name: &str) -> Result<Relation> {
        self.state
            .relation(schema, name)
            .cloned()
            .ok_or_else(|| StorageError::undefined_table(&qualified(schema, name)))
    }

    fn table(&self, schema: &str, name: &str) -> Result<Arc<TableVersion>> {
        match self.relation(schema, name)? {
            Relation::Table(table) => Ok(table),
            Relation::View(_) | Relation::Sequence(_) | Relation::Partition(_) => Err(StorageError::new(
                ErrorKind::WrongObjectType,
                format!("\"{name}\" is not a table"),
            )),
        }
    }

    fn table_by_oid(&self, oid: u32) -> Result<Arc<TableVersion>> {
        self.state
            .table_by_oid(oid)
            .cloned()
            .ok_or_else(|| StorageError::undefined_table(&oid.to_string()))
    }

    fn check_free(&self, schema: &str, name: &str) -> Result<()> {
        let schema = self
            .state
            .schema(schema)
            .ok_or_else(|| StorageError::undefined_schema(schema))?;
        if schema.has(name) {
            Err(StorageError::duplicate_table(name))
        } else {
            Ok(())
        }
    }

    /// The name of a primary key's index: the given one, which must be free, or a free one made from the table's.
    fn key_name(&self, schema: &str, table: &str, given: Option<String>) -> Result<String> {
        match given {
            Some(name) if name == table => Err(StorageError::duplicate_table(&name)),
            Some(name) => self.check_free(schema, &name).map(|()| name),
            None => Ok(default_name(table, &[], "pkey", |name| {
                self.check_free(schema, name).is_ok()
            })),
        }
    }
}

/// The indexes of a partitioned table that it has no more.
fn gone_indexes(before: &TableVersion, after: &TableVersion) -> Vec<u32> {
    if before.definition().partitioning.is_none() || Arc::ptr_eq(before.definition(), after.definition()) {
        return Vec::new();
    }
    let there: BTreeSet<u32> = after.definition().index_oids().collect();
    let before = before.definition().index_oids();
    before.filter(|oid| !there.contains(oid)).collect()
}

fn qualified(schema: &str, name: &str) -> String {
    if schema == PUBLIC {
        name.to_string()
    } else {
        format!("{schema}.{name}")
    }
}

fn describe(relation: &Relation) -> String {
    format!(
        "{} {}",
        relation.kind(),
        qualified(relation.schema_name(), relation.name())
    )
}
