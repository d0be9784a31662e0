//! Keys that take over an index, and views that need a key which is dropped.

use super::{constraints, drop, partition, references, view_texts};
use crate::catalog::bind::{Target, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::parse_query;
use crate::session::Session;
use crate::session::run;
use datafusion::sql::sqlparser::ast::{
    ConstraintCharacteristics, ConstraintUsingIndex, PrimaryKeyConstraint, TableConstraint, UniqueConstraint,
};
use tenon_storage::{Deferral, IndexDef, IndexKind, IndexShown, Relation};

/// What a key that is added says of columns beside its own, and of its index.
pub(super) fn included(
    session: &mut Session,
    place: &Target,
    constraint: &TableConstraint,
) -> Result<(Vec<String>, IndexShown)> {
    if let TableConstraint::PrimaryKey(PrimaryKeyConstraint { index_options, .. })
    | TableConstraint::Unique(UniqueConstraint { index_options, .. }) = constraint
    {
        let state_now = session.state();
        let table = state_now.table(&place.schema, &place.name).into_iter();
        let columns = table.flat_map(|table| table.definition().columns.iter().map(|own| own.name.as_str()));
        return constraints::included(session, index_options, columns);
    }
    Ok(Default::default())
}

/// When a key's constraint is checked.
pub(super) fn deferral(given: Option<&ConstraintCharacteristics>) -> Result<Deferral> {
    Ok(match references::deferral(given)? {
        (false, _) => Deferral::Never,
        (true, false) => Deferral::Immediate,
        (true, true) => Deferral::Deferred,
    })
}

/// The columns that a constraint makes unique.
pub(super) fn columns(unique: &IndexDef) -> Vec<String> {
    unique.columns.iter().map(|(name, _)| name.clone()).collect()
}

/// Has the keys of a table that was just declared with them be checked later than at once.
pub(super) fn defer(session: &mut Session, place: &Target, deferred: &[(Vec<String>, Deferral)]) -> Result<()> {
    let transaction = session.transaction()?;
    for (columns, deferral) in deferred.iter().filter(|(_, deferral)| *deferral != Deferral::Never) {
        transaction
            .lock()
            .defer_key(&place.schema, &place.name, columns, *deferral)?;
    }
    Ok(())
}

/// ADD ... USING INDEX: a unique index becomes a constraint's.
pub(super) fn adopt_index(
    session: &mut Session,
    place: &Target,
    of: &ConstraintUsingIndex,
    primary: bool,
) -> Result<()> {
    let own = fold(&of.index_name);
    let state_now = session.state();
    let wrong = |message: String| {
        Err(SqlError::new(state::WRONG_OBJECT_TYPE, message)
            .detail("Cannot create a primary key or unique constraint using such an index."))
    };
    let entry = state_now.schema(&place.schema);
    if let Some((table, index)) = entry.and_then(|entry| entry.expression_index(&own))
        && table.name() == place.name
    {
        return match (index.unique, &index.predicate) {
            (false, _) => wrong(format!("\"{own}\" is not a unique index")),
            (true, Some(_)) if index.keys.len() == 1 => wrong(format!("\"{own}\" is a partial index")),
            (true, _) => wrong(format!("index \"{own}\" contains expressions")),
        };
    }
    let Some((table, index)) = entry.and_then(|entry| entry.index(&own)) else {
        let message = format!("index \"{own}\" does not exist");
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
    };
    if table.name() != place.name {
        let message = format!("index \"{own}\" does not belong to table \"{}\"", place.name);
        return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    }
    if matches!(index.kind, IndexKind::Primary | IndexKind::Constraint) {
        let message = format!("index \"{own}\" is already associated with a constraint");
        return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    }
    if !index.is_valid() {
        let message = format!("index \"{own}\" is not valid");
        return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    }
    if !index.is_unique() {
        return wrong(format!("\"{own}\" is not a unique index"));
    }
    if let Some(at) = index
        .order
        .iter()
        .position(|order| order.descending || order.nulls_first)
    {
        return wrong(format!(
            "index \"{own}\" column number {} does not have default sorting behavior",
            at + 1
        ));
    }
    if primary && table.definition().primary_key.is_some() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", place.name);
        return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
    }
    let columns: Vec<String> = index
        .columns
        .iter()
        .map(|at| table.definition().columns[*at].name.clone())
        .collect();
    let transaction = session.transaction()?;
    for column in columns.iter().filter(|_| primary) {
        transaction
            .lock()
            .set_not_null(&place.schema, &place.name, column, true)?;
    }
    let to = of.name.as_ref().map_or_else(|| own.clone(), fold);
    if to != own {
        session.notice(format!(
            "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{own}\" to \"{to}\""
        ));
        transaction.lock().rename_index(&place.schema, &own, &to)?;
    }
    transaction
        .lock()
        .adopt_index(&place.schema, &place.name, &to, primary)?;
    Ok(())
}

/// The views whose groups are known by a key that has just been dropped; what they show has no meaning without it.
pub(super) fn release_views(session: &mut Session, place: &Target, what: &str, cascade: bool) -> Result<()> {
    let state_now = session.state();
    let mut lost = Vec::new();
    for (schema, view) in drop::readers(&state_now, &place.schema, &place.name) {
        let text = state_now.relation(&schema, &view).and_then(view_texts::text);
        let query = text.and_then(|(text, _)| parse_query(text).ok().flatten());
        if query.is_some_and(|query| session.binder().view_query(query).is_err()) {
            lost.push((schema, view));
        }
    }
    if !cascade && !lost.is_empty() {
        let kind = |(schema, view): &(String, String)| {
            let kind = state_now.relation(schema, view).map_or("view", Relation::kind);
            format!("{kind} {view}")
        };
        let dependents: Vec<String> = lost.iter().map(kind).collect();
        return Err(drop::depended_on(what, &dependents));
    }
    drop::drop_views(session, lost)
}

/// ADD UNIQUE.
pub(super) async fn add_unique(session: &mut Session, schema: &str, name: &str, unique: IndexDef) -> Result<()> {
    let columns: Vec<String> = unique.columns.iter().map(|(column, _)| column.clone()).collect();
    partition::check_constraint(session, schema, name, &columns, "UNIQUE")?;
    let table = session.state().table(schema, name).map(|table| table.oid());
    let transaction = session.transaction()?;
    let (schema, name) = (schema.to_string(), name.to_string());
    run::background(&session.engine, async move {
        transaction.lock().create_index(&schema, &name, unique)?;
        Ok(())
    })
    .await?;
    match table {
        Some(table) => partition::indexes::complete(session, table),
        None => Ok(()),
    }
}

/// Checks the rows that are there on the query threads.
pub(super) async fn add_primary_key(
    session: &mut Session,
    schema: &str,
    name: &str,
    columns: Vec<String>,
    key_name: Option<String>,
) -> Result<()> {
    partition::check_constraint(session, schema, name, &columns, "PRIMARY KEY")?;
    let table = session.state().table(schema, name).map(|table| table.oid());
    let transaction = session.transaction()?;
    let (schema, name) = (schema.to_string(), name.to_string());
    run::background(&session.engine, async move {
        Ok(transaction.lock().add_primary_key(&schema, &name, &columns, key_name)?)
    })
    .await?;
    match table {
        Some(table) => partition::indexes::complete(session, table),
        None => Ok(()),
    }
}
