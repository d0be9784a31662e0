//! What stands in the way of dropping or emptying what foreign keys reference; SET CONSTRAINTS.

use crate::catalog::bind::{Target, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::session::Session;
use crate::session::statements::drop::depended_on;
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;
use tenon_storage::{DatabaseState, Deferral, ForeignKey, Relation, TableVersion};

/// A foreign key with its table.
pub(in crate::session::statements) type Dependent = (Arc<TableVersion>, ForeignKey);

/// As an error lists it: `constraint n on table t`.
pub(in crate::session::statements) fn named((table, key): &Dependent) -> String {
    format!("constraint {} on table {}", key.name, table.name())
}

/// The foreign keys of other tables than `along` that reference a table.
pub(in crate::session::statements) fn constraints_on(state: &DatabaseState, oid: u32, along: &[u32]) -> Vec<Dependent> {
    let mut found = state.references_to(oid);
    found.retain(|(table, _)| table.oid() != oid && !along.contains(&table.oid()));
    found
}

/// Drops the constraints that depend on a unique index of a table, which `what` takes with it, or says that they do.
pub(in crate::session::statements) fn release_index(
    session: &mut Session,
    table: u32,
    name: &str,
    what: &str,
    cascade: bool,
) -> Result<()> {
    let state = session.state();
    let definition = state.table_by_oid(table).map(|table| table.definition());
    let index = definition.and_then(|definition| definition.all_indexes().find(|index| index.name == name));
    let Some(index) = index else { return Ok(()) };
    let mut found = state.references_to(table);
    found.retain(|(_, key)| key.index == index.oid);
    release(session, &found, what, &format!("index {name}"), cascade)
}

/// The same for the constraints that reference a column of a table. One that has the column itself goes with it.
pub(in crate::session::statements) fn release_column(
    session: &mut Session,
    place: &Target,
    column: &str,
    cascade: bool,
) -> Result<()> {
    let state = session.state();
    let Some(table) = state.table(&place.schema, &place.name) else {
        return Ok(());
    };
    let definition = table.definition();
    let Some(at) = definition.column_index(column) else {
        return Ok(());
    };
    let mut found = state.references_to(table.oid());
    found.retain(|(own, key)| {
        let columns = key.referenced_columns(definition).unwrap_or_default();
        // An index goes with a column that it includes.
        let index = key.index_of(definition);
        let needs = columns.contains(&at) || index.is_some_and(|index| index.include.contains(&at));
        needs && !(own.oid() == table.oid() && key.columns.contains(&at))
    });
    let what = format!("column {column} of table {}", definition.name);
    release(session, &found, &what, &what, cascade)
}

/// Drops what depends on something, or without `cascade` says that it does (2BP01): `what` is dropped, and they depend on
/// `on`.
fn release(session: &mut Session, dependents: &[Dependent], what: &str, on: &str, cascade: bool) -> Result<()> {
    if !cascade && !dependents.is_empty() {
        let detail = dependents
            .iter()
            .map(|dependent| format!("{} depends on {on}", named(dependent)));
        return Err(depended_on(what, &[]).detail(detail.collect::<Vec<_>>().join("\n")));
    }
    drop_all(session, dependents)
}

/// Drops constraints, and tells of each.
pub(in crate::session::statements) fn drop_all(session: &mut Session, dependents: &[Dependent]) -> Result<()> {
    for dependent in dependents {
        session.cascades_to(named(dependent));
        let definition = dependent.0.definition();
        let transaction = session.transaction()?;
        transaction
            .lock()
            .drop_constraint(&definition.schema_name, &definition.name, &dependent.1.name)?;
    }
    Ok(())
}

/// The tables to empty: the given ones and, with `cascade`, those whose foreign keys reference them. 0A000 without it.
pub(in crate::session::statements) fn tables_to_truncate(
    session: &mut Session,
    given: &[u32],
    cascade: bool,
) -> Result<Vec<u32>> {
    let state = session.state();
    let mut all = given.to_vec();
    let mut at = 0;
    while let Some(oid) = all.get(at).copied() {
        at += 1;
        for (table, _) in state.references_to(oid) {
            if all.contains(&table.oid()) {
                continue;
            }
            if !cascade {
                let message = "cannot truncate a table referenced in a foreign key constraint";
                let parent = state.table_by_oid(oid).map_or("", |table| table.name());
                let child = table.name();
                return Err(SqlError::unsupported_as(message)
                    .detail(format!("Table \"{child}\" references \"{parent}\"."))
                    .hint(format!(
                        "Truncate table \"{child}\" at the same time, or use TRUNCATE ... CASCADE."
                    )));
            }
            session.notice(format!("truncate cascades to table \"{}\"", table.name()));
            all.push(table.oid());
        }
    }
    Ok(all)
}

/// SET CONSTRAINTS. What is no longer deferred is checked at the statement's end.
pub(in crate::session::statements) fn set_constraints(
    session: &mut Session,
    names: Option<&[ObjectName]>,
    deferred: bool,
) -> Result<Outcome> {
    let tag = Outcome::Command("SET CONSTRAINTS".into());
    if session.block().is_none() {
        session.warn(
            state::NO_ACTIVE_SQL_TRANSACTION,
            "SET CONSTRAINTS can only be used in transaction blocks",
        );
    }
    let transaction = session.transaction()?;
    let Some(names) = names else {
        transaction.lock().set_deferred(None, deferred);
        return Ok(tag);
    };
    let binder = session.binder();
    for name in names {
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect();
        let (schemas, last) = match parts.as_slice() {
            [.., schema, last] => (vec![schema.clone()], last.clone()),
            [last] => (binder.facts.path.to_vec(), last.clone()),
            [] => continue,
        };
        if let ([schema], true) = (schemas.as_slice(), parts.len() > 1)
            && binder.snapshot.schema(schema).is_none()
        {
            let message = format!("schema \"{schema}\" does not exist");
            return Err(SqlError::new(state::INVALID_SCHEMA_NAME, message));
        }
        let found = schemas.iter().find_map(|schema| {
            let found = constraints_named(&binder.snapshot, schema, &last);
            (!found.is_empty()).then_some(found)
        });
        let Some(found) = found else {
            let message = format!("constraint \"{last}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        };
        for constraint in found {
            let oid = match constraint {
                Some(oid) => oid,
                None if !deferred => continue,
                None => {
                    let message = format!("constraint \"{last}\" is not deferrable");
                    return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
                }
            };
            transaction.lock().set_deferred(Some(oid), deferred);
        }
    }
    Ok(tag)
}

/// The oids of the constraints of a schema that have this name; None for one that is not deferrable.
fn constraints_named(state: &DatabaseState, schema: &str, name: &str) -> Vec<Option<u32>> {
    let entry = state.schema(schema);
    let tables = entry.into_iter().flat_map(|entry| entry.relations());
    let tables = tables.filter_map(Relation::as_table);
    tables
        .filter(|table| table.definition().constraints().any(|own| own == name))
        .map(|table| {
            let definition = table.definition();
            let key = definition
                .foreign_key(name)
                .filter(|key| key.deferrable)
                .map(|key| key.oid);
            let unique = || {
                definition
                    .constraint_index(name)
                    .filter(|key| key.deferral != Deferral::Never)
            };
            key.or_else(|| unique().map(|key| key.oid))
        })
        .collect()
}
