//! CREATE TABLE.

use super::create_as::create_as;
use super::declared::column_definition;
use super::like::{self, Taken};
use super::{check_constraints, constraints, generated, keys, partition, references, storage_parameters};
use crate::catalog::bind::{Target, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::NO_DATA;
use crate::session::{Prepared, Session};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, CreateTable, Expr, IndexColumn, ObjectName, PrimaryKeyConstraint, TableConstraint, UniqueConstraint,
};
use std::sync::Arc;
use tenon_storage::{ColumnDef, Generated, IndexDef, OnCommit, SqlType, TableDef, TableVersion};

/// The schema and name of a new relation; a temporary one goes into the session's own schema.
pub(super) fn target(session: &mut Session, name: &ObjectName, temporary: bool) -> Result<Target> {
    let qualifier = match name.0.as_slice() {
        [.., schema, _] => schema.as_ident().map(fold),
        _ => None,
    };
    let named = qualifier.as_deref() == Some("pg_temp") || qualifier == Some(session.temporary_schema());
    if !temporary && !named {
        return session.binder().names().target(name);
    }
    if qualifier.is_some() && !named {
        let message = "cannot create temporary relation in non-temporary schema";
        return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
    }
    let schema = session.temporary_schema();
    let state_now = session.state();
    let asked = super::role::rights(session, &state_now);
    if asked.check_database("", tenon_storage::privilege::TEMPORARY).is_err() {
        let message = format!(
            "permission denied to create temporary tables in database \"{}\"",
            session.info.database
        );
        return Err(crate::catalog::rights::refused(message));
    }
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    if transaction.state().schema(&schema).is_none() {
        transaction.create_schema(&schema)?;
        drop(transaction);
        session.has_temporary = true;
    }
    let last = name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .map(fold)
        .unwrap_or_default();
    Ok(Target { schema, name: last })
}

pub(super) async fn table(
    session: &mut Session,
    prepared: &Prepared,
    create: &CreateTable,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let temporary = create.temporary;
    session.check_writable("CREATE TABLE")?;
    for (clause, present) in [
        ("CREATE EXTERNAL TABLE", create.external),
        ("INHERITS", create.inherits.is_some()),
        ("CREATE OR REPLACE TABLE", create.or_replace),
        ("LOCATION", create.location.is_some()),
        ("CREATE TABLE ... CLONE", create.clone.is_some()),
    ] {
        if present {
            return Err(SqlError::unsupported(clause));
        }
    }
    let place = target(session, &create.name, temporary)?;
    let on_commit = on_commit(session, create, &place)?;
    let tag = if create.query.is_some() {
        "CREATE TABLE AS"
    } else {
        "CREATE TABLE"
    };
    if session.state().relation(&place.schema, &place.name).is_some() {
        if create.if_not_exists {
            session.notice(format!("relation \"{}\" already exists, skipping", place.name));
            return Ok(Outcome::Command(tag.into()));
        }
        let message = format!("relation \"{}\" already exists", place.name);
        return Err(SqlError::new(state::DUPLICATE_TABLE, message));
    }
    if let (Some(of), Some(values)) = (&create.partition_of, &create.for_values) {
        return partition::create(session, create, &place, of, values).await;
    }
    match &create.query {
        Some(_) if create.partition_by.is_some() => {
            Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \"AS\""))
        }
        Some(query) => {
            let created = create_as(session, prepared, create, place, query, params).await?;
            Ok(match create.without_rowid == NO_DATA {
                true => Outcome::Command(tag.into()),
                false => created,
            })
        }
        None => {
            let (mut definition, mut taken) = definition(session, create, &place)?;
            let foreign_keys = std::mem::take(&mut taken.foreign_keys);
            definition.on_commit = on_commit;
            let given = storage_parameters::declared(&create.table_options)?;
            let (options, device) = storage_parameters::of_table(&given, create.partition_by.is_some())?;
            definition.options = options;
            session.binder().check_usage_by(&definition.columns)?;
            if let Some(clause) = &create.partition_by {
                divide(session, &mut definition, &place.name, clause)?;
            }
            let transaction = session.transaction()?;
            let table = transaction
                .lock()
                .create_table(&place.schema, &place.name, definition)?;
            tell(session, &table, &taken);
            keys::defer(session, &place, &taken.deferred)?;
            if let Some((include, shown)) = taken.primary_key.take() {
                let mut transaction = transaction.lock();
                transaction.show_of_primary_key(&place.schema, &place.name, &include, shown)?;
            }
            storage_parameters::reside(session, &place, device.as_deref())?;
            taken.finish(session, &table)?;
            for key in &foreign_keys {
                references::add(session, &place, key, true).await?;
            }
            Ok(Outcome::Command(tag.into()))
        }
    }
}

