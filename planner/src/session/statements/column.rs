//! ALTER TABLE: a column added, of another type, or with another source of values.
//!
//! More than 400 lines because the forms of ALTER TABLE on a column rewrite the table by the same steps.

use super::constraints::{self, Checks};
use super::declared::{self, Declared};
use super::drop::depended_on;
use super::{
    alter, check_constraints, defaults, generated, insert, keys, partition, query, references, row_types, select,
    sequence, view_texts,
};
use crate::catalog::bind::Target;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::definition::{ColumnChange, SequenceOptions};
use crate::session::Session;
use crate::session::run;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Ident, ObjectName, ObjectNamePart, SelectItem, Statement,
};
use std::sync::Arc;
use tenon_storage::{ColumnDef, Generated, SqlType, TableDefinition, TableVersion};

fn table(session: &Session, place: &Target) -> Result<Arc<TableVersion>> {
    let state = session.state();
    let relation = state
        .relation(&place.schema, &place.name)
        .ok_or_else(|| crate::catalog::bind::undefined(Some(&place.schema), &place.name))?;
    relation.as_table().cloned().ok_or_else(|| {
        let message = format!("ALTER action cannot be performed on relation \"{}\"", place.name);
        SqlError::new(state::WRONG_OBJECT_TYPE, message)
            .detail(format!("This operation is not supported for {}s.", relation.kind()))
    })
}

fn find(table: &TableVersion, column: &str) -> Result<usize> {
    let definition = table.definition();
    definition.column_index(column).ok_or_else(|| {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", definition.name);
        SqlError::new(state::UNDEFINED_COLUMN, message)
    })
}

/// 42601 for a column whose values are no default's.
pub(super) fn refuse_generated(column: &ColumnDef, table: &str, what: &str) -> Result<()> {
    let Some(generated) = column.generated else {
        return Ok(());
    };
    let (kind, hint) = match generated {
        Generated::Stored => ("a generated", "ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION"),
        _ => ("an identity", "ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY"),
    };
    let message = format!("column \"{}\" of relation \"{table}\" is {kind} column", column.name);
    let error = SqlError::new(state::SYNTAX_ERROR, message);
    Err(match (what, generated) {
        ("SET DEFAULT", Generated::Stored) => error,
        ("SET DEFAULT", _) => error,
        _ => error.hint(format!("Use {hint} instead.")),
    })
}

pub(super) fn is_identity(session: &Session, place: &Target, column: &str) -> bool {
    let state = session.state();
    let definition = state.table(&place.schema, &place.name).map(|table| table.definition());
    definition
        .and_then(|own| Some(&own.columns[own.column_index(column)?]))
        .is_some_and(|own| matches!(own.generated, Some(Generated::Always | Generated::ByDefault)))
}

/// ADD COLUMN. The rows there get the default, each its own where it is not the same for all.
pub(super) async fn add(session: &mut Session, place: &Target, column: ColumnDef, declared: Declared) -> Result<()> {
    let before = table(session, place)?;
    let name = column.name.clone();
    if before.definition().column_index(&name).is_some() {
        let message = format!("column \"{name}\" of relation \"{}\" already exists", place.name);
        return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
    }
    row_types::refuse_itself(before.oid(), &place.name, column.sql_type)?;
    row_types::refuse_values(session, before.oid(), &column)?;
    session.binder().check_usage_by([&column])?;
    view_texts::column_added(session, place, &name)?;
    let mut columns = before.definition().columns.clone();
    columns.push(column.clone());
    if column.generated == Some(Generated::Stored) {
        generated::check(&session.binder(), &columns, &column)?;
    }
    if let Some(own) = declared.sequence {
        own.create(session, &before)?;
    }
    let is_constant = column.default.is_none() && column.generated.is_none() && column.domain.is_none();
    if is_constant || before.rows() == 0 {
        let transaction = session.transaction()?;
        transaction
            .lock()
            .add_column(&place.schema, &place.name, column, None)?;
    } else {
        rewrite(session, place, columns, |binder, definition, at| {
            let own = &definition.columns[at];
            match own.name == name {
                true if own.generated == Some(Generated::Stored) => {
                    crate::pg::parse::parse_expression(own.default.as_deref().unwrap_or("NULL"))
                }
                true => defaults::tree(binder, definition, own),
                false => Ok(Expr::Identifier(Ident::with_quote('"', &own.name))),
            }
        })
        .await?;
    }
    if declared.primary_key {
        keys::add_primary_key(
            session,
            &place.schema,
            &place.name,
            vec![name.clone()],
            declared.primary_key_name,
        )
        .await?;
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        transaction.show_of_primary_key(&place.schema, &place.name, &[], declared.key_shown)?;
        drop(transaction);
        keys::defer(session, place, &[(vec![name.clone()], declared.key_deferral)])?;
    }
    if let Some(unique) = declared.unique {
        keys::add_unique(session, &place.schema, &place.name, unique).await?;
        keys::defer(session, place, &[(vec![name.clone()], declared.unique_deferral)])?;
    }
    for (own, check) in declared.checks {
        check_constraints::add(session, place, &check, own.as_ref()).await?;
    }
    for key in &declared.foreign_keys {
        references::add(session, place, key, true).await?;
    }
    Ok(())
}

