//! CREATE TABLE, CREATE TABLE AS, CREATE VIEW, CREATE SCHEMA.

use super::{constraints, insert, query};
use crate::bind::{Target, fold};
use crate::error::{Result, SqlError, state};
use crate::files;
use crate::numeric::declared::is_declared;
use crate::outcome::Outcome;
use crate::run;
use crate::session::{Prepared, Session};
use crate::types::planner::sql_type;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, CheckConstraint, ColumnOption, CreateTable, CreateView, Expr, Ident, IndexColumn, ObjectName, SchemaName,
    TableConstraint,
};
use std::sync::Arc;
use tenon_storage::{ColumnDef, IndexDef, SqlType, TableDef};

/// The schema and name of a new relation; a temporary one goes into the session's own schema.
fn target(session: &mut Session, name: &ObjectName, temporary: bool) -> Result<Target> {
    if !temporary {
        return session.binder().names().target(name);
    }
    let schema = session.temporary_schema();
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
    if !temporary {
        session.check_writable("CREATE TABLE")?;
    }
    for (clause, present) in [
        ("CREATE EXTERNAL TABLE", create.external),
        (
            "PARTITION BY",
            create.partition_by.is_some() || create.partition_of.is_some(),
        ),
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
    match &create.query {
        Some(query) => create_as(session, prepared, create, place, query, params).await,
        None => {
            let definition = definition(session, create, &place.name)?;
            session
                .transaction()?
                .lock()
                .create_table(&place.schema, &place.name, definition)?;
            Ok(Outcome::Command(tag.into()))
        }
    }
}

async fn create_as(
    session: &mut Session,
    prepared: &Prepared,
    create: &CreateTable,
    place: Target,
    source: &ast::Query,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let given: Vec<String> = create.columns.iter().map(|column| fold(&column.name)).collect();
    if let Some(rows) = create_from_file(session, &place, source, &given).await? {
        return Ok(Outcome::Command(format!("SELECT {rows}")));
    }
    let plan = query::bound_plan(&session.binder(), source, &prepared.param_fields, params)?;
    let mut columns = columns_of(run::columns(&session.engine, &plan).as_arrow(), &given)?;
    for (at, column) in columns.iter_mut().enumerate() {
        if matches!(column.sql_type, SqlType::NumericOf(..)) && !is_declared(&plan, at) {
            column.sql_type = SqlType::Numeric;
        }
    }
    let definition = TableDef {
        columns,
        ..TableDef::default()
    };
    let transaction = session.transaction()?;
    let table = transaction
        .lock()
        .create_table(&place.schema, &place.name, definition)?;
    let writer = transaction.lock().writer(&table);
    let writer = run::drain(&session.run(), plan, writer, |writer, batch| {
        Ok(writer.append(&insert::as_stored(&batch)?)?)
    })
    .await?;
    let rows = insert::finish(session, table.oid(), writer, None).await?;
    Ok(Outcome::Command(format!("SELECT {rows}")))
}

/// `CREATE TABLE t AS SELECT * FROM 'file'`: the file's rows, with no plan in between. None for any other query.
async fn create_from_file(
    session: &mut Session,
    place: &Target,
    source: &ast::Query,
    given: &[String],
) -> Result<Option<u64>> {
    let Some((name, format)) = files::whole(source).and_then(|name| files::named(&name).map(|format| (name, format)))
    else {
        return Ok(None);
    };
    let file = files::source(&session.engine, session.cancel(), &name, format)?;
    let fields: Vec<_> = file
        .columns
        .iter()
        .map(|column| column.sql_type.field(&column.name, true))
        .collect();
    let columns = columns_of(&Schema::new(fields), given)?;
    let definition = TableDef {
        columns,
        ..TableDef::default()
    };
    let transaction = session.transaction()?;
    let table = transaction
        .lock()
        .create_table(&place.schema, &place.name, definition)?;
    let load = move || {
        let loaded = file.segments_for(&table)?;
        transaction.lock().append(table.oid(), loaded.segments)?;
        Ok(loaded.rows)
    };
    files::in_background(&session.engine, session.cancel(), load)
        .await
        .map(Some)
}

/// Columns of a stored relation with the names and types of a query's result, the first ones renamed.
fn columns_of(schema: &Schema, given: &[String]) -> Result<Vec<ColumnDef>> {
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
            .unwrap_or_else(|| crate::rewrite::displayed_name(field.name()).to_string());
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
        let name = crate::rewrite::displayed_name(field.name());
        SqlError::unsupported(format!("column \"{name}\" of type {}", field.data_type()))
    })
}