/// The sequences and indexes that a table is made with, for those who ask.
fn tell(session: &mut Session, table: &TableVersion, taken: &Taken) {
    for own in taken.sequences.iter().filter(|own| !own.identity) {
        session.debug(format!(
            "CREATE TABLE will create implicit sequence \"{}\" for serial column \"{}.{}\"",
            own.name,
            table.name(),
            own.column
        ));
    }
    for index in table.definition().all_indexes() {
        let kind = if index.is_primary() { "PRIMARY KEY" } else { "UNIQUE" };
        session.debug(format!(
            "CREATE TABLE / {kind} will create implicit index \"{}\" for table \"{}\"",
            index.name,
            table.name()
        ));
    }
}

pub(super) fn on_commit(session: &Session, create: &CreateTable, place: &Target) -> Result<OnCommit> {
    let Some(declared) = &create.on_commit else {
        return Ok(OnCommit::PreserveRows);
    };
    if place.schema != session.temporary_schema() {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
    }
    Ok(match declared {
        ast::OnCommit::DeleteRows => OnCommit::DeleteRows,
        ast::OnCommit::PreserveRows => OnCommit::PreserveRows,
        ast::OnCommit::Drop => OnCommit::Drop,
    })
}

/// Columns of a stored relation with the names and types of a query's result, the first ones renamed.
pub(super) fn columns_of(schema: &Schema, given: &[String]) -> Result<Vec<ColumnDef>> {
    if given.len() > schema.fields().len() {
        return Err(SqlError::new(
            state::SYNTAX_ERROR,
            "too many column names were specified",
        ));
    }
    let mut columns: Vec<ColumnDef> = Vec::new();
    for (at, field) in schema.fields().iter().enumerate() {
        let name = given
            .get(at)
            .cloned()
            .unwrap_or_else(|| crate::pg::rewrite::displayed_name(field.name()).to_string());
        if columns.iter().any(|column| column.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        columns.push(ColumnDef::new(name, stored_type(field)?));
    }
    Ok(columns)
}

/// The type in which a result column is stored.
pub(super) fn stored_type(field: &datafusion::arrow::datatypes::Field) -> Result<SqlType> {
    if field.data_type() == &datafusion::arrow::datatypes::DataType::UInt64 {
        return Ok(SqlType::Int8);
    }
    SqlType::from_field(field).ok_or_else(|| {
        let name = crate::pg::rewrite::displayed_name(field.name());
        SqlError::unsupported(format!("column \"{name}\" of type {}", field.data_type()))
    })
}

fn definition(session: &mut Session, create: &CreateTable, place: &Target) -> Result<(TableDef, Taken)> {
    let mut definition = TableDef::default();
    let (mut checks, mut taken) = (Vec::new(), Taken::default());
    for column in &create.columns {
        if like::expand(session, column, place, &mut definition, &mut taken)? {
            continue;
        }
        let (column, declared) = column_definition(session, column, place)?;
        taken.sequences.extend(declared.sequence);
        taken.foreign_keys.extend(declared.foreign_keys);
        if declared.primary_key {
            one_key(&definition)?;
            definition.primary_key = vec![column.name.clone()];
            definition.primary_key_name = declared.primary_key_name;
            taken.primary_key = Some((Vec::new(), declared.key_shown));
        }
        let own = || vec![column.name.clone()];
        taken.deferred.push((own(), declared.key_deferral));
        taken.deferred.push((own(), declared.unique_deferral));
        definition.unique.extend(declared.unique);
        checks.extend(declared.checks);
        definition.columns.push(column);
    }
    let computed = definition
        .columns
        .iter()
        .filter(|column| column.generated == Some(Generated::Stored));
    for column in computed {
        generated::check(&session.binder(), &definition.columns, column)?;
    }
    for constraint in &create.constraints {
        let (mut include, mut shown) = Default::default();
        if let TableConstraint::PrimaryKey(PrimaryKeyConstraint { index_options, .. })
        | TableConstraint::Unique(UniqueConstraint { index_options, .. }) = constraint
        {
            let columns = definition.columns.iter().map(|own| own.name.as_str());
            (include, shown) = constraints::included(session, index_options, columns)?;
        }
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                one_key(&definition)?;
                definition.primary_key = key.columns.iter().map(key_column).collect::<Result<_>>()?;
                definition.primary_key_name = key.name.as_ref().map(fold);
                taken.primary_key = Some((include, shown));
                let deferral = keys::deferral(key.characteristics.as_ref())?;
                taken.deferred.push((definition.primary_key.clone(), deferral));
            }
            TableConstraint::ForeignKey(key) => taken.foreign_keys.push(key.clone()),
            TableConstraint::Check(check) => checks.push((check.name.clone(), check.clone())),
            TableConstraint::Unique(unique) => {
                let deferral = keys::deferral(unique.characteristics.as_ref())?;
                let unique = IndexDef {
                    include,
                    shown,
                    ..constraints::unique(&unique.columns, unique.name.as_ref(), unique.nulls_distinct)?
                };
                taken.deferred.push((keys::columns(&unique), deferral));
                definition.unique.push(unique);
            }
            other => return Err(SqlError::unsupported(format!("constraint {other}"))),
        }
    }
    if !checks.is_empty() {
        let fields: Vec<_> = definition
            .columns
            .iter()
            .map(|column| column.sql_type.field(&column.name, true))
            .collect();
        let (binder, schema) = (session.binder(), Arc::new(Schema::new(fields)));
        for (name, check) in checks {
            let name = name.as_ref();
            let check = check_constraints::declared(&binder, &check, name, place, &schema, &definition.checks)?;
            definition.checks.push(check);
        }
    }
    Ok((definition, taken))
}

