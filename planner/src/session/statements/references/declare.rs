//! FOREIGN KEY as CREATE TABLE and ALTER TABLE declare it, and VALIDATE CONSTRAINT.

use super::super::check_constraints;
use super::check::validate;
use super::keys::form;
use super::referenced::{immediate, positions, primary_key, referenced, unique_index};
use crate::catalog::bind::{Target, fold, undefined};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::tokens::clauses::{ON_DELETE_SET, ON_UPDATE_SET};
use crate::session::Session;
use crate::session::run;
use datafusion::sql::sqlparser::ast::{
    self, ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial, ForeignKeyConstraint, Ident,
};
use std::sync::Arc;
use tenon_storage::{
    DatabaseState, ForeignKey, Generated, ReferentialAction, Relation, SqlType, TableDefinition, TableVersion,
    default_name,
};

fn table(session: &Session, place: &Target) -> Result<Arc<TableVersion>> {
    let state = session.state();
    let found = state.table(&place.schema, &place.name).cloned();
    found.ok_or_else(|| undefined(Some(&place.schema), &place.name))
}

/// Adds a foreign key to a table. With `check` the rows there are looked up; without it they are not, and there are none
/// where `validated`.
pub(in crate::session::statements) async fn add(
    session: &mut Session,
    place: &Target,
    declared: &ForeignKeyConstraint,
    validated: bool,
) -> Result<()> {
    let child = table(session, place)?;
    let key = resolve(session, &child, declared, validated)?;
    let name = key.name.clone();
    let transaction = session.transaction()?;
    transaction.lock().add_foreign_key(&place.schema, &place.name, key)?;
    match validated && child.rows() > 0 {
        true => check_rows(session, place, &name).await,
        false => Ok(()),
    }
}

/// Looks up what the rows of a table reference.
async fn check_rows(session: &Session, place: &Target, name: &str) -> Result<()> {
    let (child, state) = (table(session, place)?, session.state());
    let Some(key) = child.definition().foreign_key(name).cloned() else {
        return Ok(());
    };
    let budget = session.engine.database().budget().clone();
    run::background(&session.engine, async move { validate(&state, &child, &key, &budget) }).await
}

pub(in crate::session::statements) async fn validate_constraint(
    session: &mut Session,
    place: &Target,
    name: &str,
) -> Result<()> {
    let child = table(session, place)?;
    let definition = child.definition();
    match definition.foreign_key(name) {
        Some(key) if key.validated => Ok(()),
        Some(_) => {
            check_rows(session, place, name).await?;
            let transaction = session.transaction()?;
            transaction.lock().set_validated(&place.schema, &place.name, name)?;
            Ok(())
        }
        None if let Some(check) = definition.checks.iter().find(|check| check.name == name) => {
            if check.not_valid {
                check_constraints::verify(session, &place.schema, &place.name, name).await?;
                let transaction = session.transaction()?;
                transaction.lock().set_validated(&place.schema, &place.name, name)?;
            }
            Ok(())
        }
        None => {
            let of = format!("constraint \"{name}\" of relation \"{}\"", place.name);
            Err(match definition.constraints().any(|own| own == name) {
                true => {
                    let message = format!("{of} is not a foreign key or check constraint");
                    SqlError::new(state::WRONG_OBJECT_TYPE, message)
                }
                false => SqlError::new(state::UNDEFINED_OBJECT, format!("{of} does not exist")),
            })
        }
    }
}

/// The foreign keys that a column of a table is part of, on either side, each with its own table.
fn concerned(state: &DatabaseState, table: &Arc<TableVersion>, at: usize) -> Vec<(Arc<TableVersion>, ForeignKey)> {
    let mut found: Vec<(Arc<TableVersion>, ForeignKey)> = Vec::new();
    let own = table.definition();
    for key in own.foreign_keys.iter().filter(|key| key.columns.contains(&at)) {
        found.push((table.clone(), key.clone()));
    }
    for (child, key) in state.references_to(table.oid()) {
        let columns = key.referenced_columns(own).unwrap_or_default();
        if columns.contains(&at) && !found.iter().any(|(_, known)| known.oid == key.oid) {
            found.push((child, key));
        }
    }
    found
}

