//! ALTER TABLE and ALTER VIEW.

use super::constraints::{self, Checks};
use super::{create, insert};
use crate::bind::fold;
use crate::error::{Result, SqlError, state};
use crate::errors::from_datafusion;
use crate::outcome::Outcome;
use crate::run;
use crate::session::Session;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, CheckConstraint, Ident, ObjectName, RenameTableNameKind,
    TableConstraint,
};
use futures::StreamExt;
use tenon_storage::{Check, IndexDef, Relation};

pub(super) async fn table(session: &mut Session, alter: &AlterTable) -> Result<Outcome> {
    let tag = || Ok(Outcome::Command("ALTER TABLE".into()));
    session.check_writable("ALTER TABLE")?;
    let binder = session.binder();
    let Some(relation) = binder.names().existing(&alter.name)? else {
        let last = alter
            .name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .map(fold)
            .unwrap_or_default();
        if !alter.if_exists {
            return Err(crate::bind::undefined(None, &last));
        }
        session.notice(format!("relation \"{last}\" does not exist, skipping"));
        return tag();
    };
    let relation = relation.clone();
    let mut name = relation.name().to_string();
    let schema = relation.schema_name().to_string();
    for operation in &alter.operations {
        one(session, &relation, &schema, &mut name, operation).await?;
    }
    tag()
}

async fn one(
    session: &mut Session,
    relation: &Relation,
    schema: &str,
    name: &mut String,
    operation: &AlterTableOperation,
) -> Result<()> {
    let transaction = session.transaction()?;
    match operation {
        AlterTableOperation::RenameTable { table_name } => {
            let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = table_name;
            let to = last(to);
            transaction.lock().rename_relation(schema, name, &to)?;
            *name = to;
        }
        AlterTableOperation::RenameColumn {
            old_column_name,
            new_column_name,
        } => {
            if relation.as_table().is_none() {
                return Err(SqlError::unsupported("renaming a view's column"));
            }
            let (from, to) = (fold(old_column_name), fold(new_column_name));
            let checks = checks(session, schema, name);
            transaction.lock().rename_column(schema, name, &from, &to)?;
            if !checks.is_empty() {
                let checks = constraints::renamed(&checks, &from, &to)?;
                transaction.lock().set_checks(schema, name, checks)?;
            }
        }
        AlterTableOperation::AddColumn {
            if_not_exists,
            column_def,
            ..
        } => {
            let (column, declared) = create::column_definition(session, column_def)?;
            if declared.primary_key {
                return Err(SqlError::unsupported("ADD COLUMN with PRIMARY KEY"));
            }
            let state = session.state();
            let exists = state
                .table(schema, name)
                .is_some_and(|t| t.definition().column_index(&column.name).is_some());
            if exists && *if_not_exists {
                let message = format!(
                    "column \"{}\" of relation \"{name}\" already exists, skipping",
                    column.name
                );
                session.notice(message);
                return Ok(());
            }
            let fill = match &column.default {
                Some(_) => Some(value_of_default(session, &column).await?),
                None => None,
            };
            let added = column.name.clone();
            transaction.lock().add_column(schema, name, column, fill)?;
            if let Some(unique) = declared.unique {
                add_unique(session, schema, name, unique).await?;
            }
            for (own, check) in declared.checks {
                add_check(session, schema, name, &check, own.as_ref(), Some(&added)).await?;
            }
        }
        AlterTableOperation::DropColumn {
            column_names,
            if_exists,
            ..
        } => {
            for column in column_names {
                let column = fold(column);
                let state = session.state();
                let there = state
                    .table(schema, name)
                    .is_some_and(|t| t.definition().column_index(&column).is_some());
                if !there && *if_exists {
                    let message = format!("column \"{column}\" of relation \"{name}\" does not exist, skipping");
                    session.notice(message);
                    continue;
                }
                for check in constraints::about(&checks(session, schema, name), &column)? {
                    transaction.lock().drop_constraint(schema, name, &check)?;
                }
                transaction.lock().drop_column(schema, name, &column)?;
            }
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            let column = fold(column_name);
            match op {
                AlterColumnOperation::SetNotNull => transaction.lock().set_not_null(schema, name, &column, true)?,
                AlterColumnOperation::DropNotNull => transaction.lock().set_not_null(schema, name, &column, false)?,
                AlterColumnOperation::SetDefault { value } => {
                    let state = session.state();
                    if let Some(table) = state.table(schema, name)
                        && let Some(at) = table.definition().column_index(&column)
                    {
                        insert::check_default(session, value, &table.definition().columns[at])?;
                    }
                    transaction
                        .lock()
                        .set_default(schema, name, &column, Some(value.to_string()))?;
                }
                AlterColumnOperation::DropDefault => transaction.lock().set_default(schema, name, &column, None)?,
                other => return Err(SqlError::unsupported(format!("ALTER COLUMN {other}"))),
            }
        }
        AlterTableOperation::OwnerTo { .. }
        | AlterTableOperation::ReplicaIdentity { .. }
        | AlterTableOperation::ValidateConstraint { .. }
        | AlterTableOperation::SetOptionsParens { .. } => {}
        AlterTableOperation::DropConstraint {
            if_exists, name: own, ..
        } => {
            let own = fold(own);
            if !transaction.lock().drop_constraint(schema, name, &own)? {
                let message = format!("constraint \"{own}\" of relation \"{name}\" does not exist");
                if !*if_exists {
                    return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
                }
                session.notice(format!("{message}, skipping"));
            }
        }
        AlterTableOperation::AddConstraint { constraint, .. } => {
            return constraint_added(session, schema, name, constraint).await;
        }
        other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
    }
    Ok(())
}

