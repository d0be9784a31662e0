//! What the system tables say of partitions.

use super::relations::relations;
use super::rows::{Row, row};
use crate::bind::Binder;
use crate::partitions::{partitioning, shown};
use tenon_storage::{PartitionBound, PartitionStrategy, Partitioning, Relation};

fn own(relation: &Relation) -> Option<&Partitioning> {
    match relation {
        Relation::Table(table) => table.definition().partitioning.as_ref(),
        Relation::Partition(partition) => partition.partitioning.as_ref(),
        Relation::View(_) | Relation::Sequence(_) => None,
    }
}

/// Whether a relation is a partitioned table.
pub(super) fn is_divided(relation: &Relation) -> bool {
    own(relation).is_some()
}

/// A partition's bound, as `pg_get_expr` prints it.
pub(super) fn bound(binder: &Binder, relation: &Relation) -> Option<String> {
    let partition = relation.as_partition()?;
    let of = partitioning(&binder.snapshot, partition.parent)?;
    Some(shown::bound(of, &partition.bound))
}

/// What `pg_get_partkeydef` gives.
pub(super) fn key(relation: &Relation) -> Option<String> {
    own(relation).map(shown::keys)
}

pub(super) fn inherits(binder: &Binder) -> Vec<Row> {
    let partitions = relations(binder).filter_map(Relation::as_partition);
    let row = |partition: &std::sync::Arc<tenon_storage::Partition>| {
        row! {
            "inhrelid": partition.oid,
            "inhparent": partition.parent,
            "inhseqno": 1_i64,
            "inhdetachpending": false,
        }
    };
    partitions.map(row).collect()
}

pub(super) fn partitioned(binder: &Binder) -> Vec<Row> {
    let row = |relation: &Relation| {
        let own = own(relation)?;
        let siblings = binder.snapshot.partitions(relation.oid());
        let default = siblings
            .iter()
            .find(|partition| partition.bound == PartitionBound::Default);
        // An expression has no number of a column.
        let position = |key: &tenon_storage::PartitionKey| {
            let columns = relation.columns().fields();
            let at = columns
                .iter()
                .position(|field| crate::partitions::quoted(field.name()) == key.expression);
            at.map_or(0, |at| at as i64 + 1)
        };
        Some(row! {
            "partrelid": relation.oid(),
            "partstrat": match own.strategy {
                PartitionStrategy::Range => "r",
                PartitionStrategy::List => "l",
                PartitionStrategy::Hash => "h",
            },
            "partnatts": own.keys.len() as i64,
            "partdefid": default.map_or(0, |default| default.oid),
            "partattrs": own.keys.iter().map(position).collect::<Vec<_>>(),
        })
    };
    relations(binder).filter_map(row).collect()
}

/// Oids of a partition and of what it is a part of, up to the root; none of a table that has to do with no partitions.
pub(super) fn ancestors(binder: &Binder, of: Option<Relation>) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = of.filter(|relation| is_divided(relation) || relation.as_partition().is_some());
    while let Some(relation) = next {
        found.push(relation.oid());
        let parent = relation.as_partition().map(|partition| partition.parent);
        next = parent.and_then(|parent| relations(binder).find(|other| other.oid() == parent).cloned());
    }
    found
}
