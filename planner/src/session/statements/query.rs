//! SELECT, VALUES, TABLE: rows.

use super::{Description, for_update, parameters};
use crate::catalog::bind::Binder;
use crate::catalog::system;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::from_datafusion;
use crate::pg::outcome::{BatchStream, ColumnDesc, Outcome, RowsTag};
use crate::pg::rewrite::rewrite;
use crate::pg::types::describe as describe_columns;
use crate::session::plan_cache::{Basis, Found, Keeper, Mode};
use crate::session::run::{self, Source};
use crate::session::{Prepared, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use std::sync::Arc;
use tenon_executor::scan::POSITION_FIELDS;

pub(super) fn describe(session: &mut Session, query: &ast::Query, types: &[u32]) -> Result<Description> {
    let binder = session.binder();
    let tree = checked(query)?;
    let (plan, params) = parameters::plan(&binder, tree, types)?;
    let columns = Some(describe_columns(session.columns(&plan)?.as_ref()));
    Ok(Description {
        params,
        columns,
        plan: binder.reusable().then(|| (binder.snapshot.clone(), plan)),
    })
}

/// The query rewritten, with the clauses refused that would be ignored.
fn checked(query: &ast::Query) -> Result<ast::Statement> {
    if let ast::SetExpr::Select(select) = query.body.as_ref()
        && select.into.is_some()
    {
        return Err(SqlError::unsupported("SELECT INTO").hint("Use CREATE TABLE AS."));
    }
    let mut query = Box::new(query.clone());
    // Who locks has done so.
    query.locks.clear();
    let mut tree = ast::Statement::Query(query);
    if system::touches(&tree) {
        tree = system::rewrite(tree);
    }
    rewrite(&mut tree);
    Ok(tree)
}

/// The plan of a query, its parameters left open.
pub(super) fn plan(binder: &Binder, query: &ast::Query, params: &[FieldRef]) -> Result<LogicalPlan> {
    binder.plan(checked(query)?, params.iter().cloned().map(Some).collect())
}

/// The plan of a query with values in place of its parameters.
pub(super) fn bound_plan(
    binder: &Binder,
    query: &ast::Query,
    fields: &[FieldRef],
    params: &[ScalarValue],
) -> Result<LogicalPlan> {
    bind(plan(binder, query, fields)?, params)
}

pub(super) fn bind(plan: LogicalPlan, params: &[ScalarValue]) -> Result<LogicalPlan> {
    if params.is_empty() {
        return Ok(plan);
    }
    plan.replace_params_with_values(&ParamValues::from(params.to_vec()))
        .map_err(|error| from_datafusion(&error))
}

/// The plan of a query that names where rows of a table lie, which are no columns of its own, and its columns.
pub(super) fn with_positions(
    session: &Session,
    binder: &Binder,
    prepared: &Prepared,
    query: &ast::Query,
    params: &[ScalarValue],
) -> Result<(LogicalPlan, Vec<ColumnDesc>)> {
    let plan = bind(plan(binder, query, &prepared.param_fields)?, params)?;
    let own = plan.schema().columns().into_iter();
    let own = own.filter(|column| !POSITION_FIELDS.contains(&column.name.as_str()));
    let plan = LogicalPlanBuilder::from(plan.clone())
        .project(own.map(Expr::Column))
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| from_datafusion(&error))?;
    let columns = as_promised(prepared, describe_columns(session.columns(&plan)?.as_ref()))?;
    Ok((plan, columns))
}

pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    query: &ast::Query,
    params: &[ScalarValue],
) -> Result<Outcome> {
    match query.locks.is_empty() {
        true => run_unlocked(session, prepared, query, params).await,
        false => Box::pin(for_update::run(session, prepared, query, params)).await,
    }
}

pub(super) async fn run_unlocked(
    session: &mut Session,
    prepared: &Prepared,
    query: &ast::Query,
    params: &[ScalarValue],
) -> Result<Outcome> {
    session.check_expected()?;
    let found = kept(session, prepared, params);
    if let Some((columns, plan)) = &found
        && let Some(batches) = at_once(session, plan, params)
    {
        let batches = batches?.into_iter().map(Ok);
        return Ok(rows(columns.clone(), futures::stream::iter(batches).boxed()));
    }
    let run = session.run();
    let (columns, source) = match found {
        Some((columns, plan)) => (columns, Source::Physical(plan.plan(params)?, prepared.slot.clone())),
        None => made(session, prepared, query, params)?,
    };
    Ok(rows(columns, run::start_source(&run, source).await?))
}

