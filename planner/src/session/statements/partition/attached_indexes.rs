//! ALTER INDEX ... ATTACH PARTITION, and DROP INDEX of a partition's.

use super::indexes::{all_of, fits};
use crate::pg::error::{Result, SqlError, state};
use crate::session::Session;
use crate::session::run;
use crate::session::statements::index::existing;
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;
use tenon_storage::{DatabaseState, Partition, PartitionIndex, Relation};

/// An index and what it is of.
struct Found {
    relation: Relation,
    index: PartitionIndex,
}

fn found(session: &Session, name: &ObjectName) -> Result<Option<Found>> {
    let Some((schema, last)) = existing(session, name)? else {
        return Ok(None);
    };
    let state_now = session.state();
    let mut relations = state_now
        .schema(&schema)
        .into_iter()
        .flat_map(|entry| entry.relations());
    Ok(relations.find_map(|relation| {
        let index = all_of(relation).into_iter().find(|index| index.declared.name == last)?;
        let relation = relation.clone();
        Some(Found { relation, index })
    }))
}

/// ALTER INDEX ... ATTACH PARTITION.
pub(in super::super) async fn attach(session: &mut Session, to: &ObjectName, name: &ObjectName) -> Result<()> {
    let missing = |name: &ObjectName| crate::catalog::bind::undefined(None, &super::super::last(name));
    let parent = found(session, to)?.ok_or_else(|| missing(to))?;
    let child = found(session, name)?.ok_or_else(|| missing(name))?;
    let (of, own) = (&parent.index.declared.name, &child.index.declared.name);
    if parent.relation.partitioning().is_none() {
        let message = format!("ALTER action ATTACH PARTITION cannot be performed on relation \"{of}\"");
        let detail = "This operation is not supported for indexes.";
        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).detail(detail));
    }
    if child.index.parent == Some(parent.index.declared.oid) {
        return Ok(());
    }
    let refused = |state, detail: String| {
        let message = format!("cannot attach index \"{own}\" as a partition of index \"{of}\"");
        Err(SqlError::new(state, message).detail(detail))
    };
    if child.index.parent.is_some() {
        let detail = format!("Index \"{own}\" is already attached to another index.");
        return refused(state::OBJECT_NOT_IN_PREREQUISITE_STATE, detail);
    }
    let partition = match &child.relation {
        Relation::Partition(partition) if partition.parent == parent.relation.oid() => partition.clone(),
        _ => {
            let table = parent.relation.name();
            let detail = format!("Index \"{own}\" is not an index on any partition of table \"{table}\".");
            return refused(state::OBJECT_NOT_IN_PREREQUISITE_STATE, detail);
        }
    };
    if !fits(&session.binder(), &child.relation, &child.index, &parent.index)? {
        let detail = "The index definitions do not match.".to_string();
        return refused(state::INVALID_OBJECT_DEFINITION, detail);
    }
    if parent.index.is_constraint() && !child.index.is_constraint() {
        let table = parent.relation.name();
        let detail = format!(
            "The index \"{of}\" belongs to a constraint in table \"{table}\" but no constraint exists for index \"{own}\"."
        );
        return refused(state::INVALID_OBJECT_DEFINITION, detail);
    }
    let taken = |index: &PartitionIndex| index.parent == Some(parent.index.declared.oid);
    if partition.indexes.iter().any(taken) {
        let detail = format!(
            "Another index is already attached for partition \"{}\".",
            partition.name
        );
        return refused(state::OBJECT_NOT_IN_PREREQUISITE_STATE, detail);
    }
    let attached = |index: &mut PartitionIndex| index.parent = Some(parent.index.declared.oid);
    let transaction = session.transaction()?;
    transaction
        .lock()
        .change_partition_index(child.index.declared.oid, attached)?;
    settle(session, parent).await
}

/// Has an index be valid once each partition has a valid one that is part of it, and those above it likewise.
async fn settle(session: &Session, of: Found) -> Result<()> {
    let mut next = Some(of);
    while let Some(Found { relation, index }) = next {
        let oid = index.declared.oid;
        let state_now = session.state();
        let has = |partition: &Arc<Partition>| {
            let mut own = partition.indexes.iter();
            own.any(|own| own.parent == Some(oid) && own.is_valid())
        };
        if index.is_valid() || !state_now.partitions(relation.oid()).iter().all(has) {
            return Ok(());
        }
        let transaction = session.transaction()?;
        next = match &relation {
            Relation::Partition(partition) => {
                let valid = |own: &mut PartitionIndex| own.declared.shown.only = None;
                transaction.lock().change_partition_index(oid, valid)?;
                above(&state_now, partition.parent, index.parent)
            }
            _ => {
                let root = relation.oid();
                run::background(&session.engine, async move {
                    Ok(transaction.lock().validate_only_index(root, oid)?)
                })
                .await?;
                None
            }
        };
    }
    Ok(())
}

fn above(state_now: &DatabaseState, relation: u32, index: Option<u32>) -> Option<Found> {
    let relation = state_now.relation_by_oid(relation)?.clone();
    let index = all_of(&relation)
        .into_iter()
        .find(|own| Some(own.declared.oid) == index)?;
    Some(Found { relation, index })
}

/// DROP INDEX of a partition's.
pub(in super::super) fn drop(session: &Session, partition: &Partition, index: &PartitionIndex) -> Result<()> {
    let (name, state_now) = (&index.declared.name, session.state());
    if let Some(above) = above(&state_now, partition.parent, index.parent) {
        let of = &above.index.declared.name;
        let message = format!("cannot drop index {name} because index {of} requires it");
        let hint = format!("You can drop index {of} instead.");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint));
    }
    if index.is_constraint() {
        let table = &partition.name;
        let message = format!("cannot drop index {name} because constraint {name} on table {table} requires it");
        let hint = format!("You can drop constraint {name} on table {table} instead.");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint));
    }
    session.transaction()?.lock().drop_partition_index(index.declared.oid)?;
    Ok(())
}
