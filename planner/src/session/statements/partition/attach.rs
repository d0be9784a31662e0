//! ATTACH PARTITION and DETACH PARTITION: the rows move between a table of their own and the one at the root.

use super::{Parent, bound, create, empty, execute, indexes, parent};
use crate::catalog::bind::Target;
use crate::catalog::partitions;
use crate::pg::error::{Result, SqlError, state};
use crate::session::Session;
use crate::session::run;
use crate::session::statements::{query, references};
use datafusion::arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::{self, ForValues, ObjectName};
use std::sync::Arc;
use tenon_storage::quote;
use tenon_storage::{Check, ColumnDef, Generated, Partition, Relation, TableDef, TableDefinition, Transaction};

/// The rows of a partition that satisfy a condition: how many.
pub(super) async fn rows_where(session: &Session, partition: &Partition, condition: &str) -> Result<usize> {
    let sql = format!(
        "{} AND {condition} LIMIT 1",
        partitions::query(&session.state(), partition)?
    );
    read(session, &sql, 0, |rows, batch| *rows += batch.num_rows()).await
}

/// A query of expressions over a partition's rows, as far as its condition.
pub(super) fn rows_of(session: &Session, partition: &Partition, listed: &str) -> Result<String> {
    let state_now = session.state();
    let root = state_now.table_by_oid(partition.root);
    let definition = root
        .ok_or_else(|| SqlError::internal("a partition has no table"))?
        .definition();
    Ok(format!(
        "SELECT {listed} FROM {} WHERE {}",
        qualified(&definition.schema_name, &definition.name),
        partitions::condition(&state_now, partition)
    ))
}

/// Runs a query with the rights of its tables' owners.
pub(super) async fn read<T: Send + 'static>(
    session: &Session,
    sql: &str,
    sink: T,
    mut take: impl FnMut(&mut T, RecordBatch) + Send + 'static,
) -> Result<T> {
    let binder = session.binder().trusted();
    let tree = crate::pg::parse::parse(sql)?.into_iter().next().map(|first| first.kind);
    let Some(crate::pg::statement::Kind::Sql(tree)) = tree else {
        return Err(SqlError::internal("a condition makes no query"));
    };
    let ast::Statement::Query(query) = *tree else {
        return Err(SqlError::internal("a condition makes no query"));
    };
    let plan = query::bound_plan(&binder, &query, &[], &[])?;
    run::drain(&session.run(), plan, sink, move |sink, batch| {
        take(sink, batch);
        Ok(())
    })
    .await
}

fn mismatch(message: String) -> SqlError {
    SqlError::new(state::DATATYPE_MISMATCH, message)
}

/// What a table must be to become a partition: as PostgreSQL asks it, and nothing that a partition cannot have here.
fn fitting(root: &TableDefinition, parent: &Parent, child: &TableDefinition) -> Result<(Vec<usize>, Vec<usize>)> {
    let (mut columns, mut not_null) = (Vec::new(), Vec::new());
    for own in &child.columns {
        let Some(at) = root.column_index(&own.name) else {
            let message = format!(
                "table \"{}\" contains column \"{}\" not found in parent \"{}\"",
                child.name, own.name, parent.name
            );
            let detail = "The new partition may contain only the columns present in parent.";
            return Err(mismatch(message).detail(detail));
        };
        columns.push(at);
    }
    for (at, wanted) in root.columns.iter().enumerate() {
        let Some(own) = child.column_index(&wanted.name).map(|at| &child.columns[at]) else {
            return Err(mismatch(format!("child table is missing column \"{}\"", wanted.name)));
        };
        if own.sql_type != wanted.sql_type {
            let message = format!(
                "child table \"{}\" has different type for column \"{}\"",
                child.name, wanted.name
            );
            return Err(mismatch(message));
        }
        if wanted.not_null && !own.not_null {
            let message = format!("column \"{}\" in child table must be marked NOT NULL", wanted.name);
            return Err(mismatch(message));
        }
        if own.not_null && !wanted.not_null {
            not_null.push(at);
        }
        let differs = |own: &ColumnDef| own.default.is_some() && own.default != wanted.default;
        // An identity is the table's alone.
        let is_identity = wanted.generated.is_some_and(|of| of != Generated::Stored);
        if differs(own) || own.generated != wanted.generated.filter(|_| !is_identity) {
            return Err(SqlError::unsupported("a partition with defaults of its own"));
        }
    }
    for check in &root.checks {
        if !child.checks.iter().any(|own| own.name == check.name) {
            return Err(mismatch(format!(
                "child table is missing constraint \"{}\"",
                check.name
            )));
        }
    }
    Ok((columns, not_null))
}

