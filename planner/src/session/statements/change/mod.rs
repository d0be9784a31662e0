//! UPDATE and DELETE.
//!
//! Each is planned as a SELECT that reads, beside what the statement asks for, where each target row is (segment and
//! row number). The rows found are taken out of the table, and UPDATE's new rows are added. A row that the joined tables
//! match several times is changed once, by the first match, as in PostgreSQL.

mod asked;
mod beside;
mod found;
mod rights;

pub(super) use found::replace;

use super::query::{Reads, StatementInput};
use super::references::{self, Replaced};
use super::returning::{KeptColumns, ReturningColumns};
use super::{
    Description, moments, parameters, query, returned_addresses, returning, row_locks, table_locks, updatable,
};
use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError};
use crate::pg::outcome::Outcome;
use crate::session::{Prepared, Session};
use asked::{Asked, Assigned, Target, plan};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{self, Delete, Update, With};
use found::{Found, take};
use std::sync::Arc;
use tenon_storage::TableRows;

pub(super) fn describe_update(
    session: &mut Session,
    update: &Update,
    with: Option<&With>,
    types: &[u32],
) -> Result<Description> {
    describe(session, Asked::Update(update), with, types)
}

pub(super) fn describe_delete(
    session: &mut Session,
    delete: &Delete,
    with: Option<&With>,
    types: &[u32],
) -> Result<Description> {
    describe(session, Asked::Delete(delete), with, types)
}

fn describe(session: &mut Session, asked: Asked<'_>, with: Option<&With>, types: &[u32]) -> Result<Description> {
    let binder = session.binder();
    let target = asked.target(&binder)?;
    let reusable = with.is_none() && target.view.is_none();
    let types = asked.types(&binder, &target, types)?;
    let change = asked.change(&binder, target, with)?;
    let (plan, mut params, seen) = plan(&binder, &change, &types)?;
    let returned = parameters::hints(&change.returning)?;
    let (plan, lasts) = moments::opened(&binder, plan, params.len().max(returned.count))?;
    let columns = match &change.returning {
        Some(items) => {
            let named = parameters::hints(&change.select)?.named;
            let known = parameters::known_after(&params, &named, &types);
            let (columns, more) = returning::describe(&binder, &seen, items, &known)?;
            params = parameters::together(params, &named, more);
            Some(columns)
        }
        None => None,
    };
    Ok(Description {
        params,
        columns,
        plan: (reusable && lasts).then(|| (binder.snapshot.clone(), plan)),
        returned: (reusable && !asked.tells_columns()).then(|| KeptColumns::of(session, &seen)),
    })
}

pub(super) async fn update(
    session: &mut Session,
    prepared: &Prepared,
    update: &Update,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    settled(session, prepared, Asked::Update(update), with, params).await
}

pub(super) async fn delete(
    session: &mut Session,
    prepared: &Prepared,
    delete: &Delete,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    settled(session, prepared, Asked::Delete(delete), with, params).await
}

/// Runs until no other transaction has changed the rows meanwhile.
async fn settled(
    session: &mut Session,
    prepared: &Prepared,
    asked: Asked<'_>,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    session.check_expected()?;
    loop {
        if let Some(outcome) = run(session, prepared, asked, with, params).await? {
            return Ok(outcome);
        }
    }
}

/// The query for the rows that an UPDATE or DELETE changes.
pub(super) fn explained(
    binder: &Binder,
    prepared: &Prepared,
    statement: &ast::Statement,
    params: &[ScalarValue],
) -> Result<LogicalPlan> {
    let asked = match statement {
        ast::Statement::Update(update) => Asked::Update(update),
        ast::Statement::Delete(delete) => Asked::Delete(delete),
        _ => return Err(SqlError::internal("neither UPDATE nor DELETE")),
    };
    let target = asked.target(binder)?;
    asked.check(binder, &target, None)?;
    let change = asked.change(binder, target, None)?;
    let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
    query::bind(plan(binder, &change, &declared)?.0, params)
}