/// PARTITION BY.
fn divide(session: &Session, definition: &mut TableDef, table: &str, clause: &Expr) -> Result<()> {
    let fields: Vec<_> = definition
        .columns
        .iter()
        .map(|column| column.sql_type.field(&column.name, true))
        .collect();
    let partitioning = partition::partitioning(&session.binder(), clause, &Arc::new(Schema::new(fields)))?;
    for column in &definition.columns {
        for key in &partitioning.keys {
            if column.generated == Some(Generated::Stored) && constraints::mentions(&key.expression, &column.name)? {
                let message = "cannot use generated column in partition key";
                return Err(SqlError::new(state::INVALID_OBJECT_DEFINITION, message)
                    .detail(format!("Column \"{}\" is a generated column.", column.name)));
            }
        }
    }
    if !definition.primary_key.is_empty() {
        partition::check_unique(Some(&partitioning), table, &definition.primary_key, "PRIMARY KEY")?;
    }
    for unique in &definition.unique {
        let columns: Vec<String> = unique.columns.iter().map(|(column, _)| column.clone()).collect();
        partition::check_unique(Some(&partitioning), table, &columns, "UNIQUE")?;
    }
    definition.partitioning = Some(partitioning);
    Ok(())
}

fn one_key(definition: &TableDef) -> Result<()> {
    if definition.primary_key.is_empty() {
        return Ok(());
    }
    Err(SqlError::new(
        state::INVALID_TABLE_DEFINITION,
        "multiple primary keys for table are not allowed",
    ))
}

pub(super) fn key_column(column: &IndexColumn) -> Result<String> {
    match &column.column.expr {
        Expr::Identifier(ident) => Ok(fold(ident)),
        other => Err(SqlError::new(
            state::SYNTAX_ERROR,
            format!("a key column must be a name, not {other}"),
        )),
    }
}