pub(super) async fn attach(session: &mut Session, to: &Relation, name: &ObjectName, values: &ForValues) -> Result<()> {
    let binder = session.binder();
    let parent = parent(to)?;
    let relation = binder.names().relation(name)?.clone();
    binder.rights().check_owner(&relation)?;
    let child = match &relation {
        Relation::Table(table) if table.definition().query.is_none() => table.clone(),
        Relation::Partition(partition) => {
            let message = format!("\"{}\" is already a partition", partition.name);
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
        }
        other => {
            let message = format!("\"{}\" is not a table", other.name());
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
        }
    };
    if child.oid() == parent.root {
        let message = "circular inheritance not allowed";
        return Err(SqlError::new(state::DUPLICATE_TABLE, message).detail(format!(
            "\"{}\" is already a child of \"{}\".",
            parent.name,
            child.name()
        )));
    }
    let definition = child.definition();
    let is_temporary = |schema: &str| schema.starts_with("pg_temp_");
    if is_temporary(&definition.schema_name) != is_temporary(&parent.schema) {
        let message = match is_temporary(&parent.schema) {
            true => "cannot attach a permanent relation as partition of temporary relation",
            false => "cannot attach a temporary relation as partition of permanent relation",
        };
        return Err(SqlError::new(
            state::WRONG_OBJECT_TYPE,
            format!("{message} \"{}\"", parent.name),
        ));
    }
    if references::concern(&binder.snapshot, &child) {
        return Err(SqlError::unsupported("a partition with foreign keys of its own"));
    }
    let root = binder.snapshot.table_by_oid(parent.root).cloned();
    let root = root.ok_or_else(|| SqlError::internal("a partition has no table"))?;
    let (columns, not_null) = fitting(root.definition(), &parent, definition)?;
    let bound = bound::declared(&binder, &parent, values)?;
    bound::check(&binder, &parent, &definition.name, &bound)?;
    bound::check_default(session, &parent, &bound).await?;
    let place = Target {
        schema: definition.schema_name.clone(),
        name: definition.name.clone(),
    };
    let inherited = |check: &&Check| root.definition().checks.iter().all(|own| own.name != check.name);
    let partition = Partition {
        bound,
        columns,
        not_null,
        partitioning: definition.partitioning.clone(),
        checks: definition.checks.iter().filter(inherited).cloned().collect(),
        options: definition.options.clone(),
        ..create::empty(&parent, &place, to)
    };
    create::check_keys(root.definition(), &partition)?;
    let below = binder.snapshot.partitions_under(child.oid());
    for own in &below {
        create::check_keys(root.definition(), own)?;
    }
    let aside = aside(&definition.name);
    {
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        transaction.rename_relation(&place.schema, &place.name, &aside)?;
        let oid = transaction.create_partition(partition)?;
        move_below(&mut transaction, &below, child.oid(), (root.definition(), oid))?;
    }
    let listed = listed(&definition.columns);
    let (into, from) = (qualified(&place.schema, &place.name), qualified(&place.schema, &aside));
    let moved = execute(
        session,
        &format!("INSERT INTO {into} ({listed}) OVERRIDING SYSTEM VALUE SELECT {listed} FROM {from}"),
    )
    .await;
    moved.map_err(|error| match error.state {
        state::CHECK_VIOLATION => {
            let message = format!(
                "partition constraint of relation \"{}\" is violated by some row",
                place.name
            );
            SqlError::new(state::CHECK_VIOLATION, message)
        }
        _ => error,
    })?;
    session.transaction()?.lock().drop_relation(&place.schema, &aside)?;
    indexes::adopt(session, &place, indexes::all_of(&relation))
}

