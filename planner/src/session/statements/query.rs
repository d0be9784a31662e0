//! SELECT, VALUES, TABLE: rows.

use super::promised::as_promised;
use super::{Description, for_update, moments, origins, parameters, unique};
use crate::catalog::bind::Binder;
use crate::catalog::system;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::from_datafusion;
use crate::pg::functions::held::with_values;
use crate::pg::outcome::{BatchStream, ColumnDesc, Outcome, RowsTag};
use crate::pg::rewrite::rewrite;
use crate::pg::types::describe as describe_columns;
use crate::session::moment_words::names_a_moment;
use crate::session::plan_cache::{Basis, Found, Keeper, PlanCacheMode};
use crate::session::run::{self, ExecutionContext, Source};
use crate::session::{Prepared, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use std::sync::Arc;
use tenon_storage::DatabaseState;

pub(super) fn describe(session: &mut Session, query: &ast::Query, types: &[u32]) -> Result<Description> {
    let binder = session.binder();
    let tree = checked(query)?;
    let (plan, params) = parameters::plan(&binder, tree, types)?;
    let columns = Some(origins::told(&plan, describe_columns(session.columns(&plan)?.as_ref())));
    let (plan, reusable) = moments::opened(&binder, plan, params.len())?;
    Ok(Description {
        params,
        columns,
        plan: reusable.then(|| (binder.snapshot.clone(), plan)),
        ..Description::default()
    })
}

/// The query rewritten, with the clauses refused that would be ignored.
pub(super) fn checked(query: &ast::Query) -> Result<ast::Statement> {
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
    with_values(plan, params).map_err(|error| from_datafusion(&error))
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
pub(crate) fn at_once(session: &Session, plan: &Found, params: &[ScalarValue]) -> Option<Result<Vec<RecordBatch>>> {
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
    Some((columns.clone(), found(session, prepared, params)?))
}

/// The plan that is kept for a statement.
pub(crate) fn found(session: &Session, prepared: &Prepared, params: &[ScalarValue]) -> Option<Found> {
    found_in(session, prepared, params, &session.read_state())
}

/// The same for one that reads a state.
pub(super) fn found_in(
    session: &Session,
    prepared: &Prepared,
    params: &[ScalarValue],
    state: &Arc<DatabaseState>,
) -> Option<Found> {
    // Rows of the statement's own are in a plan. What a plan reads is noted as it is made.
    if session.surroundings.have_relations() || session.notes_reads() {
        return None;
    }
    let mode = PlanCacheMode::of(&session.settings);
    let found = prepared.slot.find(&session.purpose(), params, mode, state)?;
    // Where one cannot be had, the plan that is made anew says why.
    let moments = moments_of(session, found.moments()).ok()?;
    Some(found.at(params, moments))
}

/// What stands in a plan for the time, and for what it takes of sequences.
pub(super) fn moments_of(session: &Session, names: &[String]) -> Result<Vec<ScalarValue>> {
    match names.is_empty() {
        true => Ok(Vec::new()),
        false => moments::values(&session.facts(&session.state()), names),
    }
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
    let state = session.read_state();
    let cached = prepared
        .plan
        .lock()
        .take()
        .filter(|(snapshot, _)| Arc::ptr_eq(snapshot, &state) && !session.surroundings.have_relations())
        .filter(|_| prepared.rights == session.plan_rights());
    let described = |plan: &LogicalPlan| {
        as_promised(
            prepared,
            origins::told(plan, describe_columns(session.columns(plan)?.as_ref())),
        )
    };
    // Plans that hold a value of their statement serve no other.
    let (plan, columns, reusable) = match cached {
        Some((_, plan)) => {
            let columns = prepared.columns.clone();
            let columns = columns.map_or_else(|| described(&plan), Ok)?;
            (plan, columns, true)
        }
        None => {
            let binder = session.binder();
            let plan = plan(&binder, query, &prepared.param_fields)?;
            let columns = described(&plan)?;
            let (plan, reusable) = moments::opened(&binder, plan, params.len())?;
            (plan, columns, reusable)
        }
    };
    let source = source_in(session, prepared, plan, reusable.then_some(Reads::Only), params, &state)?;
    Ok((columns, source))
}

/// What the statement of a plan does.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reads {
    Only,
    /// It changes the tables that it reads.
    AndWrites,
}

/// What to run for a plan with open parameters, which is kept where it may serve other executions of its statement.
pub(super) fn source(
    session: &Session,
    prepared: &Prepared,
    plan: LogicalPlan,
    reusable: Option<Reads>,
    params: &[ScalarValue],
) -> Result<Source> {
    source_in(session, prepared, plan, reusable, params, &session.read_state())
}

/// The same for one that reads a state.
pub(super) fn source_in(
    session: &Session,
    prepared: &Prepared,
    plan: LogicalPlan,
    reusable: Option<Reads>,
    params: &[ScalarValue],
    state: &Arc<DatabaseState>,
) -> Result<Source> {
    let mode = PlanCacheMode::of(&session.settings);
    unique::let_search(session, &plan)?;
    let reusable = reusable
        .filter(|_| !session.surroundings.have_relations() && !session.notes_reads() && prepared.slot.is_repeated());
    let reusable = reusable.filter(|_| !prepared.slot.spills() && !names_a_moment(prepared.sql()));
    let moments = moments::named(&plan, params.len())?;
    let values = [params, &moments_of(session, &moments)?].concat();
    let keeper = reusable.and_then(|reads| {
        Some(Keeper {
            moments,
            slot: prepared.slot.clone(),
            purpose: session.purpose(),
            basis: Basis::of(&plan, state)?,
            state: Arc::downgrade(state),
            analyzed: tenon_storage::analyze_count(),
            versions: reads == Reads::Only && Arc::ptr_eq(state, &session.engine.database().snapshot()),
        })
    });
    let generic = !values.is_empty() && prepared.slot.wants_generic(mode);
    Ok(match keeper {
        Some(keeper) if generic => Source::Open {
            plan: Box::new(plan),
            values,
            keeper,
            mode,
        },
        Some(keeper) => Source::Kept {
            plan: Box::new(bind(plan, &values)?),
            values,
            keeper,
        },
        None => Source::Logical(Box::new(bind(plan, &values)?)),
    })
}

/// Rows that a statement works on before it answers.
pub(super) enum StatementInput {
    /// They are there.
    Few(Vec<RecordBatch>),
    Source(Source),
}

impl StatementInput {
    pub fn of_kept(session: &Session, prepared: &Prepared, kept: &Found, params: &[ScalarValue]) -> Result<Self> {
        Ok(match at_once(session, kept, params) {
            Some(batches) => Self::Few(batches?),
            None => Self::Source(Source::Physical(kept.plan(params)?, prepared.slot.clone())),
        })
    }

    /// Gives each batch to `take`: by this thread, or where the plan has still to run on the query threads.
    pub async fn drain<T: Send + 'static>(
        self,
        run: impl FnOnce() -> ExecutionContext,
        mut sink: T,
        mut take: impl FnMut(&mut T, RecordBatch) -> Result<()> + Send + 'static,
    ) -> Result<T> {
        match self {
            Self::Few(batches) => {
                batches.into_iter().try_for_each(|batch| take(&mut sink, batch))?;
                Ok(sink)
            }
            Self::Source(source) => run::drain_source(&run(), source, sink, take).await,
        }
    }
}

pub(super) fn rows(columns: Vec<ColumnDesc>, stream: BatchStream) -> Outcome {
    Outcome::Rows {
        columns,
        stream,
        tag: RowsTag::Counted("SELECT"),
    }
}
