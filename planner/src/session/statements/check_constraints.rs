//! ALTER TABLE ... ADD CHECK and VALIDATE CONSTRAINT.

use super::constraints::{self, Checks};
use crate::pg::error::{Result, SqlError, state};
use crate::session::{Session, run};
use datafusion::sql::sqlparser::ast::{CheckConstraint, Ident};
use std::sync::Arc;
use tenon_storage::Check;

/// Adds a CHECK that the rows there need not satisfy.
pub(super) fn add_unchecked(session: &mut Session, schema: &str, name: &str, declared: &CheckConstraint) -> Result<()> {
    let mut check = checked(session, schema, name, declared, None, None)?;
    check.not_valid = true;
    session.transaction()?.lock().add_check(schema, name, check)?;
    Ok(())
}

/// Adds a CHECK that the rows there satisfy.
pub(super) async fn add(
    session: &mut Session,
    schema: &str,
    name: &str,
    declared: &CheckConstraint,
    own: Option<&Ident>,
    column: Option<&str>,
) -> Result<()> {
    let check = checked(session, schema, name, declared, own, column)?;
    let constraint = check.name.clone();
    session.transaction()?.lock().add_check(schema, name, check)?;
    verify(session, schema, name, &constraint).await
}

/// A CHECK as a table that is there can have it.
fn checked(
    session: &Session,
    schema: &str,
    name: &str,
    declared: &CheckConstraint,
    own: Option<&Ident>,
    column: Option<&str>,
) -> Result<Check> {
    let (binder, state) = (session.binder(), session.state());
    let table = state
        .table(schema, name)
        .ok_or_else(|| crate::catalog::bind::undefined(Some(schema), name))?;
    let definition = table.definition();
    constraints::check(
        &binder,
        declared,
        own,
        name,
        column,
        &definition.schema,
        &definition.checks,
    )
}

/// Fails where a row of a table violates one of its conditions; the error says that it is this one.
pub(super) async fn verify(session: &Session, schema: &str, name: &str, constraint: &str) -> Result<()> {
    let (binder, state) = (session.binder(), session.state());
    let table = state
        .table(schema, name)
        .ok_or_else(|| crate::catalog::bind::undefined(Some(schema), name))?;
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