/// Refuses another type for a column of a table that its foreign keys, or such that reference it, could not compare.
pub(in crate::session::statements) fn refuse_type(
    session: &Session,
    table: &Arc<TableVersion>,
    at: usize,
    wanted: SqlType,
) -> Result<()> {
    let state = session.state();
    let mut changed = (**table.definition()).clone();
    changed.columns[at].sql_type = wanted;
    for (child, key) in concerned(&state, table, at) {
        let Some(parent) = state.table_by_oid(key.references) else {
            continue;
        };
        let of = |side: &Arc<TableVersion>| match side.oid() == table.oid() {
            true => changed.clone(),
            false => (**side.definition()).clone(),
        };
        let (own, other) = (of(&child), of(parent));
        let columns = key.referenced_columns(&other).unwrap_or_default();
        comparable(&key.name, &own, &key.columns, &other, &columns)?;
    }
    Ok(())
}

/// Checks the foreign keys of a table, and those that reference it, once the values of a column are others.
pub(in crate::session::statements) async fn checked_again(
    session: &mut Session,
    place: &Target,
    column: &str,
) -> Result<()> {
    let own = table(session, place)?;
    let Some(at) = own.definition().column_index(column) else {
        return Ok(());
    };
    let state_now = session.state();
    let budget = session.engine.database().budget().clone();
    for (child, key) in concerned(&state_now, &own, at) {
        if key.validated {
            let (state_now, budget) = (state_now.clone(), budget.clone());
            run::background(
                &session.engine,
                async move { validate(&state_now, &child, &key, &budget) },
            )
            .await?;
        }
    }
    Ok(())
}

fn action(declared: Option<ast::ReferentialAction>) -> ReferentialAction {
    match declared {
        None | Some(ast::ReferentialAction::NoAction) => ReferentialAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ReferentialAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferentialAction::SetDefault,
    }
}

/// The constraint with its names resolved.
fn resolve(
    session: &Session,
    child: &Arc<TableVersion>,
    declared: &ForeignKeyConstraint,
    validated: bool,
) -> Result<ForeignKey> {
    let match_full = match declared.match_kind {
        Some(ConstraintReferenceMatchKind::Partial) => {
            return Err(SqlError::unsupported_as("MATCH PARTIAL not yet implemented"));
        }
        kind => kind == Some(ConstraintReferenceMatchKind::Full),
    };
    let (deferrable, initially_deferred) = deferral(declared.characteristics.as_ref())?;
    let (referred, set) = referred(declared)?;
    let parent = referenced(session, child, declared, referred)?;
    let (own, other) = (child.definition(), parent.definition());
    let columns = positions(own, &declared.columns)?;
    let on_delete_columns = set_columns(own, &columns, set)?;
    let (index, referenced) = match referred.is_empty() {
        true => primary_key(other)?,
        false => unique_index(other, referred)?,
    };
    immediate(other, index)?;
    let (on_update, on_delete) = (action(declared.on_update), action(declared.on_delete));
    refuse_generated(own, &columns, on_update, on_delete)?;
    if columns.len() != referenced.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(SqlError::new(state::INVALID_FOREIGN_KEY, message));
    }
    let name = name(session, own, &columns, declared.name.as_ref());
    comparable(&name, own, &columns, other, &referenced)?;
    let place = |column: &usize| index.columns.iter().position(|own| own == column);
    let places: Option<Vec<usize>> = referenced.iter().map(place).collect();
    Ok(ForeignKey {
        oid: 0,
        name,
        columns,
        references: parent.oid(),
        index: index.oid,
        places: places.ok_or_else(|| SqlError::internal("an index lacks a column of a key"))?,
        on_update,
        on_delete,
        on_delete_columns,
        match_full,
        deferrable,
        initially_deferred,
        validated,
        unchecked: false,
        unfollowed: false,
    })
}