fn definition(session: &mut Session, create: &CreateTable, table: &str) -> Result<TableDef> {
    let mut definition = TableDef::default();
    let mut checks = Vec::new();
    for column in &create.columns {
        let (column, declared) = column_definition(session, column)?;
        if declared.primary_key {
            one_key(&definition)?;
            definition.primary_key = vec![column.name.clone()];
            definition.primary_key_name = declared.primary_key_name;
        }
        definition.unique.extend(declared.unique);
        let own = column.name.clone();
        checks.extend(
            declared
                .checks
                .into_iter()
                .map(|(name, check)| (Some(own.clone()), name, check)),
        );
        definition.columns.push(column);
    }
    if let Some(like) = &create.like {
        let name = match like {
            ast::CreateTableLikeKind::Parenthesized(like) | ast::CreateTableLikeKind::Plain(like) => &like.name,
        };
        let binder = session.binder();
        let source = binder.names().relation(name)?;
        match source.as_table() {
            Some(table) => definition
                .columns
                .extend(table.definition().columns.iter().cloned().map(|mut column| {
                    column.default = None;
                    column
                })),
            None => definition.columns.extend(columns_of(source.columns(), &[])?),
        }
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                one_key(&definition)?;
                definition.primary_key = key.columns.iter().map(key_column).collect::<Result<_>>()?;
                definition.primary_key_name = key.name.as_ref().map(fold);
            }
            TableConstraint::ForeignKey(_) => not_enforced(session, "FOREIGN KEY"),
            TableConstraint::Check(check) => checks.push((None, check.name.clone(), check.clone())),
            TableConstraint::Unique(unique) => {
                definition.unique.push(constraints::unique(
                    &unique.columns,
                    unique.name.as_ref(),
                    unique.nulls_distinct,
                )?);
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
        for (column, name, check) in checks {
            let column = column.as_deref();
            let name = name.as_ref();
            let check = constraints::check(&binder, &check, name, table, column, &schema, &definition.checks)?;
            definition.checks.push(check);
        }
    }
    Ok(definition)
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

pub(super) fn not_enforced(session: &mut Session, what: &str) {
    session.warn(
        crate::error::SqlState("01000"),
        format!("{what} constraints are accepted and not enforced"),
    );
}

/// The constraints that a column is declared with.
#[derive(Default)]
pub(super) struct Declared {
    pub primary_key: bool,
    pub primary_key_name: Option<String>,
    pub unique: Option<IndexDef>,
    pub checks: Vec<(Option<Ident>, CheckConstraint)>,
}

pub(super) fn column_definition(session: &mut Session, column: &ast::ColumnDef) -> Result<(ColumnDef, Declared)> {
    let mut out = ColumnDef::new(fold(&column.name), sql_type(&column.data_type)?);
    let mut declared = Declared::default();
    for option in &column.options {
        match &option.option {
            ColumnOption::Null => out.not_null = false,
            ColumnOption::NotNull => out.not_null = true,
            ColumnOption::Default(expr) => {
                insert::check_default(session, expr, &out)?;
                out.default = Some(expr.to_string());
            }
            ColumnOption::PrimaryKey(_) => {
                declared.primary_key = true;
                declared.primary_key_name = option.name.as_ref().map(fold);
            }
            ColumnOption::ForeignKey(_) => not_enforced(session, "FOREIGN KEY"),
            ColumnOption::Unique(_) => {
                let name = option.name.as_ref().map(fold);
                declared.unique = Some(constraints::unique_index(vec![out.name.clone()], name));
            }
            ColumnOption::Check(check) => declared.checks.push((option.name.clone(), check.clone())),
            ColumnOption::Collation(_) | ColumnOption::Comment(_) => {}
            ColumnOption::Generated { .. } | ColumnOption::Identity(_) => {
                return Err(SqlError::unsupported("generated columns"));
            }
            other => return Err(SqlError::unsupported(format!("column option {other}"))),
        }
    }
    Ok((out, declared))
}

pub(super) fn view(session: &mut Session, create: &CreateView) -> Result<Outcome> {
    if create.materialized {
        return Err(SqlError::unsupported("CREATE MATERIALIZED VIEW").hint("Use CREATE TABLE AS."));
    }
    if !create.temporary {
        session.check_writable("CREATE VIEW")?;
    }
    let place = target(session, &create.name, create.temporary)?;
    let binder = session.binder();
    let mut source = create.query.clone();
    super::qualify::relations(&binder, &mut source);
    let plan = query::plan(&binder, &source, &[])?;
    let given: Vec<String> = create.columns.iter().map(|column| fold(&column.name)).collect();
    let columns = columns_of(run::columns(&session.engine, &plan).as_arrow(), &given)?;
    let fields: Vec<_> = columns
        .iter()
        .map(|column| column.sql_type.field(&column.name, true))
        .collect();
    let (schema, sql) = (Arc::new(Schema::new(fields)), source.to_string());
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    if let Some(there) = transaction.state().relation(&place.schema, &place.name) {
        if create.if_not_exists {
            drop(transaction);
            session.notice(format!("relation \"{}\" already exists, skipping", place.name));
            return Ok(Outcome::Command("CREATE VIEW".into()));
        }
        if create.or_replace && there.as_table().is_none() {
            let old = there.columns().fields();
            let same = old.len() <= schema.fields().len()
                && old
                    .iter()
                    .zip(schema.fields())
                    .all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type());
            if !same {
                return Err(
                    SqlError::new(state::INVALID_TABLE_DEFINITION, "cannot change the columns of a view")
                        .hint("Drop the view and create it anew."),
                );
            }
        }
    }
    if create.or_replace {
        transaction.replace_view(&place.schema, &place.name, &sql, schema)?;
    } else {
        transaction.create_view(&place.schema, &place.name, &sql, schema)?;
    }
    Ok(Outcome::Command("CREATE VIEW".into()))
}

pub(super) fn schema(session: &mut Session, name: &SchemaName, if_not_exists: bool) -> Result<Outcome> {
    session.check_writable("CREATE SCHEMA")?;
    let name = match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .map(fold)
            .unwrap_or_default(),
        SchemaName::UnnamedAuthorization(owner) => fold(owner),
    };
    if name.starts_with("pg_") {
        return Err(SqlError::new(
            crate::error::SqlState("42939"),
            format!("unacceptable schema name \"{name}\""),
        )
        .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    let transaction = session.transaction()?;
    let exists = transaction.lock().state().schema(&name).is_some() || name == "information_schema";
    if exists && if_not_exists {
        session.notice(format!("schema \"{name}\" already exists, skipping"));
    } else if exists {
        return Err(SqlError::new(
            state::DUPLICATE_SCHEMA,
            format!("schema \"{name}\" already exists"),
        ));
    } else {
        transaction.lock().create_schema(&name)?;
    }
    Ok(Outcome::Command("CREATE SCHEMA".into()))
}
