//! The whole database as one immutable value.

use super::index::Index;
use super::objects::{ObjectKey, Objects};
use super::partition::{Partition, Partitioning};
use super::schema::SchemaEntry;
use super::sequence::Sequence;
use super::table::TableVersion;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The schema that every database starts with.
pub const PUBLIC: &str = "public";
/// oid of `public`, as in PostgreSQL.
pub const PUBLIC_OID: u32 = 2200;

/// A stored query.
#[derive(Clone, Debug)]
pub struct View {
    pub oid: u32,
    pub schema_name: String,
    pub name: String,
    /// The query's SQL text.
    pub sql: String,
    /// The columns that it gave when it was created.
    pub schema: SchemaRef,
    pub check_option: CheckOption,
    /// Its other options, names and values: `security_barrier`, which is shown alone, and `security_invoker`.
    pub options: Vec<(String, String)>,
}

impl View {
    /// Whether what it reads is asked of who reads it, not of its owner.
    pub fn is_of_invoker(&self) -> bool {
        let mut own = self.options.iter().filter(|(name, _)| name == "security_invoker");
        own.any(|(_, value)| matches!(value.as_str(), "true" | "on" | "yes" | "1"))
    }
}

/// WITH CHECK OPTION: which new rows a view refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckOption {
    #[default]
    None,
    /// Those that its own condition does not show.
    Local,
    /// Those that the conditions of the views below do not show either.
    Cascaded,
}

/// What a name in a schema stands for.
#[derive(Clone, Debug)]
pub enum Relation {
    Table(Arc<TableVersion>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
    /// A part of a table's rows.
    Partition(Arc<Partition>),
}

impl Relation {
    pub fn oid(&self) -> u32 {
        match self {
            Relation::Table(table) => table.oid(),
            Relation::View(view) => view.oid,
            Relation::Sequence(sequence) => sequence.oid,
            Relation::Partition(partition) => partition.oid,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Relation::Table(table) => table.name(),
            Relation::View(view) => &view.name,
            Relation::Sequence(sequence) => &sequence.name,
            Relation::Partition(partition) => &partition.name,
        }
    }

    pub fn schema_name(&self) -> &str {
        match self {
            Relation::Table(table) => &table.definition().schema_name,
            Relation::View(view) => &view.schema_name,
            Relation::Sequence(sequence) => &sequence.schema_name,
            Relation::Partition(partition) => &partition.schema_name,
        }
    }

    pub fn columns(&self) -> &SchemaRef {
        match self {
            Relation::Table(table) => table.schema(),
            Relation::View(view) => &view.schema,
            Relation::Sequence(sequence) => &sequence.schema,
            Relation::Partition(partition) => &partition.schema,
        }
    }

    pub fn as_table(&self) -> Option<&Arc<TableVersion>> {
        match self {
            Relation::Table(table) => Some(table),
            Relation::View(_) | Relation::Sequence(_) | Relation::Partition(_) => None,
        }
    }

    pub fn as_view(&self) -> Option<&Arc<View>> {
        match self {
            Relation::View(view) => Some(view),
            Relation::Table(_) | Relation::Sequence(_) | Relation::Partition(_) => None,
        }
    }

    pub fn as_sequence(&self) -> Option<&Arc<Sequence>> {
        match self {
            Relation::Sequence(sequence) => Some(sequence),
            Relation::Table(_) | Relation::View(_) | Relation::Partition(_) => None,
        }
    }

    pub fn as_partition(&self) -> Option<&Arc<Partition>> {
        match self {
            Relation::Partition(partition) => Some(partition),
            Relation::Table(_) | Relation::View(_) | Relation::Sequence(_) => None,
        }
    }

    /// Whether both are versions of one table that differ in rows alone.
    pub(super) fn has_definition_of(&self, other: &Relation) -> bool {
        match (self, other) {
            (Relation::Table(own), Relation::Table(other)) => Arc::ptr_eq(own.definition(), other.definition()),
            _ => false,
        }
    }

    /// How its rows are divided; None where they are not.
    pub fn partitioning(&self) -> Option<&Partitioning> {
        match self {
            Relation::Table(table) => table.definition().partitioning.as_ref(),
            Relation::Partition(partition) => partition.partitioning.as_ref(),
            Relation::View(_) | Relation::Sequence(_) => None,
        }
    }

    /// What errors call it.
    pub fn kind(&self) -> &'static str {
        match self {
            Relation::Table(table) if table.definition().query.is_some() => "materialized view",
            Relation::Table(_) | Relation::Partition(_) => "table",
            Relation::View(_) => "view",
            Relation::Sequence(_) => "sequence",
        }
    }
}