/// The columns that are referenced, and those that ON DELETE sets (`tokens::clauses`).
fn referred(declared: &ForeignKeyConstraint) -> Result<(&[Ident], &[Ident])> {
    let all = declared.referred_columns.as_slice();
    if all.iter().any(|name| name.value == ON_UPDATE_SET) {
        let action = match declared.on_update {
            Some(ast::ReferentialAction::SetDefault) => "SET DEFAULT",
            _ => "SET NULL",
        };
        let message = format!("a column list with {action} is only supported for ON DELETE actions");
        return Err(SqlError::unsupported_as(&message));
    }
    Ok(match all.iter().position(|name| name.value == ON_DELETE_SET) {
        Some(at) => (&all[..at], &all[at + 1..]),
        None => (all, &[]),
    })
}

/// Positions of the columns that ON DELETE sets, each once.
fn set_columns(definition: &TableDefinition, key: &[usize], names: &[Ident]) -> Result<Vec<usize>> {
    let mut set = Vec::new();
    for (at, name) in positions(definition, names)?.into_iter().zip(names) {
        if !key.contains(&at) {
            let message = format!(
                "column \"{}\" referenced in ON DELETE SET action must be part of foreign key",
                fold(name)
            );
            return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
        }
        if !set.contains(&at) {
            set.push(at);
        }
    }
    Ok(set)
}

/// DEFERRABLE and INITIALLY DEFERRED.
pub(in crate::session::statements) fn deferral(given: Option<&ConstraintCharacteristics>) -> Result<(bool, bool)> {
    let Some(given) = given else {
        return Ok((false, false));
    };
    if given.enforced.is_some() {
        return Err(SqlError::new(
            state::SYNTAX_ERROR,
            "syntax error at or near \"ENFORCED\"",
        ));
    }
    let deferred = given.initially == Some(DeferrableInitial::Deferred);
    if deferred && given.deferrable == Some(false) {
        let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        return Err(SqlError::new(state::SYNTAX_ERROR, message));
    }
    Ok((given.deferrable.unwrap_or(deferred), deferred))
}

/// A computed column takes no other value.
fn refuse_generated(
    definition: &TableDefinition,
    columns: &[usize],
    on_update: ReferentialAction,
    on_delete: ReferentialAction,
) -> Result<()> {
    use ReferentialAction::{Cascade, SetDefault, SetNull};
    let computed = |column: &usize| definition.columns[*column].generated == Some(Generated::Stored);
    if !columns.iter().any(computed) {
        return Ok(());
    }
    let event = match (on_update, on_delete) {
        (SetNull | SetDefault | Cascade, _) => "ON UPDATE",
        (_, SetNull | SetDefault) => "ON DELETE",
        _ => return Ok(()),
    };
    let message = format!("invalid {event} action for foreign key constraint containing generated column");
    Err(SqlError::new(state::SYNTAX_ERROR, message))
}

/// The given name, or one that no constraint of the schema has.
fn name(session: &Session, definition: &TableDefinition, columns: &[usize], given: Option<&Ident>) -> String {
    if let Some(given) = given {
        return fold(given);
    }
    let state = session.state();
    let is_free = |name: &str| {
        let entry = state.schema(&definition.schema_name);
        let tables = entry.into_iter().flat_map(|entry| entry.relations());
        let mut tables = tables.filter_map(Relation::as_table);
        !tables.any(|table| table.definition().constraints().any(|own| own == name))
    };
    let columns: Vec<&str> = columns
        .iter()
        .map(|column| definition.columns[*column].name.as_str())
        .collect();
    default_name(&definition.name, &columns, "fkey", is_free)
}

/// 42804 for columns whose types no `=` compares that the referenced index knows.
fn comparable(
    name: &str,
    own: &TableDefinition,
    columns: &[usize],
    other: &TableDefinition,
    referenced: &[usize],
) -> Result<()> {
    for (column, other_column) in columns.iter().zip(referenced) {
        let (column, other_column) = (&own.columns[*column], &other.columns[*other_column]);
        if form(column.sql_type, other_column.sql_type)?.is_none() {
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            return Err(SqlError::new(state::DATATYPE_MISMATCH, message).detail(format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                column.name,
                other_column.name,
                column.sql_type.base_name(),
                other_column.sql_type.base_name()
            )));
        }
    }
    Ok(())
}