pub(super) async fn change(session: &mut Session, place: &Target, column: &str, change: &ColumnChange) -> Result<()> {
    let table = table(session, place)?;
    let at = find(&table, column)?;
    let definition = table.definition();
    let own = &definition.columns[at];
    let transaction = session.transaction()?;
    let not_identity = || {
        let message = format!(
            "column \"{column}\" of relation \"{}\" is not an identity column",
            place.name
        );
        SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
    };
    match change {
        ColumnChange::Nothing => {}
        ColumnChange::Type {
            data_type,
            collation,
            using,
        } => {
            partition::refuse_change_of_key(&session.binder(), definition, column, "alter")?;
            session.binder().check_usage_of(data_type)?;
            retype(session, place, at, (data_type, collation.as_ref()), using.as_deref()).await?;
        }
        ColumnChange::AddIdentity { always, options } => {
            let wrong = |what: &str| {
                let message = format!("column \"{column}\" of relation \"{}\" {what}", place.name);
                Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
            };
            if !own.not_null {
                return wrong("must be declared NOT NULL before identity can be added");
            }
            if matches!(own.generated, Some(Generated::Always | Generated::ByDefault)) {
                return wrong("is already an identity column");
            }
            if own.default.is_some() {
                return wrong("already has a default value");
            }
            if !matches!(own.sql_type.oid(), 20 | 21 | 23) {
                let message = "identity column type must be smallint, integer, or bigint";
                return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
            }
            let sequence = declared::own_sequence(session, place, own, options, true)?;
            sequence.create(session, &table)?;
            let generated = if *always {
                Generated::Always
            } else {
                Generated::ByDefault
            };
            transaction
                .lock()
                .change_column(&place.schema, &place.name, column, |own| {
                    own.generated = Some(generated)
                })?;
        }
        ColumnChange::Identity { always, options } => {
            let state = session.state();
            let sequence = state.identity(table.oid(), column).ok_or_else(not_identity)?;
            sequence::change(session, sequence, options, None)?;
            if let Some(always) = always {
                let generated = if *always {
                    Generated::Always
                } else {
                    Generated::ByDefault
                };
                transaction
                    .lock()
                    .change_column(&place.schema, &place.name, column, |own| {
                        own.generated = Some(generated)
                    })?;
            }
        }
        ColumnChange::DropIdentity { if_exists } => {
            let state = session.state();
            let Some(sequence) = state.identity(table.oid(), column) else {
                if !*if_exists {
                    return Err(not_identity());
                }
                session.notice(format!(
                    "column \"{column}\" of relation \"{}\" is not an identity column, skipping",
                    place.name
                ));
                return Ok(());
            };
            let mut transaction = transaction.lock();
            transaction.drop_relation(&sequence.schema_name, &sequence.name)?;
            transaction.change_column(&place.schema, &place.name, column, |own| own.generated = None)?;
        }
        ColumnChange::DropExpression { if_exists } => {
            if own.generated != Some(Generated::Stored) {
                let message = format!(
                    "column \"{column}\" of relation \"{}\" is not a stored generated column",
                    place.name
                );
                if !*if_exists {
                    return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
                }
                session.notice(format!("{message}, skipping"));
                return Ok(());
            }
            transaction
                .lock()
                .change_column(&place.schema, &place.name, column, |own| {
                    own.generated = None;
                    own.default = None;
                })?;
        }
    }
    Ok(())
}