/// What finds the rows to change in the transaction's snapshot, what RETURNING sees of them, and what becomes of
/// their columns.
fn source(
    session: &mut Session,
    binder: &Binder,
    (prepared, params): (&Prepared, &[ScalarValue]),
    (asked, with): (Asked<'_>, Option<&With>),
    target: Target,
) -> Result<(StatementInput, ReturningColumns, Assigned)> {
    let described = prepared.plan.lock().take();
    let described = described.filter(|_| prepared.rights == session.plan_rights());
    let keeps = with.is_none() && target.view.is_none() && asked.is_whole(prepared);
    let own = match (keeps, asked.tells_columns()) {
        (false, _) => None,
        (true, true) => Some(ReturningColumns::of(&target.table, Some(target.alias.clone())).with(asked.xmax())),
        (true, false) => {
            let kept = prepared.returned.lock().clone();
            kept.and_then(|kept| kept.columns(session))
        }
    };
    if let Some(own) = &own
        && let Some(kept) = query::found(session, prepared, params)
    {
        let assigned = asked.assigned(binder, &target)?;
        return Ok((
            StatementInput::of_kept(session, prepared, &kept, params)?,
            own.clone(),
            assigned,
        ));
    }
    let (plan, seen, assigned, reusable) = match (described, own) {
        (Some((state, plan)), Some(own)) if Arc::ptr_eq(&state, &binder.snapshot) => {
            (plan, own, asked.assigned(binder, &target)?, true)
        }
        _ => {
            let change = asked.change(binder, target, with)?;
            let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
            let (plan, _, seen) = plan(binder, &change, &declared)?;
            let (plan, lasts) = moments::opened(binder, plan, params.len())?;
            if keeps && !asked.tells_columns() {
                *prepared.returned.lock() = Some(KeptColumns::of(session, &seen));
            }
            (plan, seen, change.assigned, lasts)
        }
    };
    let reusable = (keeps && reusable).then_some(Reads::AndWrites);
    let source = query::source(session, prepared, plan, reusable, params)?;
    Ok((StatementInput::Source(source), seen, assigned))
}

/// None: others have changed some of the rows meanwhile, and the transaction sees what they made of them.
async fn run(
    session: &mut Session,
    prepared: &Prepared,
    asked: Asked<'_>,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Option<Outcome>> {
    let binder = &session.binder();
    let target = asked.target(binder)?;
    let (table, view, what) = (target.table.clone(), target.view.clone(), asked.what());
    if table.definition().schema_name != session.temporary_schema() {
        session.check_writable(what)?;
    }
    asked.check(binder, &target, with)?;
    if table_locks::for_rows(session, &table).await? == row_locks::Found::Changed {
        return Ok(None);
    }
    let (rows, mut seen, assigned) = source(session, binder, (prepared, params), (asked, with), target)?;
    let writer = match what {
        "UPDATE" => Some(session.transaction()?.lock().writer(&table)),
        _ => None,
    };
    let addressed = returned_addresses::asked(&table, asked.returning().map(Vec::as_slice));
    let found = Found {
        changed: TableRows::default(),
        places: (addressed || references::concern(&session.state(), &table)).then(Vec::new),
        writer,
        kept: asked.returning().is_some().then(Vec::new),
    };
    let width = table.definition().columns.len();
    let schema = Arc::new(Schema::new(
        seen.fields.iter().map(|(_, field)| field.clone()).collect::<Vec<_>>(),
    ));
    let found = rows
        .drain(
            || session.run(),
            found,
            move |found, batch| take(found, (&schema, width), &batch),
        )
        .await?;
    let Found {
        changed,
        places,
        writer,
        mut kept,
    } = found;
    let mut addresses = match (addressed, &places) {
        (true, Some(places)) => returned_addresses::of_places(&table, places),
        _ => Vec::new(),
    };
    let rows = changed.rows();
    if rows > 0 {
        if row_locks::lock(session, &table, &changed).await? == row_locks::Found::Changed {
            return Ok(None);
        }
        let checks = updatable::checks(session, view.as_ref(), binder, table.definition())?;
        let writer = match writer {
            Some(writer) => writer,
            None => session.transaction()?.lock().writer(&table),
        };
        let places = places.filter(|_| references::concern(&session.state(), &table));
        let replaced = places.map(|places| {
            let mut replaced = Replaced::of(&table);
            match what {
                "UPDATE" => replaced.updated = places.into_iter().zip(0..).collect(),
                _ => replaced.deleted = places,
            }
            replaced.assigned = Some(assigned.columns);
            replaced
        });
        let written = (writer, Vec::new(), assigned.keys);
        let Some(segments) = replace(session, &table, changed, written, checks, replaced, true).await? else {
            return Ok(None);
        };
        if addressed && what == "UPDATE" {
            addresses = returned_addresses::of_segments(&segments);
        }
    }
    if addressed {
        kept = kept
            .map(|kept| returned_addresses::beside(kept, &addresses))
            .transpose()?;
        seen = seen.with_addresses();
    }
    match asked.returning() {
        Some(items) => {
            let is_whole = with.is_none() && asked.is_whole(prepared);
            let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
            let asked = returning::Returning {
                items,
                prepared: is_whole.then_some(prepared),
                before: &binder.snapshot,
                declared: &declared,
                params,
            };
            let rows = returning::rows(session, &asked, &table, &seen, kept.unwrap_or_default(), what);
            rows.await.map(Some)
        }
        None => Ok(Some(Outcome::Command(format!("{what} {rows}")))),
    }
}
