//! CREATE TABLE, CREATE TABLE AS, CREATE VIEW, CREATE SCHEMA.

use super::like::{self, Taken};
use super::{constraints, defaults, generated, insert, partition, query, sequence, updatable};
use crate::catalog::bind::{Target, fold};
use crate::catalog::files;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::numeric::declared::is_declared;
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::SequenceOptions;
use crate::session::run;
use crate::session::{Prepared, Session};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, CheckConstraint, ColumnOption, CreateTable, CreateView, Expr, Ident, IndexColumn, ObjectName, SchemaName,
    TableConstraint,
};
use std::sync::Arc;
use tenon_storage::{
    CheckOption, ColumnDef, Generated, IndexDef, OnCommit, SequenceDef, SequenceOwner, SqlType, TableDef, TableVersion,
    quote,
};

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
        Some(query) => create_as(session, prepared, create, place, query, params).await,
        None => {
            let (mut definition, taken) = definition(session, create, &place)?;
            definition.on_commit = on_commit;
            if let Some(clause) = &create.partition_by {
                divide(session, &mut definition, &place.name, clause)?;
            }
            let transaction = session.transaction()?;
            let table = transaction
                .lock()
                .create_table(&place.schema, &place.name, definition)?;
            taken.finish(session, &table)?;
            Ok(Outcome::Command(tag.into()))
        }
    }
}

