//! CREATE INDEX, DROP INDEX, ALTER INDEX.

use crate::bind::{fold, parts};
use crate::error::{Result, SqlError, state};
use crate::errors::from_datafusion;
use crate::outcome::Outcome;
use crate::run;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{
    AlterIndexOperation, CreateIndex, Expr, IndexColumn, IndexType, ObjectName, OrderByOptions,
};
use tenon_executor::index::IndexData;
use tenon_storage::{ColumnOrder, IndexDef, Relation};

/// Operator classes that order bytes as Tenon does anyway.
const PATTERN_CLASSES: [&str; 3] = ["text_pattern_ops", "varchar_pattern_ops", "bpchar_pattern_ops"];

pub(super) async fn create(session: &mut Session, create: &CreateIndex) -> Result<Outcome> {
    let tag = || Ok(Outcome::Command("CREATE INDEX".into()));
    session.check_writable("CREATE INDEX")?;
    if create.concurrently && session.block().is_some() {
        let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
        return Err(SqlError::new(state::ACTIVE_SQL_TRANSACTION, message));
    }
    let def = definition(create)?;
    let relation = session.binder().names().relation(&create.table_name)?.clone();
    let Relation::Table(table) = relation else {
        let message = format!("cannot create index on relation \"{}\"", relation.name());
        return Err(
            SqlError::new(state::WRONG_OBJECT_TYPE, message).detail("This operation is not supported for views.")
        );
    };
    let (schema, table) = (table.definition().schema_name.clone(), table.name().to_string());
    let snapshot = session.state();
    if let Some(name) = &def.name
        && create.if_not_exists
        && (snapshot.index(&schema, name).is_some() || snapshot.relation(&schema, name).is_some())
    {
        session.notice(format!("relation \"{name}\" already exists, skipping"));
        return tag();
    }
    let transaction = session.transaction()?;
    let budget = session.engine.database().budget().clone();
    // A unique index checks the rows that are there, and the index is built: on the query threads.
    run::background(&session.engine, async move {
        let name = transaction.lock().create_index(&schema, &table, def)?;
        let snapshot = transaction.lock().state().clone();
        if let Some((table, index)) = snapshot.index(&schema, &name) {
            IndexData::reader(table, index, &budget).map_err(|error| from_datafusion(&error))?;
        }
        Ok(())
    })
    .await?;
    tag()
}

/// What the statement declares; 0A000 for what Tenon does not have.
fn definition(create: &CreateIndex) -> Result<IndexDef> {
    match &create.using {
        None | Some(IndexType::BTree) => {}
        Some(IndexType::Custom(name)) => {
            let message = format!("access method \"{}\" does not exist", fold(name));
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        }
        Some(other) => {
            return Err(
                SqlError::unsupported(format!("access method {}", other.to_string().to_lowercase()))
                    .hint("Leave USING out, or write USING btree."),
            );
        }
    }
    for (clause, present) in [
        ("a partial index", create.predicate.is_some()),
        ("INCLUDE", !create.include.is_empty()),
        (
            "this index option",
            !create.index_options.is_empty() || !create.alter_options.is_empty(),
        ),
    ] {
        if present {
            return Err(SqlError::unsupported(clause));
        }
    }
    let name = match create.name.as_ref().map(parts).as_deref() {
        None => None,
        Some([name]) => Some(name.clone()),
        // The index lives in its table's schema.
        Some(_) => return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \".\"")),
    };
    Ok(IndexDef {
        name,
        columns: create.columns.iter().map(column).collect::<Result<_>>()?,
        unique: create.unique,
        constraint: false,
        nulls_not_distinct: create.nulls_distinct == Some(false),
    })
}

fn column(column: &IndexColumn) -> Result<(String, ColumnOrder)> {
    let name = match &column.column.expr {
        Expr::Identifier(name) => fold(name),
        _ => return Err(SqlError::unsupported("an index on an expression")),
    };
    let operator_class = column
        .operator_class
        .as_ref()
        .map(|class| parts(class).pop().unwrap_or_default());
    if let Some(class) = &operator_class
        && !PATTERN_CLASSES.contains(&class.as_str())
    {
        return Err(SqlError::unsupported(format!("operator class \"{class}\"")));
    }
    let OrderByOptions { asc, nulls_first } = column.column.options;
    let descending = asc == Some(false);
    let order = ColumnOrder {
        descending,
        nulls_first: nulls_first.unwrap_or(descending),
        operator_class,
    };
    Ok((name, order))
}

/// The schema and name of an index that exists; None where there is no relation of that name at all.
fn existing(session: &Session, name: &ObjectName) -> Result<Option<(String, String)>> {
    let binder = session.binder();
    if let Some((table, index)) = binder.names().index(name)? {
        return Ok(Some((table.definition().schema_name.clone(), index.name.clone())));
    }
    let Some(relation) = binder.names().existing(name)? else {
        return Ok(None);
    };
    let kind = if relation.as_table().is_some() { "table" } else { "view" };
    let message = format!("\"{}\" is not an index", relation.name());
    Err(SqlError::new(state::WRONG_OBJECT_TYPE, message)
        .hint(format!("Use DROP {} to remove a {kind}.", kind.to_uppercase())))
}

pub(super) fn drop(session: &mut Session, name: &ObjectName, if_exists: bool) -> Result<()> {
    match existing(session, name)? {
        Some((schema, name)) => Ok(session.transaction()?.lock().drop_index(&schema, &name)?),
        None => {
            let message = format!("index \"{}\" does not exist", parts(name).pop().unwrap_or_default());
            if !if_exists {
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
            session.notice(format!("{message}, skipping"));
            Ok(())
        }
    }
}

pub(super) fn alter(session: &mut Session, name: &ObjectName, operation: &AlterIndexOperation) -> Result<Outcome> {
    session.check_writable("ALTER INDEX")?;
    let AlterIndexOperation::RenameIndex { index_name } = operation;
    let mut to = parts(index_name);
    if to.len() != 1 {
        return Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \".\""));
    }
    let shown = parts(name).join(".");
    match existing(session, name)? {
        Some((schema, own)) => session
            .transaction()?
            .lock()
            .rename_index(&schema, &own, &to.remove(0))?,
        None => {
            return Err(SqlError::new(
                state::UNDEFINED_TABLE,
                format!("relation \"{shown}\" does not exist"),
            ));
        }
    }
    Ok(Outcome::Command("ALTER INDEX".into()))
}
