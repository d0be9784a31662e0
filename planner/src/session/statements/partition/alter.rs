//! ALTER TABLE of a partition, and what it says of partitions.

use super::{attach, own_keys};
use crate::catalog::bind::{Binder, Target};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::definition::{Action, ColumnChange, PartitionChange};
use crate::session::Session;
use crate::session::statements::{check_constraints, storage_parameters, triggers};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, CheckConstraint, RenameTableNameKind, TableConstraint,
};
use std::sync::Arc;
use tenon_storage::{Check, Partition, Relation, TableVersion, quote};

/// ATTACH and DETACH.
pub(crate) async fn change(session: &mut Session, relation: &Relation, change: &PartitionChange) -> Result<()> {
    match change {
        PartitionChange::Attach(name, values) => attach::attach(session, relation, name, values).await,
        PartitionChange::Detach(name) => attach::detach(session, relation, name).await,
        PartitionChange::AttachIndex(_) => Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at end of input")),
    }
}

/// An action on a partition. Its columns are those of the table that it is a part of.
pub(crate) async fn action(
    session: &mut Session,
    partition: &Partition,
    place: &mut Target,
    action: &Action,
    only: bool,
) -> Result<()> {
    let refused = |message: String| Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
    let Action::Known(operation) = action else {
        return match action {
            Action::Nothing | Action::Column(_, ColumnChange::Nothing) => Ok(()),
            Action::Parameters { is_set, parameters } => {
                storage_parameters::change(session, place, parameters, *is_set)
            }
            Action::Column(column, ColumnChange::Type { .. }) => refused(format!(
                "cannot alter inherited column \"{}\"",
                crate::catalog::bind::fold(column)
            )),
            Action::Triggers(on, which) => {
                triggers::switch(session, &Relation::Partition(partition.clone().into()), *on, which)
            }
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
        AlterTableOperation::ReplicaIdentity { .. } | AlterTableOperation::SetOptionsParens { .. } => Ok(()),
        AlterTableOperation::ValidateConstraint { name } => {
            validate(session, partition, &crate::catalog::bind::fold(name)).await
        }
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
            if let Some(index) = partition.index(&name).filter(|index| index.is_constraint()) {
                if index.parent.is_none() {
                    let oid = index.declared.oid;
                    return Ok(session.transaction()?.lock().drop_partition_index(oid)?);
                }
                return refused(format!(
                    "cannot drop inherited constraint \"{name}\" of relation \"{}\"",
                    partition.name
                ));
            }
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
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::Check(check),
            not_valid,
        } => add_check(session, partition, place, check, *not_valid).await,
        AlterTableOperation::AddConstraint { constraint, .. } if let Some(key) = own_keys::Key::of(constraint) => {
            own_keys::add_key(session, partition, &key, only).await
        }
        AlterTableOperation::RenameConstraint { old_name, new_name }
            if let Some(index) = partition.index(&crate::catalog::bind::fold(old_name))
                && index.is_constraint() =>
        {
            let to = crate::catalog::bind::fold(new_name);
            let oid = index.declared.oid;
            let transaction = session.transaction()?;
            transaction.lock().rename_partition_index(&place.schema, oid, &to)?;
            Ok(())
        }
        AlterTableOperation::AlterColumn {
            column_name,
            op: op @ (AlterColumnOperation::SetNotNull | AlterColumnOperation::DropNotNull),
        } => {
            let column = crate::catalog::bind::fold(column_name);
            let not_null = matches!(op, AlterColumnOperation::SetNotNull);
            set_not_null(session, partition, &column, not_null).await
        }
        other => Err(SqlError::unsupported(format!("ALTER TABLE {other} of a partition"))),
    }
}

/// A condition of the partition's own.
async fn add_check(
    session: &mut Session,
    partition: &Partition,
    place: &Target,
    declared: &CheckConstraint,
    not_valid: bool,
) -> Result<()> {
    let binder = session.binder();
    let root = root(&binder, partition)?;
    let taken: Vec<Check> = partition
        .checks
        .iter()
        .chain(&root.definition().checks)
        .cloned()
        .collect();
    let schema = &root.definition().schema;
    let mut check = check_constraints::declared(&binder, declared, None, place, schema, &taken)?;
    check.not_valid = not_valid;
    if !not_valid {
        refuse_violated(session, partition, &check, &place.name).await?;
    }
    let change = |own: &mut Partition| own.checks.push(check);
    session.transaction()?.lock().change_partition(partition.oid, change)?;
    Ok(())
}

/// Checks the rows that were there when a condition came.
async fn validate(session: &mut Session, partition: &Partition, name: &str) -> Result<()> {
    let Some(check) = partition.checks.iter().find(|check| check.name == name) else {
        let root = root(&session.binder(), partition)?;
        if root.definition().constraints().any(|own| own == name) {
            return Ok(());
        }
        let message = format!(
            "constraint \"{name}\" of relation \"{}\" does not exist",
            partition.name
        );
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
    };
    if !check.not_valid {
        return Ok(());
    }
    refuse_violated(session, partition, check, &partition.name).await?;
    session.transaction()?.lock().change_partition(partition.oid, |own| {
        let found = own.checks.iter_mut().find(|own| own.name == name);
        found.into_iter().for_each(|own| own.not_valid = false);
    })?;
    Ok(())
}

async fn refuse_violated(session: &Session, partition: &Partition, check: &Check, relation: &str) -> Result<()> {
    let violated = format!("NOT ({})", check.condition);
    if attach::rows_where(session, partition, &violated).await? == 0 {
        return Ok(());
    }
    let message = format!(
        "check constraint \"{}\" of relation \"{relation}\" is violated by some row",
        check.name
    );
    Err(SqlError::new(state::CHECK_VIOLATION, message))
}

fn root(binder: &Binder, partition: &Partition) -> Result<Arc<TableVersion>> {
    let root = binder.snapshot.table_by_oid(partition.root).cloned();
    root.ok_or_else(|| SqlError::internal("a partition has no table"))
}

pub(super) async fn set_not_null(
    session: &mut Session,
    partition: &Partition,
    column: &str,
    not_null: bool,
) -> Result<()> {
    let root = root(&session.binder(), partition)?;
    let definition = root.definition();
    let of = format!("column \"{column}\" of relation \"{}\"", partition.name);
    let Some(at) = definition.column_index(column) else {
        return Err(SqlError::new(state::UNDEFINED_COLUMN, format!("{of} does not exist")));
    };
    if definition.columns[at].not_null {
        let message = format!("column \"{column}\" is marked NOT NULL in parent table");
        return match not_null {
            true => Ok(()),
            false => Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message)),
        };
    }
    let is_null = format!("{} IS NULL", quote::name(column));
    if not_null && attach::rows_where(session, partition, &is_null).await? > 0 {
        let message = format!("{of} contains null values");
        return Err(SqlError::new(state::NOT_NULL_VIOLATION, message));
    }
    session.transaction()?.lock().change_partition(partition.oid, |own| {
        own.not_null.retain(|own| *own != at);
        if not_null {
            own.not_null.push(at);
        }
    })?;
    Ok(())
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
        AlterTableOperation::AddConstraint { constraint, .. } if own_keys::Key::of(constraint).is_some() => {
            return Ok(());
        }
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
