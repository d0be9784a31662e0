//! EXPLAIN: the plan of a statement, and with ANALYZE what a run of it did.

mod options;

use super::{Description, change, named, query, text_rows};
use crate::bind::parts;
use crate::error::{Result, SqlError};
use crate::explain::{self, Estimate, Node, Role, Shown, Summary, Value};
use crate::outcome::{ColumnDesc, Outcome, PgType, RowsTag};
use crate::run::{self, Run};
use crate::session::{Prepared, Session};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use options::{Format, Options};
use std::sync::Arc;
use std::time::Instant;

const COLUMN: &str = "QUERY PLAN";
/// `pg_type.oid` of json.
const JSON_OID: u32 = 114;

fn columns(options: &Options) -> Vec<ColumnDesc> {
    let mut columns = text_rows::columns(&[COLUMN]);
    if options.format == Format::Json {
        columns[0].pg_type = PgType {
            oid: JSON_OID,
            typmod: -1,
        };
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
        ast::Statement::Update(update) => change::describe_update(session, update, types)?.params,
        ast::Statement::Delete(delete) => change::describe_delete(session, delete, types)?.params,
        _ => Vec::new(),
    };
    Ok(Description {
        params,
        columns: Some(columns(&options::of(statement)?)),
        plan: None,
    })
}

/// What is explained: a query, and what is done with its rows.
struct Explained {
    plan: LogicalPlan,
    /// `Insert` and the table's name.
    change: Option<(&'static str, String)>,
}

impl Explained {
    fn query(plan: LogicalPlan) -> Self {
        Self { plan, change: None }
    }
}

async fn explained(
    session: &mut Session,
    inner: &ast::Statement,
    fields: &[FieldRef],
    params: &[ScalarValue],
) -> Result<Explained> {
    let bound = |session: &Session, query| query::bound_plan(&session.binder(), query, fields, params);
    match inner {
        ast::Statement::Query(query) => Ok(Explained::query(bound(session, query)?)),
        ast::Statement::CreateTable(ast::CreateTable { query: Some(query), .. }) => {
            Ok(Explained::query(bound(session, query)?))
        }
        ast::Statement::Insert(ast::Insert {
            source: Some(query),
            table: ast::TableObject::TableName(name),
            ..
        }) => {
            let target = parts(name).pop().unwrap_or_default();
            Ok(Explained {
                plan: bound(session, query)?,
                change: Some(("Insert", target)),
            })
        }
        ast::Statement::Update(_) | ast::Statement::Delete(_) => {
            let (plan, what, table) = change::explained(&session.binder(), inner, params)?;
            Ok(Explained {
                plan,
                change: Some((what, table)),
            })
        }
        ast::Statement::Execute { name, parameters, .. } => {
            let (prepared, values) = named::bound(session, name.as_ref(), parameters).await?;
            match prepared.query() {
                Some(query) => {
                    let plan = query::bound_plan(&session.binder(), query, &prepared.param_fields, &values)?;
                    Ok(Explained::query(plan))
                }
                None => Err(SqlError::unsupported("EXPLAIN EXECUTE of anything but a query")),
            }
        }
        _ => Err(SqlError::unsupported("EXPLAIN of this statement")),
    }
}

pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    statement: &ast::Statement,
    inner: &ast::Statement,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let options = options::of(statement)?;
    let reads = matches!(inner, ast::Statement::Query(_) | ast::Statement::Execute { .. });
    if options.analyze && !reads {
        return Err(SqlError::unsupported(
            "EXPLAIN ANALYZE of a statement that changes data",
        ));
    }
    let begin = Instant::now();
    let Explained { plan, change } = explained(session, inner, &prepared.param_fields, params).await?;
    let bound = begin.elapsed();
    let own = session.run();
    let (node, planned, executed) = run::background(&session.engine, async move {
        let begin = Instant::now();
        let physical = run::physical(&own, &plan).await?;
        let planned = begin.elapsed();
        let begin = Instant::now();
        if options.analyze {
            exhaust(&own, &physical).await?;
        }
        let executed = begin.elapsed();
        Ok((explain::describe(&physical, options.analyze), planned, executed))
    })
    .await?;
    let node = match change {
        Some((what, table)) => modify(node, what, &table),
        None => node,
    };
    let shown = Shown {
        verbose: options.verbose,
        costs: options.costs,
        timing: options.timing,
    };
    let summary = Summary {
        planning_ms: options.summary.then(|| (bound + planned).as_secs_f64() * 1e3),
        execution_ms: (options.summary && options.analyze).then_some(executed.as_secs_f64() * 1e3),
    };
    let lines = match options.format {
        Format::Text => explain::text::lines(&node, &shown, &summary),
        Format::Json => vec![explain::json::document(&node, &shown, &summary)],
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

/// Runs a plan to its end for the account that it leaves.
async fn exhaust(run: &Run, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let _permit = run.engine.admission.acquire().await.map_err(SqlError::internal)?;
    let told = |error| crate::errors::from_datafusion(&error);
    let mut stream = execute_stream(plan.clone(), run.task.clone()).map_err(told)?;
    loop {
        tokio::select! {
            biased;
            _ = run.cancel.cancelled() => return Err(run::canceled()),
            batch = stream.next() => match batch {
                Some(batch) => drop(batch.map_err(told)?),
                None => return Ok(()),
            },
        }
    }
}

/// The node that writes the rows of `input` to a table.
fn modify(input: Node, what: &'static str, table: &str) -> Node {
    Node {
        kind: "ModifyTable".into(),
        title: format!("{what} on {table}"),
        identity: vec![
            ("Operation", Value::Text(what.into())),
            ("Relation Name", Value::Text(table.into())),
            ("Alias", Value::Text(table.into())),
        ],
        device: "cpu",
        estimate: Estimate {
            rows: 0.0,
            width: 0,
            ..input.estimate
        },
        inputs: vec![(Role::Outer, input)],
        ..Node::default()
    }
}
