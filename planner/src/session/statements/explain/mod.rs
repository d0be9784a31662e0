//! EXPLAIN: the plan of a statement, and with ANALYZE what a run of it did.

mod change;
mod options;

use super::{Description, insert, named, query, text_rows};
use crate::pg::error::{Result, SqlError};
use crate::pg::outcome::{ColumnDesc, Outcome, PgType, RowsTag};
use crate::pg::statement::Kind;
use crate::session::explain::{self, ExplainNode, Shown, Summary};
use crate::session::own_pool;
use crate::session::run::{self, ExecutionContext, Source};
use crate::session::tracked;
use crate::session::{Prepared, Session};
use change::Change;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use options::{Format, Options};
use std::sync::Arc;
use std::time::{Duration, Instant};

const COLUMN: &str = "QUERY PLAN";
/// `pg_type.oid`.
const JSON_OID: u32 = 114;
const XML_OID: u32 = 142;

fn columns(options: &Options) -> Vec<ColumnDesc> {
    let mut columns = text_rows::columns(&[COLUMN]);
    let oid = match options.format {
        Format::Json => Some(JSON_OID),
        Format::Xml => Some(XML_OID),
        Format::Text | Format::Yaml => None,
    };
    if let Some(oid) = oid {
        columns[0].pg_type = PgType { oid, typmod: -1 };
    }
    columns
}

pub(super) fn describe(
    session: &mut Session,
    statement: &ast::Statement,
    inner: &ast::Statement,
    types: &[u32],
) -> Result<Description> {
    let params = match inner {
        ast::Statement::Query(query) => query::describe(session, query, types)?.params,
        ast::Statement::CreateTable(ast::CreateTable { query: Some(query), .. }) => {
            query::describe(session, query, types)?.params
        }
        ast::Statement::Insert(insert) => insert::describe(session, insert, types)?.params,
        ast::Statement::Update(update) => super::change::describe_update(session, update, None, types)?.params,
        ast::Statement::Delete(delete) => super::change::describe_delete(session, delete, None, types)?.params,
        _ => Vec::new(),
    };
    Ok(Description {
        params,
        columns: Some(columns(&options::of(statement)?)),
        ..Description::default()
    })
}

/// The plan of a statement: of a query, or of the rows that a change is made of.
fn source(
    session: &mut Session,
    prepared: &Prepared,
    statement: &ast::Statement,
    params: &[ScalarValue],
) -> Result<Source> {
    let binder = session.binder();
    let plan = match statement {
        ast::Statement::Query(query) | ast::Statement::CreateTable(ast::CreateTable { query: Some(query), .. }) => {
            query::bound_plan(&binder, query, &prepared.param_fields, params)?
        }
        ast::Statement::Insert(insert) => insert::explained(&binder, prepared, insert, params)?,
        ast::Statement::Update(_) | ast::Statement::Delete(_) => {
            super::change::explained(&binder, prepared, statement, params)?
        }
        _ => return Err(SqlError::unsupported("EXPLAIN of this statement")),
    };
    Ok(Source::Logical(Box::new(plan)))
}

pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    statement: &ast::Statement,
    inner: &ast::Statement,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let options = options::of(statement)?;
    let (node, planning, execution) = match inner {
        ast::Statement::Execute { name, parameters, .. } => {
            let (named, values) = named::bound(session, name.as_ref(), parameters).await?;
            let begin = Instant::now();
            match (named.query(), &named.statement.kind) {
                // What the statement has kept serves here too.
                (Some(query), _) => {
                    let (_, source) = query::ready(session, &named, query, &values)?;
                    planned(session, source, begin, &options).await?
                }
                (None, Kind::Sql(tree)) => explained(session, &named, tree, &values, &options).await?,
                (None, _) => return Err(SqlError::unsupported("EXPLAIN of this statement")),
            }
        }
        _ => explained(session, prepared, inner, params, &options).await?,
    };
    let shown = Shown {
        verbose: options.verbose,
        costs: options.costs,
        timing: options.timing,
    };
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    // As in PostgreSQL without its extension, only where it is asked for.
    let shows_id = options.verbose && session.setting("compute_query_id").as_deref() == Some("on");
    let summary = Summary {
        query_id: shows_id.then(|| tracked::explained_id(prepared.sql())),
        planning_ms: options.summary.then_some(milliseconds(planning)),
        execution_ms: (options.summary && options.analyze).then_some(milliseconds(execution)),
    };
    let document = || explain::document(&node, &shown, &summary);
    let lines = match options.format {
        Format::Text => explain::text::lines(&node, &shown, &summary),
        Format::Json => vec![explain::json::text(document())],
        Format::Yaml => vec![explain::yaml::text(document())],
        Format::Xml => vec![explain::xml::text(document())],
    };
    let rows = lines.into_iter().map(|line| vec![line]).collect();
    let outcome = text_rows::outcome(&[COLUMN], rows, RowsTag::Plain("EXPLAIN"));
    Ok(match outcome {
        Outcome::Rows { stream, tag, .. } => Outcome::Rows {
            columns: columns(&options),
            stream,
            tag,
        },
        other => other,
    })
}

/// The plan of a statement that has been run if it is to be analyzed, and the times of planning and of running.
async fn explained(
    session: &mut Session,
    prepared: &Prepared,
    statement: &ast::Statement,
    params: &[ScalarValue],
    options: &Options,
) -> Result<(ExplainNode, Duration, Duration)> {
    if options.analyze && !matches!(statement, ast::Statement::Query(_)) {
        // Refuses what has no plan before anything is done.
        source(session, prepared, statement, params)?;
        return change::run(session, prepared, statement, params).await;
    }
    let begin = Instant::now();
    let source = source(session, prepared, statement, params)?;
    let (node, planning, execution) = planned(session, source, begin, options).await?;
    let node = match Change::of(statement) {
        Some(change) => change.over(node, None),
        None => node,
    };
    Ok((node, planning, execution))
}

/// The same for a query. Planning has begun at `begin`.
async fn planned(
    session: &Session,
    source: Source,
    begin: Instant,
    options: &Options,
) -> Result<(ExplainNode, Duration, Duration)> {
    let (own, analyze) = (session.run(), options.analyze);
    let bound = begin.elapsed();
    run::aside(&session.engine, async move {
        let begin = Instant::now();
        let physical = run::plan_of(&own, source).await?.plan;
        let planning = bound + begin.elapsed();
        let begin = Instant::now();
        if analyze {
            exhaust(&own, &physical).await?;
        }
        let execution = begin.elapsed();
        Ok((explain::describe(&physical, analyze), planning, execution))
    })
    .await
}

/// Runs a plan to its end for the account that it leaves.
async fn exhaust(run: &ExecutionContext, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let mut place = run.place();
    let told = |error| crate::pg::errors::from_datafusion(&error);
    // A context of its own: a kept plan has run under others.
    let task = own_pool::limited(crate::optimizer::execution::analyzed_task(&run.state), &run.account);
    let mut stream = execute_stream(plan.clone(), task).map_err(told)?;
    loop {
        tokio::select! {
            biased;
            _ = run.cancel.cancelled() => return Err(run::stopped(&run.account)),
            batch = place.run(stream.next()) => match batch {
                Some(batch) => drop(batch.map_err(told)?),
                None => return Ok(()),
            },
        }
    }
}
