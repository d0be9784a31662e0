//! Partitions: made, and following the table whose rows they name.

use super::super::index::{ExpressionIndex, Index, IndexKind};
use super::super::index_names::default_name;
use super::super::partition::{Partition, PartitionIndex, Partitioning};
use super::super::rights::Secured;
use super::super::state::Relation;
use super::super::table::{TableDefinition, TableVersion};
use super::Transaction;
use crate::error::{ErrorKind, Result, StorageError};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Transaction {
    /// Makes a partition of a table or of another partition and gives its oid. Its name must be free.
    pub fn create_partition(&mut self, mut partition: Partition) -> Result<u32> {
        self.check_free(&partition.schema_name, &partition.name)?;
        let root = self.table_by_oid(partition.root)?;
        partition.oid = self.database.new_oid();
        self.touch_created(partition.oid);
        let columns = &root.definition().columns;
        let known = if partition.columns.is_empty() {
            &[]
        } else {
            columns.as_slice()
        };
        let partition = partition.aligned(known, root.definition());
        let (oid, schema) = (partition.oid, partition.schema_name.clone());
        self.put(Relation::Partition(Arc::new(partition)));
        self.own_relation(&schema, oid, Secured::Table);
        self.root_changed(root.oid())?;
        Ok(oid)
    }

    /// Changes what a partition is declared with.
    pub fn change_partition(&mut self, oid: u32, change: impl FnOnce(&mut Partition)) -> Result<()> {
        let relation = self.state.relation_by_oid(oid).cloned();
        let Some(Relation::Partition(partition)) = &relation else {
            return Err(StorageError::undefined_table(&oid.to_string()));
        };
        let mut next = (**partition).clone();
        change(&mut next);
        let root = self.table_by_oid(next.root)?;
        let next = next.aligned(&root.definition().columns, root.definition());
        self.touch(&Relation::Partition(partition.clone())).rewritten = true;
        self.put(Relation::Partition(Arc::new(next)));
        self.root_changed(root.oid())?;
        self.root_changed(partition.root)
    }

    /// Gives a table other partition keys: their texts follow its columns.
    pub fn set_partitioning(&mut self, schema: &str, table: &str, partitioning: Partitioning) -> Result<()> {
        self.redefine(schema, table, |definition| {
            definition.partitioning = Some(partitioning);
            Ok(())
        })
    }

    /// Rows written meanwhile for the partitions that were are a conflict, and plans that know them are made anew: the table
    /// gets another definition.
    pub(super) fn root_changed(&mut self, root: u32) -> Result<()> {
        let current = self.table_by_oid(root)?;
        let next = self.with_partition_indexes(&current);
        self.rewritten(&current, next);
        Ok(())
    }

    /// A table as it is where its partitions have the indexes that they have now.
    pub(super) fn with_partition_indexes(&self, root: &TableVersion) -> Arc<TableVersion> {
        let mut definition = (**root.definition()).clone();
        definition.partition_indexes = self.searched_partition_indexes(&definition);
        root.redefined(Arc::new(definition))
    }

    /// The indexes of partitions that are part of no valid one above: what they have of the rows stays with them.
    fn searched_partition_indexes(&self, root: &TableDefinition) -> Vec<ExpressionIndex> {
        let partitions = self.state.partitions_below(root.oid);
        let of_root = root.all_indexes().map(|index| (index.oid, index.is_valid()));
        let computed = root.expression_indexes.iter();
        let of_root = of_root.chain(computed.map(|index| (index.oid, index.shown.only.is_none())));
        let all = partitions
            .iter()
            .flat_map(|own| own.indexes.iter().map(move |index| (own, index)));
        let below = all.clone().map(|(_, index)| (index.declared.oid, index.is_valid()));
        let valid: BTreeMap<u32, bool> = of_root.chain(below).collect();
        let is_searched = |index: &PartitionIndex| {
            index.is_valid() && index.parent.is_none_or(|parent| valid.get(&parent) != Some(&true))
        };
        let before: BTreeMap<u32, &ExpressionIndex> =
            root.partition_indexes.iter().map(|index| (index.oid, index)).collect();
        let searched = all.filter(|(_, index)| is_searched(index));
        let searched = searched.map(|(partition, index)| {
            let known = before.get(&index.declared.oid);
            ExpressionIndex {
                partition: Some(partition.oid),
                slot: known.map_or_else(Arc::default, |known| known.slot.clone()),
                key_rows: known.map_or_else(Arc::default, |known| known.key_rows.clone()),
                ..index.declared.clone()
            }
        });
        searched.collect()
    }

    /// Adds an index to a partition; the rows that are there are the caller's to check. Gives its oid. Without a name it
    /// gets one made of these columns.
    pub fn add_partition_index(&mut self, partition: u32, index: PartitionIndex, columns: &[&str]) -> Result<u32> {
        let Some(Relation::Partition(own)) = self.state.relation_by_oid(partition).cloned() else {
            return Err(StorageError::undefined_table(&partition.to_string()));
        };
        let is_constraint = |name: &str| own.constraints().any(|known| known == name);
        let name = match index.declared.name.as_str() {
            "" => {
                let (columns, label) = match index.kind {
                    IndexKind::Primary => (&[] as &[&str], "pkey"),
                    IndexKind::Constraint => (columns, "key"),
                    IndexKind::Unique | IndexKind::Plain => (columns, "idx"),
                };
                default_name(&own.name, columns, label, |name| {
                    self.check_free(&own.schema_name, name).is_ok() && !(index.is_constraint() && is_constraint(name))
                })
            }
            name => {
                self.check_free(&own.schema_name, name)?;
                if index.is_constraint() && is_constraint(name) {
                    let message = format!("constraint \"{name}\" for relation \"{}\" already exists", own.name);
                    return Err(StorageError::new(ErrorKind::DuplicateObject, message));
                }
                name.to_string()
            }
        };
        if index.kind == IndexKind::Primary && own.indexes.iter().any(|known| known.kind == IndexKind::Primary) {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", own.name);
            return Err(StorageError::new(ErrorKind::InvalidTableDefinition, message));
        }
        let oid = match index.declared.oid {
            0 => self.database.new_oid(),
            known => known,
        };
        let declared = ExpressionIndex {
            oid,
            name,
            slot: Arc::default(),
            key_rows: Arc::default(),
            ..index.declared
        };
        self.change_partition(partition, |own| own.indexes.push(PartitionIndex { declared, ..index }))?;
        Ok(oid)
    }

    /// Changes an index of a partition.
    pub fn change_partition_index(&mut self, oid: u32, change: impl FnOnce(&mut PartitionIndex)) -> Result<()> {
        let partition = self.partition_of_index(oid)?.oid;
        self.change_partition(partition, |own| {
            let found = own.indexes.iter_mut().find(|own| own.declared.oid == oid);
            if let Some(found) = found {
                change(found);
            }
        })
    }

    /// Gives an index of a partition another name.
    pub fn rename_partition_index(&mut self, schema: &str, oid: u32, to: &str) -> Result<()> {
        self.check_free(schema, to)?;
        self.change_partition_index(oid, |own| own.declared.name = to.to_string())
    }

    /// Drops an index of a partition with those that are part of it.
    pub fn drop_partition_index(&mut self, oid: u32) -> Result<()> {
        let root = self.partition_of_index(oid)?.root;
        self.remove_partition_indexes(|own| own.declared.oid == oid);
        self.drop_partition_indexes(vec![oid]);
        self.root_changed(root)
    }

    fn partition_of_index(&self, oid: u32) -> Result<&Arc<Partition>> {
        let has = |partition: &&Arc<Partition>| partition.indexes.iter().any(|own| own.declared.oid == oid);
        let found = self.state.relations().filter_map(Relation::as_partition).find(has);
        found.ok_or_else(|| StorageError::undefined_table(&oid.to_string()))
    }

    /// Drops what partitions have of indexes that are no more; false where they have nothing.
    pub(super) fn drop_partition_indexes(&mut self, mut gone: Vec<u32>) -> bool {
        let mut any = false;
        while !gone.is_empty() {
            gone = self.remove_partition_indexes(|own| own.parent.is_some_and(|parent| gone.contains(&parent)));
            any |= !gone.is_empty();
        }
        any
    }

    /// Gives the oids of those that went.
    fn remove_partition_indexes(&mut self, goes: impl Fn(&PartitionIndex) -> bool) -> Vec<u32> {
        let partitions = self.state.relations().filter_map(Relation::as_partition);
        let partitions: Vec<_> = partitions
            .filter(|own| own.indexes.iter().any(&goes))
            .cloned()
            .collect();
        let mut gone = Vec::new();
        for partition in partitions {
            let mut next = (*partition).clone();
            next.indexes.retain(|own| !goes(own));
            gone.extend(
                partition
                    .indexes
                    .iter()
                    .filter(|own| goes(own))
                    .map(|own| own.declared.oid),
            );
            self.touch(&Relation::Partition(partition)).rewritten = true;
            self.put(Relation::Partition(Arc::new(next)));
        }
        gone.iter().for_each(|oid| self.drop_comments(*oid));
        gone
    }

    /// An index ON ONLY a table holds its rows from now on: each of its partitions has one. Unique keys of the rows there are
    /// checked (23505).
    pub fn validate_only_index(&mut self, root: u32, oid: u32) -> Result<()> {
        let current = self.table_by_oid(root)?;
        let mut definition = (**current.definition()).clone();
        for index in &mut definition.expression_indexes {
            if index.oid == oid
                && let Some(only) = index.shown.only.take()
            {
                index.unique = only.unique;
            }
        }
        if let Some(at) = definition.indexes.iter().position(|index| index.oid == oid) {
            let index = definition.indexes.remove(at);
            let mut next = Index {
                kind: index.declared_kind(),
                ..index
            };
            next.shown.only = None;
            self.check_rows_there(&current, &definition, &next)?;
            match next.kind {
                IndexKind::Primary => definition.primary_key = Some(next),
                _ => definition.indexes.insert(at, next),
            }
        }
        let next = current.redefined(definition.checked()?);
        self.rewritten(&current, next);
        self.root_changed(root)
    }

    /// Has the partitions of a table follow its columns.
    pub(super) fn align_partitions(&mut self, before: &TableVersion, after: &TableVersion) {
        if after.definition().partitioning.is_none() || Arc::ptr_eq(before.schema(), after.schema()) {
            return;
        }
        for partition in self.state.partitions_below(after.oid()) {
            let next = partition.aligned(&before.definition().columns, after.definition());
            self.touch(&Relation::Partition(partition)).rewritten = true;
            self.put(Relation::Partition(Arc::new(next)));
        }
    }
}
