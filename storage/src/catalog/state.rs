//! The whole database as one immutable value.

use super::index::Index;
use super::table::TableVersion;
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::sync::Arc;

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
}

/// What a name in a schema stands for.
#[derive(Clone, Debug)]
pub enum Relation {
    Table(Arc<TableVersion>),
    View(Arc<View>),
}

impl Relation {
    pub fn oid(&self) -> u32 {
        match self {
            Relation::Table(table) => table.oid(),
            Relation::View(view) => view.oid,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Relation::Table(table) => table.name(),
            Relation::View(view) => &view.name,
        }
    }

    pub fn schema_name(&self) -> &str {
        match self {
            Relation::Table(table) => &table.definition().schema_name,
            Relation::View(view) => &view.schema_name,
        }
    }

    pub fn columns(&self) -> &SchemaRef {
        match self {
            Relation::Table(table) => table.schema(),
            Relation::View(view) => &view.schema,
        }
    }

    pub fn as_table(&self) -> Option<&Arc<TableVersion>> {
        match self {
            Relation::Table(table) => Some(table),
            Relation::View(_) => None,
        }
    }
}

/// A schema and what is in it, by name.
#[derive(Clone, Debug)]
pub struct SchemaEntry {
    pub oid: u32,
    pub relations: BTreeMap<String, Relation>,
}

impl SchemaEntry {
    /// An index by its name, with its table. Indexes share the names of relations.
    pub fn index(&self, name: &str) -> Option<(&Arc<TableVersion>, &Index)> {
        self.relations
            .values()
            .filter_map(Relation::as_table)
            .find_map(|table| {
                let index = table.definition().all_indexes().find(|index| index.name == name)?;
                Some((table, index))
            })
    }
}

/// Everything that a query can see. Cloning shares all of it.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) schemas: BTreeMap<String, Arc<SchemaEntry>>,
}

impl Default for State {
    fn default() -> Self {
        let public = SchemaEntry {
            oid: PUBLIC_OID,
            relations: BTreeMap::new(),
        };
        Self {
            schemas: [(PUBLIC.to_string(), Arc::new(public))].into(),
        }
    }
}

impl State {
    pub fn schemas(&self) -> impl Iterator<Item = (&str, &Arc<SchemaEntry>)> {
        self.schemas.iter().map(|(name, schema)| (name.as_str(), schema))
    }

    pub fn schema(&self, name: &str) -> Option<&Arc<SchemaEntry>> {
        self.schemas.get(name)
    }

    pub fn relation(&self, schema: &str, name: &str) -> Option<&Relation> {
        self.schemas.get(schema)?.relations.get(name)
    }

    pub fn relation_by_oid(&self, oid: u32) -> Option<&Relation> {
        self.relations().find(|relation| relation.oid() == oid)
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

    /// All relations of all schemas.
    pub fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.schemas.values().flat_map(|schema| schema.relations.values())
    }

    pub(crate) fn put(&mut self, relation: Relation) -> bool {
        let Some(schema) = self.schemas.get_mut(relation.schema_name()) else {
            return false;
        };
        Arc::make_mut(schema)
            .relations
            .insert(relation.name().to_string(), relation);
        true
    }

    pub(crate) fn remove(&mut self, schema: &str, name: &str) {
        if let Some(schema) = self.schemas.get_mut(schema) {
            Arc::make_mut(schema).relations.remove(name);
        }
    }
}
