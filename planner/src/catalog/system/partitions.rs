//! What the system tables say of partitions.

use super::indexes::ShownIndex;
use super::relations::relations;
use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use crate::catalog::partitions::{constraint, shown};
use tenon_storage::{PartitionBound, PartitionStrategy, Relation};

/// Whether a relation is a partitioned table.
pub(super) fn is_divided(relation: &Relation) -> bool {
    relation.partitioning().is_some()
}

/// Whether it has partitions.
pub(super) fn is_parted(binder: &Binder, relation: &Relation) -> bool {
    is_divided(relation) && !binder.snapshot.partitions(relation.oid()).is_empty()
}

/// A partition's bound, as `pg_get_expr` prints it.
pub(super) fn bound(binder: &Binder, relation: &Relation) -> Option<String> {
    let partition = relation.as_partition()?;
    let of = binder.snapshot.relation_by_oid(partition.parent)?.partitioning()?;
    Some(shown::bound(of, &partition.bound))
}

/// What `pg_get_partition_constraintdef` gives.
pub(super) fn constraint(binder: &Binder, relation: &Relation) -> Option<String> {
    constraint::definition(&binder.snapshot, relation.as_partition()?)
}

/// What `pg_get_partkeydef` gives.
pub(super) fn key(relation: &Relation) -> Option<String> {
    relation.partitioning().map(shown::keys)
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
        let own = relation.partitioning()?;
        let siblings = binder.snapshot.partitions(relation.oid());
        let default = siblings
            .iter()
            .find(|partition| partition.bound == PartitionBound::Default);
        // An expression has no number of a column.
        let position = |key: &tenon_storage::PartitionKey| {
            let columns = relation.columns().fields();
            let at = columns
                .iter()
                .position(|field| tenon_storage::quote::name(field.name()) == key.expression);
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
pub(super) fn ancestors(binder: &Binder, of: Option<u32>) -> Vec<u32> {
    let mut found = Vec::new();
    let mut index = of.and_then(|oid| ShownIndex::find(binder, oid.into()));
    index = index.filter(|own| own.is_divided() || own.parent().is_some());
    while let Some(own) = index {
        found.push(own.oid);
        index = own.parent().and_then(|parent| ShownIndex::find(binder, parent.into()));
    }
    let of = of.and_then(|oid| binder.snapshot.relation_by_oid(oid).cloned());
    let mut next = of.filter(|relation| is_divided(relation) || relation.as_partition().is_some());
    while let Some(relation) = next {
        found.push(relation.oid());
        let parent = relation.as_partition().map(|partition| partition.parent);
        next = parent.and_then(|parent| binder.snapshot.relation_by_oid(parent).cloned());
    }
    found
}

/// The columns of `pg_partition_tree`.
pub(super) const TREE: [(&str, &str); 4] = [
    ("relid", "oid"),
    ("parentrelid", "oid"),
    ("isleaf", "bool"),
    ("level", "int"),
];

/// A partitioned table or partition with all below it, level by level.
pub(super) fn tree(binder: &Binder, of: Option<u32>) -> Vec<Row> {
    if let Some(top) = of.and_then(|oid| ShownIndex::find(binder, oid.into())) {
        return tree_of_index(binder, top);
    }
    let of = of.and_then(|oid| binder.snapshot.relation_by_oid(oid).cloned());
    let top = of.filter(|relation| is_divided(relation) || relation.as_partition().is_some());
    let mut found: Vec<(Relation, i64)> = top.into_iter().map(|top| (top, 0)).collect();
    let mut at = 0;
    while let Some((relation, level)) = found.get(at) {
        let level = level + 1;
        let mut below = binder.snapshot.partitions(relation.oid());
        below.sort_by_key(|partition| partition.oid);
        found.extend(
            below
                .into_iter()
                .map(|partition| (Relation::Partition(partition), level)),
        );
        at += 1;
    }
    let row = |(relation, level): (Relation, i64)| {
        row! {
            "relid": relation.oid(),
            "parentrelid": relation.as_partition().map(|partition| partition.parent),
            "isleaf": !is_divided(&relation),
            "level": level,
        }
    };
    found.into_iter().map(row).collect()
}

/// The same of an index, with those that are part of it.
fn tree_of_index(binder: &Binder, top: ShownIndex<'_>) -> Vec<Row> {
    if !top.is_divided() && top.parent().is_none() {
        return Vec::new();
    }
    let mut found = vec![(top, 0_i64)];
    let mut at = 0;
    while let Some((index, level)) = found.get(at) {
        let (oid, level) = (index.oid, level + 1);
        let mut below: Vec<_> = ShownIndex::all(binder)
            .filter(|own| own.parent() == Some(oid))
            .collect();
        below.sort_by_key(|own| own.oid);
        found.extend(below.into_iter().map(|own| (own, level)));
        at += 1;
    }
    let row = |(index, level): &(ShownIndex<'_>, i64)| {
        row! {
            "relid": index.oid,
            "parentrelid": index.parent(),
            "isleaf": !index.is_divided(),
            "level": *level,
        }
    };
    found.iter().map(row).collect()
}
