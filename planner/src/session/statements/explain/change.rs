//! EXPLAIN of statements that change data: what they do to which table, and the account of a run.

use crate::catalog::bind::parts;
use crate::pg::error::{Result, SqlError};
use crate::pg::outcome::Outcome;
use crate::session::explain::{Actual, Estimate, ExplainNode, Role, Value, describe};
use crate::session::run::Watch;
use crate::session::statements::run_tree;
use crate::session::{Prepared, Session};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, FromTable, ObjectName, TableFactor, TableObject};
use futures::StreamExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is done with the rows of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// `Insert`, `Update` or `Delete`.
    what: &'static str,
    /// The table's own name.
    table: String,
}

impl Change {
    /// What a statement does to a table that exists. None: it only reads, or makes a new table.
    pub fn of(statement: &ast::Statement) -> Option<Self> {
        let (what, name) = match statement {
            ast::Statement::Insert(insert) => match &insert.table {
                TableObject::TableName(name) => ("Insert", name),
                _ => return None,
            },
            ast::Statement::Update(update) => ("Update", named(&update.table.relation)?),
            ast::Statement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                ("Delete", named(&from.first()?.relation)?)
            }
            _ => return None,
        };
        let table = parts(name).pop()?;
        Some(Self { what, table })
    }

    /// The node that does it with the rows of `input`.
    pub fn over(self, input: ExplainNode, actual: Option<Actual>) -> ExplainNode {
        let Self { what, table } = self;
        ExplainNode {
            kind: "ModifyTable".into(),
            title: format!("{what} on {table}"),
            identity: vec![
                ("Operation", Value::Text(what.into())),
                ("Relation Name", Value::Text(table.clone())),
                ("Alias", Value::Text(table)),
            ],
            device: "cpu",
            estimate: Estimate {
                rows: 0.0,
                width: 0,
                ..input.estimate
            },
            actual,
            inputs: vec![(Role::Outer, input)],
            ..ExplainNode::default()
        }
    }
}

fn named(factor: &TableFactor) -> Option<&ObjectName> {
    match factor {
        TableFactor::Table { name, .. } => Some(name),
        _ => None,
    }
}

/// Runs a statement that changes data. Its plan with the account of the run, and the times of planning and of running.
pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    statement: &ast::Statement,
    params: &[ScalarValue],
) -> Result<(ExplainNode, Duration, Duration)> {
    let watch = Arc::new(Watch::default());
    session.watch = Some(watch.clone());
    let begin = Instant::now();
    let outcome = Box::pin(run_tree(session, prepared, statement, params)).await;
    session.watch = None;
    let mut returned = 0;
    if let Outcome::Rows { mut stream, .. } = outcome? {
        while let Some(batch) = stream.next().await {
            returned += batch?.num_rows();
        }
    }
    let elapsed = begin.elapsed();
    let Some((plan, planning)) = watch.seen() else {
        return Err(SqlError::unsupported(
            "EXPLAIN ANALYZE of a statement that runs no plan",
        ));
    };
    let executing = elapsed.saturating_sub(*planning);
    let node = describe(plan, true);
    let node = match Change::of(statement) {
        Some(change) => {
            let total_ms = executing.as_secs_f64() * 1e3;
            let actual = Actual {
                rows: returned,
                startup_ms: total_ms,
                total_ms,
                ran: true,
                ..Actual::default()
            };
            change.over(node, Some(actual))
        }
        None => node,
    };
    Ok((node, *planning, executing))
}
