//! CHECK constraints as they are declared; ALTER TABLE ... ADD CHECK and VALIDATE CONSTRAINT.

use super::constraints::{self, Checks};
use super::{defaults, qualify};
use crate::catalog::bind::{Binder, Target, fold, undefined};
use crate::pg::error::{Result, SqlError, state};
use crate::session::{Session, run};
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{CheckConstraint, Expr, Ident};
use std::collections::HashSet;
use std::sync::Arc;
use tenon_storage::{Check, DatabaseState, Object, Relation};

/// A CHECK as a table keeps it, over columns of this schema. `place`: the table's. `taken`: its other conditions.
pub(super) fn declared(
    binder: &Binder,
    declared: &CheckConstraint,
    name: Option<&Ident>,
    place: &Target,
    schema: &Arc<Schema>,
    taken: &[Check],
) -> Result<Check> {
    defaults::refuse_sets(&declared.expr, "check constraint", "check constraints")?;
    let condition = constraints::unqualified((*declared.expr).clone(), &place.schema, &place.name);
    constraints::physical(binder, condition.clone(), schema)?;
    let is_own = |name: &str| taken.iter().any(|check| check.name == name);
    let name = match name.or(declared.name.as_ref()) {
        Some(name) => fold(name),
        None => {
            let column = only_column(&condition, schema);
            let column: Vec<&str> = column.into_iter().collect();
            let others = names_in(&binder.snapshot, &place.schema);
            tenon_storage::default_name(&place.name, &column, "check", |name| {
                !is_own(name) && !others.contains(name)
            })
        }
    };
    if is_own(&name) {
        let message = format!("check constraint \"{name}\" already exists");
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    Ok(Check {
        name,
        condition: qualify::expression(binder, &condition)?.to_string(),
        not_valid: false,
        comment: None,
    })
}

/// The column that a condition reads, where it is one alone.
fn only_column<'a>(condition: &Expr, schema: &'a Schema) -> Option<&'a str> {
    let columns = schema.fields().iter().map(|field| field.name().as_str());
    let mut read = columns.filter(|column| constraints::reads(condition, column));
    match (read.next(), read.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// The names of the constraints in a schema: one that PostgreSQL makes is none of them.
fn names_in<'a>(state_now: &'a DatabaseState, schema: &str) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for relation in state_now.schema(schema).into_iter().flat_map(|own| own.relations()) {
        match relation {
            Relation::Table(table) => names.extend(table.definition().constraints()),
            Relation::Partition(own) => names.extend(own.checks.iter().map(|check| check.name.as_str())),
            Relation::View(_) | Relation::Sequence(_) => {}
        }
    }
    for object in state_now.objects().values() {
        if let Object::Domain(domain) = object
            && domain.schema_name == schema
        {
            names.extend(domain.checks.iter().map(|(name, _)| name.as_str()));
        }
    }
    names
}

/// Adds a CHECK that the rows there need not satisfy.
pub(super) fn add_unchecked(session: &mut Session, place: &Target, declared: &CheckConstraint) -> Result<()> {
    let mut check = checked(session, place, declared, None)?;
    check.not_valid = true;
    session
        .transaction()?
        .lock()
        .add_check(&place.schema, &place.name, check)?;
    Ok(())
}

/// Adds a CHECK that the rows there satisfy.
pub(super) async fn add(
    session: &mut Session,
    place: &Target,
    declared: &CheckConstraint,
    own: Option<&Ident>,
) -> Result<()> {
    let check = checked(session, place, declared, own)?;
    let constraint = check.name.clone();
    session
        .transaction()?
        .lock()
        .add_check(&place.schema, &place.name, check)?;
    verify(session, &place.schema, &place.name, &constraint).await
}

/// A CHECK as a table that is there can have it.
fn checked(session: &Session, place: &Target, check: &CheckConstraint, own: Option<&Ident>) -> Result<Check> {
    let (binder, state) = (session.binder(), session.state());
    let table = state
        .table(&place.schema, &place.name)
        .ok_or_else(|| undefined(Some(&place.schema), &place.name))?;
    let definition = table.definition();
    declared(&binder, check, own, place, &definition.schema, &definition.checks)
}

/// Fails where a row of a table violates one of its conditions; the error says that it is this one.
pub(super) async fn verify(session: &Session, schema: &str, name: &str, constraint: &str) -> Result<()> {
    let (binder, state) = (session.binder(), session.state());
    let table = state.table(schema, name).ok_or_else(|| undefined(Some(schema), name))?;
    let mut definition = (**table.definition()).clone();
    definition.checks.retain(|check| check.name == constraint);
    let (checks, segments) = (
        Checks::of(session, &binder, &Arc::new(definition))?,
        table.segments().clone(),
    );
    let violated = run::background(&session.engine, async move { checks.verify(&segments) }).await;
    violated.map_err(|error| match error.state {
        state::CHECK_VIOLATION => {
            let message = format!("check constraint \"{constraint}\" of relation \"{name}\" is violated by some row");
            SqlError::new(state::CHECK_VIOLATION, message)
        }
        _ => error,
    })
}