/// Everything that a query can see. Cloning shares all of it.
#[derive(Clone, Debug)]
pub struct DatabaseState {
    pub(crate) schemas: BTreeMap<String, Arc<SchemaEntry>>,
    pub(crate) objects: Objects,
    pub(super) meaning: u64,
}

/// The last number given to what names mean.
static MEANINGS: AtomicU64 = AtomicU64::new(0);

impl Default for DatabaseState {
    fn default() -> Self {
        let public = SchemaEntry::new(PUBLIC_OID);
        Self {
            schemas: [(PUBLIC.to_string(), Arc::new(public))].into(),
            objects: Objects::new(),
            meaning: 0,
        }
    }
}

impl DatabaseState {
    /// One without any schema.
    pub(crate) fn empty() -> DatabaseState {
        DatabaseState {
            schemas: BTreeMap::new(),
            objects: Objects::new(),
            meaning: 0,
        }
    }

    pub fn schemas(&self) -> impl Iterator<Item = (&str, &Arc<SchemaEntry>)> {
        self.schemas.iter().map(|(name, schema)| (name.as_str(), schema))
    }

    pub fn schema(&self, name: &str) -> Option<&Arc<SchemaEntry>> {
        self.schemas.get(name)
    }

    pub fn relation(&self, schema: &str, name: &str) -> Option<&Relation> {
        self.schemas.get(schema)?.relation(name)
    }

    pub fn relation_by_oid(&self, oid: u32) -> Option<&Relation> {
        self.schemas.values().find_map(|schema| schema.relation_by_oid(oid))
    }

    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableVersion>> {
        self.relation(schema, name)?.as_table()
    }

    /// An index with its table.
    pub fn index(&self, schema: &str, name: &str) -> Option<(&Arc<TableVersion>, &Index)> {
        self.schemas.get(schema)?.index(name)
    }

    pub fn table_by_oid(&self, oid: u32) -> Option<&Arc<TableVersion>> {
        self.relation_by_oid(oid)?.as_table()
    }

    /// Says which name means what, the definitions of tables among it and their rows not: two states with the same number
    /// differ in rows alone.
    pub fn meaning(&self) -> u64 {
        self.meaning
    }

    /// A name is about to mean something else.
    pub(super) fn change_meaning(&mut self) {
        self.meaning = MEANINGS.fetch_add(1, Ordering::Relaxed) + 1;
    }

    /// All relations of all schemas.
    pub fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.schemas.values().flat_map(|schema| schema.relations())
    }

    /// What is no relation.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    pub fn sequence(&self, schema: &str, name: &str) -> Option<&Arc<Sequence>> {
        self.relation(schema, name)?.as_sequence()
    }

    /// The partitions of a table or of a partition, those of these not among them.
    pub fn partitions(&self, parent: u32) -> Vec<Arc<Partition>> {
        let all = self.relations().filter_map(Relation::as_partition);
        all.filter(|partition| partition.parent == parent).cloned().collect()
    }

    /// The same with those below them.
    pub fn partitions_under(&self, parent: u32) -> Vec<Arc<Partition>> {
        let mut found = self.partitions(parent);
        let mut at = 0;
        while let Some(partition) = found.get(at) {
            found.extend(self.partitions(partition.oid));
            at += 1;
        }
        found
    }

    /// All partitions whose rows a table has.
    pub fn partitions_below(&self, root: u32) -> Vec<Arc<Partition>> {
        let all = self.relations().filter_map(Relation::as_partition);
        all.filter(|partition| partition.root == root).cloned().collect()
    }

    /// The sequence behind an identity column.
    pub fn identity(&self, table_oid: u32, column: &str) -> Option<&Arc<Sequence>> {
        self.relations().filter_map(Relation::as_sequence).find(|sequence| {
            sequence
                .owner
                .as_ref()
                .is_some_and(|owner| owner.identity && owner.table_oid == table_oid && owner.column == column)
        })
    }

    pub(crate) fn put(&mut self, relation: Relation) -> bool {
        let Some(schema) = self.schemas.get_mut(relation.schema_name()) else {
            return false;
        };
        let before = Arc::make_mut(schema).put(relation.clone());
        if !before.is_some_and(|before| before.has_definition_of(&relation)) {
            self.change_meaning();
        }
        true
    }

    /// Drops the rights on what is not there: temporary tables are not kept.
    pub(crate) fn forget_rights_of_none(&mut self) {
        let of: Vec<u32> = self.all_rights().map(|(oid, _)| oid).collect();
        for oid in of.into_iter().filter(|oid| !self.is_secured(*oid)).collect::<Vec<_>>() {
            self.objects.remove(&ObjectKey::Rights { oid });
        }
    }

    pub(crate) fn remove(&mut self, schema: &str, name: &str) {
        if let Some(schema) = self.schemas.get_mut(schema) {
            Arc::make_mut(schema).remove(name);
            self.change_meaning();
        }
    }
}
