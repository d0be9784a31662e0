//! ALTER INDEX.

use super::index::{check_owner, existing};
use super::{partition, storage_parameters};
use crate::catalog::bind::parts;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::{Action, Alter, ColumnChange, PartitionChange, StorageParameter};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{AlterTableOperation, ObjectName, RenameTableNameKind};

pub(super) async fn alter(session: &mut Session, alter: &Alter) -> Result<Outcome> {
    let last = super::last(&alter.name);
    if alter.if_exists && existing(session, &alter.name)?.is_none() {
        session.notice(format!("relation \"{last}\" does not exist, skipping"));
        return Ok(Outcome::Command(alter.kind.tag().into()));
    }
    for action in &alter.actions {
        match action {
            Action::Known(operation) => match operation.as_ref() {
                AlterTableOperation::RenameTable {
                    table_name: RenameTableNameKind::As(to) | RenameTableNameKind::To(to),
                } => rename(session, &alter.name, to)?,
                other => return Err(SqlError::unsupported(format!("ALTER INDEX {other}"))),
            },
            // Indexes belong to whom their table belongs.
            Action::OwnerTo(_) => {}
            Action::Parameters { is_set, parameters } => {
                set(session, &alter.name, parameters, *is_set)?;
            }
            Action::Nothing | Action::Column(_, ColumnChange::Nothing) => {}
            Action::Partition(PartitionChange::AttachIndex(name)) => {
                partition::attached_indexes::attach(session, &alter.name, name).await?;
            }
            _ => return Err(SqlError::unsupported("this ALTER INDEX")),
        }
    }
    Ok(Outcome::Command(alter.kind.tag().into()))
}

/// SET or (`is_set` false) RESET of storage parameters.
fn set(session: &Session, name: &ObjectName, given: &[StorageParameter], is_set: bool) -> Result<()> {
    let Some((schema, name)) = existing(session, name)? else {
        let message = format!("relation \"{}\" does not exist", parts(name).join("."));
        return Err(SqlError::new(state::UNDEFINED_TABLE, message));
    };
    check_owner(session, &schema, &name)?;
    let state_now = session.state();
    let entry = state_now.schema(&schema);
    if let Some((_, index)) = entry.and_then(|entry| entry.partition_index(&name)) {
        return storage_parameters::change_partition_index(session, index, given, is_set);
    }
    let of_expressions = state_now
        .schema(&schema)
        .and_then(|entry| entry.expression_index(&name));
    let of_columns = || state_now.index(&schema, &name).map(|(table, own)| (table, &own.shown));
    let found = of_expressions
        .map(|(table, own)| (table, &own.shown))
        .or_else(of_columns);
    let (table, shown) = found.ok_or_else(|| SqlError::internal("an index is not there"))?;
    storage_parameters::change_index(session, (&schema, table.name(), &name), shown, given, is_set)
}

fn rename(session: &Session, name: &ObjectName, to: &ObjectName) -> Result<()> {
    let mut to = parts(to);
    if to.len() != 1 {
        return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \".\""));
    }
    let shown = parts(name).join(".");
    match existing(session, name)? {
        Some((schema, own)) => {
            check_owner(session, &schema, &own)?;
            let (transaction, to) = (session.transaction()?, to.remove(0));
            let mut transaction = transaction.lock();
            let entry = transaction.state().schema(&schema);
            if let Some((_, index)) = entry.and_then(|entry| entry.partition_index(&own)) {
                let oid = index.declared.oid;
                return Ok(transaction.rename_partition_index(&schema, oid, &to)?);
            }
            if !transaction.change_expression_index(&schema, &own, Some(&to))? {
                transaction.rename_index(&schema, &own, &to)?;
            }
            Ok(())
        }
        None => {
            let message = format!("relation \"{shown}\" does not exist");
            Err(SqlError::new(state::UNDEFINED_TABLE, message))
        }
    }
}