/// The rows of a kept plan that reads few, by this thread.
fn at_once(session: &Session, plan: &Found, params: &[ScalarValue]) -> Option<Result<Vec<RecordBatch>>> {
    // EXPLAIN ANALYZE wants to see the plan run.
    if session.watch.is_some() {
        return None;
    }
    if session.cancel().is_cancelled() {
        return Some(Err(run::stopped(session.account())));
    }
    plan.few(params)
}

/// A query's columns and the plan that is kept for it.
fn kept(session: &Session, prepared: &Prepared, params: &[ScalarValue]) -> Option<(Vec<ColumnDesc>, Found)> {
    let columns = prepared.columns.as_ref()?;
    let mode = Mode::of(&session.settings);
    let found = prepared.slot.find(&session.purpose(), params, mode, &session.state())?;
    Some((columns.clone(), found))
}

/// A query's columns, and its plan: a kept one, or one to be made and, where that can be, kept.
pub(super) fn ready(
    session: &mut Session,
    prepared: &Prepared,
    query: &ast::Query,
    params: &[ScalarValue],
) -> Result<(Vec<ColumnDesc>, Source)> {
    match kept(session, prepared, params) {
        Some((columns, plan)) => Ok((columns, Source::Physical(plan.plan(params)?, prepared.slot.clone()))),
        None => made(session, prepared, query, params),
    }
}

/// A query's columns, and its plan, which is to be made.
fn made(
    session: &mut Session,
    prepared: &Prepared,
    query: &ast::Query,
    params: &[ScalarValue],
) -> Result<(Vec<ColumnDesc>, Source)> {
    let (state, purpose, mode) = (session.state(), session.purpose(), Mode::of(&session.settings));
    let cached = prepared
        .plan
        .lock()
        .take()
        .filter(|(snapshot, _)| Arc::ptr_eq(snapshot, &state));
    // Plans that hold a value of their statement serve no other.
    let (plan, described, mut reusable) = match cached {
        Some((_, plan)) => (plan, prepared.columns.clone(), true),
        None => {
            let binder = session.binder();
            let plan = plan(&binder, query, &prepared.param_fields)?;
            (plan, None, binder.reusable())
        }
    };
    reusable &= prepared.slot.is_repeated() && !prepared.slot.spills() && !names_a_moment(prepared.sql());
    reusable &= Arc::ptr_eq(&state, &session.engine.database().snapshot());
    let columns = match described {
        Some(columns) => columns,
        None => as_promised(prepared, describe_columns(session.columns(&plan)?.as_ref()))?,
    };
    let basis = if reusable { Basis::of(&plan, &state) } else { None };
    let keeper = basis.map(|basis| Keeper {
        slot: prepared.slot.clone(),
        purpose,
        basis,
        state: Arc::downgrade(&state),
        analyzed: tenon_storage::analyze_count(),
    });
    let generic = !params.is_empty() && prepared.slot.wants_generic(mode);
    let source = match keeper {
        Some(keeper) if generic => Source::Open {
            plan: Box::new(plan),
            values: params.to_vec(),
            keeper,
            mode,
        },
        Some(keeper) => Source::Kept {
            plan: Box::new(bind(plan, params)?),
            values: params.to_vec(),
            keeper,
        },
        None => Source::Logical(Box::new(bind(plan, params)?)),
    };
    Ok((columns, source))
}

/// Columns of a new plan, which must have the types that preparing the statement told.
fn as_promised(prepared: &Prepared, columns: Vec<ColumnDesc>) -> Result<Vec<ColumnDesc>> {
    if let Some(promised) = &prepared.columns
        && (promised.len() != columns.len() || promised.iter().zip(&columns).any(|(a, b)| a.data_type != b.data_type))
    {
        return Err(SqlError::changed_result());
    }
    Ok(columns)
}

pub(super) fn rows(columns: Vec<ColumnDesc>, stream: BatchStream) -> Outcome {
    Outcome::Rows {
        columns,
        stream,
        tag: RowsTag::Counted("SELECT"),
    }
}

/// Whether a text may hold a date such as 'today', which is another one tomorrow.
fn names_a_moment(sql: &str) -> bool {
    let sql = sql.to_lowercase();
    ["now", "today", "tomorrow", "yesterday"]
        .iter()
        .any(|word| sql.contains(word))
}