/// Has partitions be parts of another table: of `into` those that were directly part of `from`.
fn move_below(
    transaction: &mut Transaction,
    below: &[Arc<Partition>],
    from: u32,
    (root, into): (&TableDefinition, u32),
) -> Result<()> {
    for partition in below {
        let before = transaction.state().table_by_oid(partition.root).cloned();
        let before = before.ok_or_else(|| SqlError::internal("a partition has no table"))?;
        let places = |columns: &[usize]| {
            let names = columns.iter().map(|at| &before.definition().columns[*at].name);
            let found: Option<Vec<usize>> = names.map(|name| root.column_index(name)).collect();
            found.ok_or_else(|| SqlError::internal("a partition's column is not its table's"))
        };
        let (columns, not_null) = (places(&partition.columns)?, places(&partition.not_null)?);
        transaction.change_partition(partition.oid, |own| {
            own.root = root.oid;
            if own.parent == from {
                own.parent = into;
            }
            own.columns = columns;
            own.not_null = not_null;
        })?;
    }
    Ok(())
}

/// A name that nobody can write.
fn aside(name: &str) -> String {
    format!("\u{1}moved {name}")
}

fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote::name(schema), quote::name(name))
}

/// The columns that take values, listed.
fn listed(columns: &[ColumnDef]) -> String {
    let columns = columns.iter().filter(|own| own.generated != Some(Generated::Stored));
    columns.map(|own| quote::name(&own.name)).collect::<Vec<_>>().join(", ")
}

pub(super) async fn detach(session: &mut Session, from: &Relation, name: &ObjectName) -> Result<()> {
    let binder = session.binder();
    let parent = parent(from)?;
    let relation = binder.names().relation(name)?.clone();
    let partition = match relation.as_partition() {
        Some(own) if own.parent == parent.oid => own.clone(),
        _ => {
            let message = format!(
                "relation \"{}\" is not a partition of relation \"{}\"",
                relation.name(),
                parent.name
            );
            return Err(SqlError::new(state::UNDEFINED_TABLE, message));
        }
    };
    let root = binder.snapshot.table_by_oid(partition.root).cloned();
    let root = root.ok_or_else(|| SqlError::internal("a partition has no table"))?;
    let definition = as_table(root.definition(), &partition);
    let aside = aside(&partition.name);
    {
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        let table = transaction.create_table(&partition.schema_name, &aside, definition.clone())?;
        let below = transaction.state().partitions_under(partition.oid);
        move_below(
            &mut transaction,
            &below,
            partition.oid,
            (table.definition(), table.oid()),
        )?;
    }
    let listed = listed(&definition.columns);
    let (into, rows) = (
        qualified(&partition.schema_name, &aside),
        qualified(&partition.schema_name, &partition.name),
    );
    execute(
        session,
        &format!("INSERT INTO {into} ({listed}) OVERRIDING SYSTEM VALUE SELECT {listed} FROM {rows}"),
    )
    .await?;
    empty(session, &partition).await?;
    let place = Target {
        schema: partition.schema_name.clone(),
        name: partition.name.clone(),
    };
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    let (schema, name) = (&place.schema, &place.name);
    transaction.drop_relation(schema, name)?;
    transaction.rename_relation(schema, &aside, name)?;
    drop(transaction);
    indexes::release(session, &place, &partition.indexes)
}

/// What a partition is as a table of its own, without its indexes.
fn as_table(root: &TableDefinition, partition: &Partition) -> TableDef {
    let column = |at: &usize| ColumnDef {
        not_null: root.columns[*at].not_null || partition.not_null.contains(at),
        // Identities stay with the table that has the sequence.
        generated: root.columns[*at].generated.filter(|own| *own == Generated::Stored),
        ..root.columns[*at].clone()
    };
    TableDef {
        columns: partition.columns.iter().map(column).collect(),
        checks: root.checks.iter().chain(&partition.checks).cloned().collect(),
        partitioning: partition.partitioning.clone(),
        options: partition.options.clone(),
        ..TableDef::default()
    }
}