/// ALTER COLUMN ... TYPE.
async fn retype(
    session: &mut Session,
    place: &Target,
    at: usize,
    (data_type, collation): (&DataType, Option<&ObjectName>),
    using: Option<&Expr>,
) -> Result<()> {
    let table = table(session, place)?;
    let definition = table.definition().clone();
    let own = &definition.columns[at];
    let computed_from = |column: &ColumnDef| {
        column.generated == Some(Generated::Stored)
            && column
                .default
                .as_deref()
                .and_then(|text| constraints::mentions(text, &own.name).ok())
                .unwrap_or(false)
    };
    if definition.columns.iter().any(computed_from) && own.generated.is_none() {
        let message = "cannot alter type of a column used by a generated column";
        return Err(SqlError::unsupported_as(message));
    }
    if let Some(view) = super::drop::readers_of_column(session, &place.schema, &place.name, &own.name).first() {
        let message = "cannot alter type of a column used by a view or rule";
        let detail = format!("rule _RETURN on view {} depends on column \"{}\"", view.1, own.name);
        return Err(SqlError::unsupported_as(message).detail(detail));
    }
    let wanted = session.binder().sql_type(data_type)?;
    row_types::refuse_itself(table.oid(), &place.name, wanted)?;
    if wanted != own.sql_type {
        row_types::refuse_change(session, table.oid())?;
    }
    references::refuse_type(session, &table, at, wanted)?;
    if let Some(sequence) = session.state().identity(table.oid(), &own.name) {
        if !matches!(wanted.oid(), 20 | 21 | 23) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        }
        let options = SequenceOptions {
            data_type: Some(data_type.clone()),
            ..SequenceOptions::default()
        };
        sequence::change(session, sequence, &options, None)?;
    }
    let mut columns = definition.columns.clone();
    columns[at].sql_type = wanted;
    let domain = session.binder().domain_of(data_type);
    columns[at].domain = domain.map(|domain| (domain.schema_name.clone(), domain.name.clone()));
    let collation = collation.map(|name| declared::collation(name, wanted));
    columns[at].collation = collation.transpose()?.flatten();
    if let Some(using) = using {
        session.binder().check_schemas(using)?;
        let places = ("transform expression", "transform expressions");
        defaults::refuse_sets(using, places.0, places.1)?;
    } else {
        let given = own.sql_type.field("", true);
        let cannot = |_| {
            let message = format!(
                "column \"{}\" cannot be cast automatically to type {}",
                own.name,
                wanted.base_name()
            );
            SqlError::new(state::DATATYPE_MISMATCH, message).hint(format!(
                "You might need to specify \"USING {}::{}\".",
                own.name,
                wanted.base_name()
            ))
        };
        insert::check_assignable(&given, &columns[at]).map_err(cannot)?;
        if own.sql_type.is_string() && !wanted.is_string() {
            return Err(cannot(SqlError::internal("")));
        }
    }
    let name = own.name.clone();
    let as_it_was = Expr::Identifier(Ident::with_quote('"', &name));
    let item = match wanted {
        SqlType::Array(of) => of.element(),
        of => of,
    };
    let value = match using {
        Some(using) => Expr::Nested(Box::new(using.clone())),
        // What is assigned is not cut: the row's writer checks lengths.
        None if item.is_bits() || matches!(item, SqlType::VarcharOf(_) | SqlType::CharOf(_)) => as_it_was,
        None => Expr::Cast {
            kind: CastKind::DoubleColon,
            expr: Box::new(as_it_was),
            data_type: data_type.clone(),
            format: None,
            array: false,
        },
    };
    rewrite(session, place, columns, |_, definition, at| {
        let own = &definition.columns[at];
        Ok(match own.name == name {
            true if own.generated != Some(Generated::Stored) => value.clone(),
            _ => Expr::Identifier(Ident::with_quote('"', &own.name)),
        })
    })
    .await?;
    references::checked_again(session, place, &name).await
}

