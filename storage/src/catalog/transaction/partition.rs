//! Partitions: made, and following the table whose rows they name.

use super::super::partition::{Partition, Partitioning};
use super::super::rights::Secured;
use super::super::state::Relation;
use super::super::table::TableVersion;
use super::Transaction;
use crate::error::{Result, StorageError};
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
        let next = current.redefined(Arc::new((**current.definition()).clone()));
        self.rewritten(&current, next);
        Ok(())
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