fn on_commit(session: &Session, create: &CreateTable, place: &Target) -> Result<OnCommit> {
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

/// A sequence that a column is declared with: serial or an identity.
pub(super) struct OwnSequence {
    pub column: String,
    pub name: String,
    pub def: SequenceDef,
    pub identity: bool,
}

impl OwnSequence {
    pub(super) fn create(self, session: &Session, table: &TableVersion) -> Result<()> {
        let owner = SequenceOwner {
            table_oid: table.oid(),
            column: self.column,
            identity: self.identity,
        };
        let schema = &table.definition().schema_name;
        session
            .transaction()?
            .lock()
            .create_sequence(schema, &self.name, self.def, Some(owner))?;
        Ok(())
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
    let mut columns = columns_of(session.columns(&plan)?.as_arrow(), &given)?;
    for (at, column) in columns.iter_mut().enumerate() {
        if matches!(column.sql_type, SqlType::NumericOf(..)) && !is_declared(&plan, at) {
            column.sql_type = SqlType::Numeric;
        }
    }
    let definition = TableDef {
        columns,
        on_commit: on_commit(session, create, &place)?,
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
    let file = files::source(&session.engine.services, session.cancel(), &name, format)?;
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
    files::in_background(&session.engine.services, session.cancel(), load)
        .await
        .map(Some)
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
    let table = place.name.as_str();
    let mut definition = TableDef::default();
    let (mut checks, mut taken) = (Vec::new(), Taken::default());
    for column in &create.columns {
        if like::expand(session, column, place, &mut definition, &mut taken)? {
            continue;
        }
        let (column, declared) = column_definition(session, column, place)?;
        taken.sequences.extend(declared.sequence);
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
    let computed = definition
        .columns
        .iter()
        .filter(|column| column.generated == Some(Generated::Stored));
    for column in computed {
        generated::check(&session.binder(), &definition.columns, column)?;
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

pub(super) fn not_enforced(session: &mut Session, what: &str) {
    session.warn(
        crate::pg::error::SqlState("01000"),
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
    pub sequence: Option<OwnSequence>,
}

/// A column of a table that is, or will be, at `place`.
pub(super) fn column_definition(
    session: &mut Session,
    column: &ast::ColumnDef,
    place: &Target,
) -> Result<(ColumnDef, Declared)> {
    let name = fold(&column.name);
    let mut declared = Declared::default();
    let serial = match &column.data_type {
        ast::DataType::Custom(own, _) => sequence::serial_type(&super::last(own)),
        _ => None,
    };
    let domain = session.binder().domain_of(&column.data_type);
    let own_type = match (serial, &domain) {
        (Some(serial), _) => serial,
        (None, Some(domain)) => domain.base,
        (None, None) => session.binder().sql_type(&column.data_type)?,
    };
    let mut out = ColumnDef::new(name, own_type);
    out.domain = domain.map(|domain| (domain.schema_name.clone(), domain.name.clone()));
    if serial.is_some() {
        let own = own_sequence(session, place, &out, &SequenceOptions::default(), false)?;
        let sequence = quoted_name(session, place, &own.name);
        out.default = Some(format!("nextval({}::regclass)", quote::literal(&sequence)));
        out.not_null = true;
        declared.sequence = Some(own);
    }
    let mut is_null = false;
    for option in &column.options {
        match &option.option {
            ColumnOption::Null if serial.is_none() && out.generated.is_none() => is_null = true,
            ColumnOption::Null => return Err(conflicting_null(&out.name, place)),
            ColumnOption::NotNull => out.not_null = true,
            ColumnOption::Default(expr) => {
                if out.default.is_some() {
                    let message = format!(
                        "multiple default values specified for column \"{}\" of table \"{}\"",
                        out.name, place.name
                    );
                    return Err(SqlError::new(state::SYNTAX_ERROR, message));
                }
                defaults::check(session, expr, &out)?;
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
            ColumnOption::Generated {
                generated_as,
                sequence_options,
                generation_expr,
                ..
            } => {
                let what = if generation_expr.is_some() {
                    "generation expression"
                } else {
                    "identity"
                };
                match (out.generated, &out.default) {
                    (Some(Generated::Stored), _) if generation_expr.is_some() => {
                        let message = format!(
                            "multiple generation clauses specified for column \"{}\" of table \"{}\"",
                            out.name, place.name
                        );
                        return Err(SqlError::new(state::SYNTAX_ERROR, message));
                    }
                    (Some(_), _) if generation_expr.is_none() && out.default.is_none() => {
                        let message = format!(
                            "multiple identity specifications for column \"{}\" of table \"{}\"",
                            out.name, place.name
                        );
                        return Err(SqlError::new(state::SYNTAX_ERROR, message));
                    }
                    (None, None) => {}
                    _ => return Err(both(&out, place, what)),
                }
                match generation_expr {
                    Some(expr) => {
                        out.default = Some(expr.to_string());
                        out.generated = Some(Generated::Stored);
                    }
                    None => {
                        if !matches!(own_type, SqlType::Int2 | SqlType::Int4 | SqlType::Int8) {
                            let message = "identity column type must be smallint, integer, or bigint";
                            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
                        }
                        let options = SequenceOptions::of_identity(sequence_options.as_deref().unwrap_or_default());
                        declared.sequence = Some(own_sequence(session, place, &out, &options, true)?);
                        out.not_null = true;
                        out.generated = Some(match generated_as {
                            ast::GeneratedAs::ByDefault => Generated::ByDefault,
                            _ => Generated::Always,
                        });
                    }
                }
            }
            other => return Err(SqlError::unsupported(format!("column option {other}"))),
        }
        if out.generated.is_some() && out.generated != Some(Generated::Stored) && out.default.is_some() {
            return Err(both(&out, place, "identity"));
        }
    }
    if is_null && (out.not_null || declared.primary_key) {
        return Err(conflicting_null(&out.name, place));
    }
    Ok((out, declared))
}

fn conflicting_null(column: &str, place: &Target) -> SqlError {
    let message = format!(
        "conflicting NULL/NOT NULL declarations for column \"{column}\" of table \"{}\"",
        place.name
    );
    SqlError::new(state::SYNTAX_ERROR, message)
}

/// 42601 for a column with two sources of values.
fn both(column: &ColumnDef, place: &Target, what: &str) -> SqlError {
    let first = match column.generated {
        Some(Generated::Stored) if what == "identity" => "identity and generation expression",
        Some(Generated::Always | Generated::ByDefault) if what != "identity" => "identity and generation expression",
        _ if what == "identity" => "default and identity",
        _ => "default and generation expression",
    };
    let message = format!(
        "both {first} specified for column \"{}\" of table \"{}\"",
        column.name, place.name
    );
    SqlError::new(state::SYNTAX_ERROR, message)
}

/// The sequence of a serial or identity column.
pub(super) fn own_sequence(
    session: &Session,
    place: &Target,
    column: &ColumnDef,
    options: &SequenceOptions,
    identity: bool,
) -> Result<OwnSequence> {
    let mut options = options.clone();
    let word = column.sql_type.base_name();
    options.data_type = Some(parse_type(word)?);
    Ok(OwnSequence {
        column: column.name.clone(),
        name: sequence::free_name(session, &place.schema, &place.name, &column.name),
        def: sequence::definition(&options, None)?.0,
        identity,
    })
}

fn parse_type(word: &str) -> Result<ast::DataType> {
    Ok(match word.parse::<SqlType>()? {
        SqlType::Int2 => ast::DataType::SmallInt(None),
        SqlType::Int4 => ast::DataType::Integer(None),
        _ => ast::DataType::BigInt(None),
    })
}

/// A relation's name as a DEFAULT shows it: with its schema where the search path does not find it there.
fn quoted_name(session: &Session, place: &Target, name: &str) -> String {
    let binder = session.binder();
    let first = crate::catalog::bind::created_in(&binder.facts.path);
    if first == Some(&place.schema) {
        quote::identifier(name)
    } else {
        format!("{}.{}", quote::identifier(&place.schema), quote::identifier(name))
    }
}

pub(super) fn view(session: &mut Session, create: &CreateView) -> Result<Outcome> {
    if !create.temporary {
        session.check_writable("CREATE VIEW")?;
    }
    let place = target(session, &create.name, create.temporary)?;
    let binder = session.binder();
    let mut source = create.query.clone();
    super::qualify::relations(&binder, &mut source);
    super::stars::spell_out(&binder, &mut source);
    let plan = query::plan(&binder, &source, &[])?;
    let given: Vec<String> = create.columns.iter().map(|column| fold(&column.name)).collect();
    let columns = columns_of(session.columns(&plan)?.as_arrow(), &given)?;
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
    if let Some(option) = check_option(create)? {
        transaction.set_check_option(&place.schema, &place.name, option)?;
        drop(transaction);
        let binder = session.binder();
        let view = binder
            .snapshot
            .relation(&place.schema, &place.name)
            .and_then(|own| own.as_view());
        if let Some(view) = view {
            updatable::of(&binder, view, updatable::Use::Insert).map_err(|error| {
                let message = "WITH CHECK OPTION is supported only on automatically updatable views";
                let refused = SqlError::unsupported_as(message);
                match error.detail {
                    Some(detail) => refused.hint(detail),
                    None => refused,
                }
            })?;
        }
    }
    Ok(Outcome::Command("CREATE VIEW".into()))
}

/// WITH CHECK OPTION, as the clause or among the options in parentheses.
fn check_option(create: &CreateView) -> Result<Option<CheckOption>> {
    let mut said = create.comment.clone();
    if let ast::CreateTableOptions::With(options) = &create.options {
        for option in options {
            if let ast::SqlOption::KeyValue { key, value } = option
                && fold(key) == "check_option"
            {
                said = Some(value.to_string().trim_matches('\'').to_lowercase());
            }
        }
    }
    check_option_named(said.as_deref())
}

pub(super) fn check_option_named(said: Option<&str>) -> Result<Option<CheckOption>> {
    match said {
        None => Ok(None),
        Some("local") => Ok(Some(CheckOption::Local)),
        Some("cascaded") => Ok(Some(CheckOption::Cascaded)),
        Some(_) => Err(SqlError::new(
            state::INVALID_PARAMETER_VALUE,
            "invalid value for enum option \"check_option\"",
        )
        .detail("Valid values are \"local\" and \"cascaded\".")),
    }
}

pub(super) fn schema(session: &mut Session, name: &SchemaName, if_not_exists: bool) -> Result<Outcome> {
    session.check_writable("CREATE SCHEMA")?;
    let name = schema_named(name);
    if name.starts_with("pg_") {
        return Err(SqlError::new(
            crate::pg::error::SqlState("42939"),
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

/// CREATE SCHEMA with elements, which are made as if the schema came first in the path.
pub(super) async fn schema_with(
    session: &mut Session,
    create: &ast::Statement,
    elements: &[crate::pg::statement::Statement],
) -> Result<Outcome> {
    let ast::Statement::CreateSchema {
        schema_name,
        if_not_exists,
        ..
    } = create
    else {
        return Err(SqlError::internal("no CREATE SCHEMA"));
    };
    if *if_not_exists {
        return Err(SqlError::unsupported_as(
            "CREATE SCHEMA IF NOT EXISTS cannot include schema elements",
        ));
    }
    let outcome = schema(session, schema_name, false)?;
    let name = tenon_storage::quote::identifier(&schema_named(schema_name)).to_string();
    let before = session.settings.clone();
    let path = before.get("search_path").unwrap_or_default();
    session.settings.put("search_path".into(), format!("{name}, {path}"));
    let mut result = Ok(outcome);
    for element in elements {
        if let crate::pg::statement::Kind::Utility(_) = element.kind {
            continue;
        }
        let prepared = crate::session::Prepared::without_parameters(element.clone());
        if let Err(error) = Box::pin(super::run(session, &prepared, &[])).await {
            result = Err(error);
            break;
        }
    }
    session.settings = before;
    result
}

fn schema_named(name: &SchemaName) -> String {
    match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => super::last(name),
        SchemaName::UnnamedAuthorization(owner) => fold(owner),
    }
}
