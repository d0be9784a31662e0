//! A schema: its relations and indexes by name and number, in maps whose versions share what has not changed, so that a change of
//! one table takes the same time whatever else there is.

use super::index::{ExpressionIndex, Index};
use super::partition::{Partition, PartitionIndex};
use super::state::Relation;
use super::table::TableVersion;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use std::sync::Arc;

/// A schema and what is in it, by name.
#[derive(Clone, Debug)]
pub struct SchemaEntry {
    pub oid: u32,
    relations: OrdMap<Arc<str>, Relation>,
    by_oid: OrdMap<u32, Arc<str>>,
    /// The table, or the partition, of each index. Indexes share the names of relations.
    indexes: OrdMap<Arc<str>, Arc<str>>,
}

/// What one version of a schema has in place of another's.
pub(crate) enum Difference<'a, 'b> {
    Gone(&'a Relation),
    Changed(&'a Relation, &'b Relation),
    New(&'b Relation),
}

impl SchemaEntry {
    pub(crate) fn new(oid: u32) -> Self {
        Self {
            oid,
            relations: OrdMap::new(),
            by_oid: OrdMap::new(),
            indexes: OrdMap::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// In the order of their names.
    pub fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.relations.values()
    }

    pub fn relation(&self, name: &str) -> Option<&Relation> {
        self.relations.get(name)
    }

    pub fn relation_by_oid(&self, oid: u32) -> Option<&Relation> {
        self.relations.get(self.by_oid.get(&oid)?)
    }

    /// Whether a relation or an index has this name.
    pub fn has(&self, name: &str) -> bool {
        self.relations.contains_key(name) || self.indexes.contains_key(name)
    }

    /// The table of an index.
    fn table_of(&self, index: &str) -> Option<&Arc<TableVersion>> {
        self.relation(self.indexes.get(index)?)?.as_table()
    }

    /// An index on expressions by its name, with its table.
    pub fn expression_index(&self, name: &str) -> Option<(&Arc<TableVersion>, &ExpressionIndex)> {
        let table = self.table_of(name)?;
        let mut indexes = table.definition().expression_indexes.iter();
        Some((table, indexes.find(|index| index.name == name)?))
    }

    /// An index on columns by its name, with its table.
    pub fn index(&self, name: &str) -> Option<(&Arc<TableVersion>, &Index)> {
        let table = self.table_of(name)?;
        let index = table.definition().all_indexes().find(|index| index.name == name)?;
        Some((table, index))
    }

    /// An index of a partition by its name, with the partition.
    pub fn partition_index(&self, name: &str) -> Option<(&Arc<Partition>, &PartitionIndex)> {
        let partition = self.relation(self.indexes.get(name)?)?.as_partition()?;
        Some((partition, partition.index(name)?))
    }

    /// Puts a relation in the place of that of the same name, which it gives.
    pub(super) fn put(&mut self, relation: Relation) -> Option<Relation> {
        let name: Arc<str> = match self.relations.get_key_value(relation.name()) {
            Some((name, _)) => Arc::clone(name),
            None => relation.name().into(),
        };
        let before = self.relations.insert(Arc::clone(&name), relation.clone());
        if before
            .as_ref()
            .is_some_and(|before| before.has_definition_of(&relation))
        {
            return before;
        }
        if let Some(before) = &before {
            self.forget(before);
        }
        self.by_oid.insert(relation.oid(), Arc::clone(&name));
        for index in index_names(&relation) {
            self.indexes.insert(index.into(), Arc::clone(&name));
        }
        before
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(before) = self.relations.remove(name) {
            self.forget(&before);
        }
    }

    /// Of one that is not in its place any more.
    fn forget(&mut self, before: &Relation) {
        self.by_oid.remove(&before.oid());
        for index in index_names(before) {
            self.indexes.remove(index);
        }
    }

    /// Looks at what differs alone.
    pub(crate) fn differences<'a, 'b>(
        &'a self,
        next: &'b SchemaEntry,
    ) -> impl Iterator<Item = Difference<'a, 'b>> + use<'a, 'b> {
        self.relations.diff(&next.relations).map(|item| match item {
            DiffItem::Add(_, new) => Difference::New(new),
            DiffItem::Update {
                old: (_, old),
                new: (_, new),
            } => Difference::Changed(old, new),
            DiffItem::Remove(_, old) => Difference::Gone(old),
        })
    }
}

fn index_names(relation: &Relation) -> impl Iterator<Item = &str> {
    let tables = relation.as_table().into_iter();
    let of_tables = tables.flat_map(|table| {
        let definition = table.definition();
        let indexes = definition.all_indexes().map(|index| index.name.as_str());
        let others = definition.expression_indexes.iter();
        indexes.chain(others.map(|index| index.name.as_str()))
    });
    let partitions = relation.as_partition().into_iter();
    let of_partitions = partitions.flat_map(|partition| partition.indexes.iter());
    of_tables.chain(of_partitions.map(|index| index.declared.name.as_str()))
}

/// Whether they are one and the same version.
impl PartialEq for Relation {
    fn eq(&self, other: &Relation) -> bool {
        match (self, other) {
            (Relation::Table(a), Relation::Table(b)) => a.version() == b.version(),
            (Relation::View(a), Relation::View(b)) => Arc::ptr_eq(a, b),
            (Relation::Sequence(a), Relation::Sequence(b)) => Arc::ptr_eq(a, b),
            (Relation::Partition(a), Relation::Partition(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}
