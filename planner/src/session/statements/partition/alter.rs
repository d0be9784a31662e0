//! ALTER TABLE of a partition, and what it says of partitions.

use super::attach;
use crate::catalog::bind::{Binder, Target};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::definition::{Action, PartitionChange};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{AlterTableOperation, RenameTableNameKind};
use tenon_storage::{Partition, Relation};

/// ATTACH and DETACH.
pub(crate) async fn change(session: &mut Session, relation: &Relation, change: &PartitionChange) -> Result<()> {
    match change {
        PartitionChange::Attach(name, values) => attach::attach(session, relation, name, values).await,
        PartitionChange::Detach(name) => attach::detach(session, relation, name).await,
    }
}

/// An action on a partition. Its columns are those of the table that it is a part of.
pub(crate) fn action(session: &mut Session, partition: &Partition, place: &mut Target, action: &Action) -> Result<()> {
    let refused = |message: String| Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
    let Action::Known(operation) = action else {
        return match action {
            Action::Nothing => Ok(()),
            _ => Err(SqlError::unsupported("this ALTER TABLE of a partition")),
        };
    };
    match operation.as_ref() {
        AlterTableOperation::RenameTable { table_name } => {
            let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = table_name;
            let to = crate::session::statements::last(to);
            let transaction = session.transaction()?;
            transaction.lock().rename_relation(&place.schema, &place.name, &to)?;
            place.name = to;
            Ok(())
        }
        AlterTableOperation::ReplicaIdentity { .. }
        | AlterTableOperation::ValidateConstraint { .. }
        | AlterTableOperation::SetOptionsParens { .. } => Ok(()),
        AlterTableOperation::AddColumn { .. } => {
            let message = "cannot add column to a partition";
            Err(SqlError::new(state::WRONG_OBJECT_TYPE, message))
        }
        AlterTableOperation::DropColumn { column_names, .. } => {
            let column = column_names.first().map(crate::catalog::bind::fold).unwrap_or_default();
            refused(format!("cannot drop inherited column \"{column}\""))
        }
        AlterTableOperation::RenameColumn { old_column_name, .. } => refused(format!(
            "cannot rename inherited column \"{}\"",
            crate::catalog::bind::fold(old_column_name)
        )),
        AlterTableOperation::DropConstraint { if_exists, name, .. } => {
            let name = crate::catalog::bind::fold(name);
            let mut found = false;
            session.transaction()?.lock().change_partition(partition.oid, |own| {
                let before = own.checks.len();
                own.checks.retain(|check| check.name != name);
                found = own.checks.len() < before;
            })?;
            if found {
                return Ok(());
            }
            let binder = session.binder();
            let root = binder.snapshot.table_by_oid(partition.root);
            if root.is_some_and(|root| root.definition().constraints().any(|own| own == name)) {
                let message = format!(
                    "cannot drop inherited constraint \"{name}\" of relation \"{}\"",
                    partition.name
                );
                return refused(message);
            }
            let message = format!(
                "constraint \"{name}\" of relation \"{}\" does not exist",
                partition.name
            );
            if !*if_exists {
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
            session.notice(format!("{message}, skipping"));
            Ok(())
        }
        other => Err(SqlError::unsupported(format!("ALTER TABLE {other} of a partition"))),
    }
}

/// 42P16 for a change of a partitioned table alone that its partitions would have to follow.
pub(crate) fn refuse_only(binder: &Binder, relation: &Relation, action: &Action) -> Result<()> {
    let Action::Known(operation) = action else {
        return Ok(());
    };
    let message = match operation.as_ref() {
        AlterTableOperation::AddColumn { .. } => "column must be added to child tables too",
        AlterTableOperation::DropColumn { .. } => {
            "cannot drop column from only the partitioned table when partitions exist"
        }
        AlterTableOperation::RenameColumn { .. } => "inherited column must be renamed in child tables too",
        AlterTableOperation::AddConstraint { .. } => "constraint must be added to child tables too",
        AlterTableOperation::DropConstraint { .. } => {
            "cannot remove constraint from only the partitioned table when partitions exist"
        }
        AlterTableOperation::AlterColumn { .. } => "the column must be changed in child tables too",
        _ => return Ok(()),
    };
    if binder.snapshot.partitions(relation.oid()).is_empty() {
        return Ok(());
    }
    let hint = "Do not specify the ONLY keyword.";
    Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message).hint(hint))
}
