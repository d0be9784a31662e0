//! Partitioned tables and their partitions: CREATE TABLE ... PARTITION BY and PARTITION OF, ATTACH and DETACH, and what of
//! ALTER TABLE concerns them.

pub(super) mod alter;
pub(super) mod attach;
pub(super) mod attached_indexes;
mod bound;
mod create;
pub(super) mod indexes;
mod key;
pub(super) mod own_keys;

pub(super) use create::create;
pub(super) use key::{check_unique, declared as partitioning, refuse_change_of_key};

use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::parse;
use crate::session::statements::constraints;
use crate::session::{Prepared, Session};
use datafusion::common::ScalarValue;
use tenon_storage::quote;
use tenon_storage::{ForeignKey, Partition, ReferentialAction, Relation};

/// The table or partition that is divided; 42P17 where it is not.
pub(super) struct Parent {
    pub root: u32,
    pub oid: u32,
    pub name: String,
    pub schema: String,
    pub partitioning: tenon_storage::Partitioning,
}

pub(super) fn parent(relation: &Relation) -> Result<Parent> {
    let (root, partitioning) = match relation {
        Relation::Table(table) => (table.oid(), table.definition().partitioning.clone()),
        Relation::Partition(partition) => (partition.root, partition.partitioning.clone()),
        Relation::View(_) | Relation::Sequence(_) => (0, None),
    };
    let name = relation.name().to_string();
    let Some(partitioning) = partitioning else {
        let message = format!("\"{name}\" is not partitioned");
        return Err(SqlError::new(state::INVALID_OBJECT_DEFINITION, message));
    };
    Ok(Parent {
        root,
        oid: relation.oid(),
        name,
        schema: relation.schema_name().to_string(),
        partitioning,
    })
}

/// Runs statements that others are made of, for which these were allowed.
pub(super) async fn execute(session: &mut Session, sql: &str) -> Result<()> {
    for statement in parse(sql)? {
        execute_prepared(session, &Prepared::without_parameters(statement), &[]).await?;
    }
    Ok(())
}

/// The same of a statement that may be kept.
pub(super) async fn execute_prepared(session: &mut Session, prepared: &Prepared, params: &[ScalarValue]) -> Result<()> {
    let before = std::mem::replace(&mut session.trusted, true);
    let done = Box::pin(super::run(session, prepared, params)).await;
    session.trusted = before;
    done.map(drop)
}

/// Deletes the rows of a partition.
pub(super) async fn empty(session: &mut Session, partition: &Partition) -> Result<()> {
    let is_followed = |key: &ForeignKey| {
        use ReferentialAction::{NoAction, Restrict};
        !matches!(key.on_delete, NoAction | Restrict)
    };
    let references = session.state().references_to(partition.root);
    if references.iter().any(|(_, key)| is_followed(key)) {
        let what = "emptying a partition of a table whose rows are referenced with ON DELETE";
        return Err(SqlError::unsupported(what));
    }
    let name = format!(
        "{}.{}",
        quote::name(&partition.schema_name),
        quote::name(&partition.name)
    );
    execute(session, &format!("DELETE FROM {name}")).await
}

/// 0A000 for a unique constraint that lacks a key by which the table, or a partition of it, is divided.
pub(super) fn check_constraint(
    session: &Session,
    schema: &str,
    table: &str,
    columns: &[String],
    what: &str,
) -> Result<()> {
    let state = session.state();
    let Some(table) = state.table(schema, table) else {
        return Ok(());
    };
    check_unique(table.definition().partitioning.as_ref(), table.name(), columns, what)?;
    for partition in state.partitions_under(table.oid()) {
        check_unique(partition.partitioning.as_ref(), &partition.name, columns, what)?;
    }
    Ok(())
}

/// Has keys and conditions follow a column of the table that has another name.
pub(super) fn follow_rename(session: &Session, table: u32, from: &str, to: &str) -> Result<()> {
    let state = session.state();
    let Some(table) = state.table_by_oid(table) else {
        return Ok(());
    };
    let definition = table.definition();
    let Some(partitioning) = &definition.partitioning else {
        return Ok(());
    };
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    let keys = key::renamed(partitioning, from, to)?;
    transaction.set_partitioning(&definition.schema_name, &definition.name, keys)?;
    for partition in state.partitions_under(table.oid()) {
        let partitioning = match &partition.partitioning {
            Some(own) => Some(key::renamed(own, from, to)?),
            None => None,
        };
        let checks = constraints::renamed(&partition.checks, from, to)?;
        let declared: Vec<_> = partition.indexes.iter().map(|own| own.declared.clone()).collect();
        let declared = constraints::renamed_indexes(&declared, from, to)?;
        transaction.change_partition(partition.oid, |own| {
            own.partitioning = partitioning;
            own.checks = checks;
            for (own, declared) in own.indexes.iter_mut().zip(declared) {
                own.declared = declared;
            }
        })?;
    }
    Ok(())
}