/// Writes a table anew with these columns, each computed from a row of the table as it was.
pub(super) async fn rewrite(
    session: &mut Session,
    place: &Target,
    columns: Vec<ColumnDef>,
    value: impl Fn(&crate::catalog::bind::Binder, &TableDefinition, usize) -> Result<Expr>,
) -> Result<()> {
    // The query reads the table as it is now, whatever becomes of it below.
    let binder = session.binder().trusted();
    let quoted = |name: &str| ObjectNamePart::Identifier(Ident::with_quote('"', name));
    let relation = ObjectName(vec![quoted(&place.schema), quoted(&place.name)]);
    let mut definition = (**table(session, place)?.definition()).clone();
    definition.columns = columns.clone();
    let items = (0..columns.len()).map(|at| {
        Ok(SelectItem::ExprWithAlias {
            expr: value(&binder, &definition, at)?,
            alias: Ident::with_quote('"', format!("\u{1}new {}", columns[at].name)),
        })
    });
    let Statement::Query(source) = select::over(relation, items.collect::<Result<_>>()?) else {
        return Err(SqlError::internal("a SELECT is no query"));
    };
    let plan = query::plan(&binder, &source, &[])?;
    let given = plan.schema().columns();
    let exprs = columns
        .iter()
        .zip(given)
        .map(|(own, given)| insert::assigned(datafusion::prelude::Expr::Column(given), own).alias(&own.name));
    let plan = datafusion::logical_expr::LogicalPlanBuilder::from(plan)
        .project(exprs.collect::<Vec<_>>())
        .and_then(|plan| plan.build())
        .map_err(|error| crate::pg::errors::from_datafusion(&error))?;
    let transaction = session.transaction()?;
    let next = transaction.lock().retype(&place.schema, &place.name, columns)?;
    let plan = defaults::generate(&binder, next.definition(), plan, 0)?;
    let checks = Checks::of_rows_there(session, &session.binder(), next.definition())?;
    let writer = transaction.lock().writer(&next);
    let writer = run::drain(&session.run(), plan, writer, |writer, batch| {
        Ok(writer.append(&insert::as_stored(&batch)?)?)
    })
    .await?;
    insert::finish(session, next.oid(), writer, Some(checks)).await?;
    Ok(())
}

/// Has the expressions of computed columns follow a column's new name.
pub(super) fn rename_in_generated(session: &Session, place: &Target, from: &str, to: &str) -> Result<()> {
    let table = table(session, place)?;
    for column in &table.definition().columns {
        if let (Some(Generated::Stored), Some(text)) = (column.generated, &column.default)
            && constraints::mentions(text, from)?
        {
            let text = constraints::renamed_text(text, from, to)?;
            session
                .transaction()?
                .lock()
                .set_default(&place.schema, &place.name, &column.name, Some(text))?;
        }
    }
    Ok(())
}

/// The columns that are computed from one.
pub(super) fn computed_from(session: &Session, place: &Target, column: &str) -> Result<Vec<String>> {
    let table = table(session, place)?;
    let mut found = Vec::new();
    for other in &table.definition().columns {
        if let (Some(Generated::Stored), Some(text)) = (other.generated, &other.default)
            && other.name != column
            && constraints::mentions(text, column)?
        {
            found.push(other.name.clone());
        }
    }
    Ok(found)
}

/// What goes with a column: indexes on expressions of it. A column computed from it stands in the way.
pub(super) fn drop_dependents(session: &Session, place: &Target, column: &str) -> Result<()> {
    let table = table(session, place)?;
    let definition = table.definition();
    if let Some(other) = computed_from(session, place, column)?.first() {
        let name = &place.name;
        return Err(depended_on(
            &format!("column {column} of table {name}"),
            &[format!("column {other} of table {name}")],
        ));
    }
    let mut kept = Vec::new();
    for index in &definition.expression_indexes {
        let texts = index.keys.iter().chain(&index.predicate);
        let mentions = texts
            .map(|text| constraints::mentions(text, column))
            .collect::<Result<Vec<_>>>()?;
        if !mentions.contains(&true) && !index.include.iter().any(|own| own == column) {
            kept.push(index.clone());
        }
    }
    if kept.len() < definition.expression_indexes.len() {
        session
            .transaction()?
            .lock()
            .set_expression_indexes(&place.schema, &place.name, kept)?;
    }
    Ok(())
}

/// A column, with the conditions and indexes that are about it and, with `cascade`, the columns computed from it.
pub(super) fn remove(session: &mut Session, place: &Target, column: &str, cascade: bool) -> Result<()> {
    if cascade {
        for other in computed_from(session, place, column)? {
            session.cascades_to(format!("column {other} of table {}", place.name));
            remove(session, place, &other, cascade)?;
        }
    }
    super::drop::release_column(session, place, column, cascade)?;
    super::view_texts::column_dropped(session, place, column)?;
    references::release_column(session, place, column, cascade)?;
    drop_dependents(session, place, column)?;
    partition::indexes::drop_about(session, table(session, place)?.oid(), column)?;
    let (schema, name) = (place.schema.as_str(), place.name.as_str());
    let transaction = session.transaction()?;
    for check in constraints::about(&alter::checks(session, schema, name), column)? {
        transaction.lock().drop_constraint(schema, name, &check)?;
    }
    transaction.lock().drop_column(schema, name, column)?;
    Ok(())
}