async fn constraint_added(session: &mut Session, schema: &str, name: &str, constraint: &TableConstraint) -> Result<()> {
    match constraint {
        TableConstraint::ForeignKey(_) => {
            create::not_enforced(session, "FOREIGN KEY");
            Ok(())
        }
        TableConstraint::Unique(unique) => {
            let unique = constraints::unique(&unique.columns, unique.name.as_ref(), unique.nulls_distinct)?;
            add_unique(session, schema, name, unique).await
        }
        TableConstraint::Check(check) => add_check(session, schema, name, check, None, None).await,
        TableConstraint::PrimaryKey(key) => {
            let columns = key.columns.iter().map(create::key_column).collect::<Result<Vec<_>>>()?;
            add_primary_key(session, schema, name, columns, key.name.as_ref().map(fold)).await
        }
        other => Err(SqlError::unsupported(format!("constraint {other}"))),
    }
}

fn checks(session: &Session, schema: &str, name: &str) -> Vec<Check> {
    let state = session.state();
    let table = state.table(schema, name);
    table.map_or_else(Vec::new, |table| table.definition().checks.clone())
}

async fn add_unique(session: &mut Session, schema: &str, name: &str, unique: IndexDef) -> Result<()> {
    let transaction = session.transaction()?;
    let (schema, name) = (schema.to_string(), name.to_string());
    run::background(&session.engine, async move {
        transaction.lock().create_index(&schema, &name, unique)?;
        Ok(())
    })
    .await
}

/// Adds a CHECK that the rows there satisfy.
async fn add_check(
    session: &mut Session,
    schema: &str,
    name: &str,
    declared: &CheckConstraint,
    own: Option<&Ident>,
    column: Option<&str>,
) -> Result<()> {
    let (binder, state) = (session.binder(), session.state());
    let table = state
        .table(schema, name)
        .ok_or_else(|| crate::bind::undefined(Some(schema), name))?;
    let definition = table.definition();
    let check = constraints::check(
        &binder,
        declared,
        own,
        name,
        column,
        &definition.schema,
        &definition.checks,
    )?;
    let constraint = check.name.clone();
    session.transaction()?.lock().add_check(schema, name, check)?;
    let state = session.state();
    let table = state
        .table(schema, name)
        .ok_or_else(|| crate::bind::undefined(Some(schema), name))?;
    let (checks, segments) = (Checks::of(&binder, table.definition())?, table.segments().clone());
    let violated = run::background(&session.engine, async move { checks.verify(&segments) }).await;
    violated.map_err(|error| match error.state {
        state::CHECK_VIOLATION => {
            let message = format!("check constraint \"{constraint}\" of relation \"{name}\" is violated by some row");
            SqlError::new(state::CHECK_VIOLATION, message)
        }
        _ => error,
    })
}

/// Checks the rows that are there on the query threads.
async fn add_primary_key(
    session: &mut Session,
    schema: &str,
    name: &str,
    columns: Vec<String>,
    key_name: Option<String>,
) -> Result<()> {
    let transaction = session.transaction()?;
    let (schema, name) = (schema.to_string(), name.to_string());
    run::background(&session.engine, async move {
        Ok(transaction.lock().add_primary_key(&schema, &name, &columns, key_name)?)
    })
    .await
}

fn last(name: &ObjectName) -> String {
    name.0
        .last()
        .and_then(|part| part.as_ident())
        .map(fold)
        .unwrap_or_default()
}

/// A default's value now, for the rows that are there.
pub(super) async fn value_of_default(
    session: &Session,
    column: &tenon_storage::ColumnDef,
) -> Result<datafusion::arrow::array::ArrayRef> {
    let expr = insert::default_value(&session.binder(), column)?;
    let plan = LogicalPlanBuilder::empty(true)
        .project([expr.alias("value")])
        .and_then(LogicalPlanBuilder::build);
    let plan = plan.map_err(|error| from_datafusion(&error))?;
    let mut stream = run::start(&session.run(), plan).await?;
    match stream.next().await {
        Some(batch) => Ok(batch?.column(0).clone()),
        None => Err(SqlError::new(state::INTERNAL_ERROR, "a default has no value")),
    }
}
