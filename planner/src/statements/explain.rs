//! EXPLAIN: the physical plan as rows of text.

use super::{Description, text_rows};
use crate::error::{Result, SqlError, SqlState, state};
use crate::outcome::{Outcome, RowsTag};
use crate::run;
use crate::session::{Prepared, Session};
use crate::statements::query;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::sqlparser::ast::{self, AnalyzeFormat, AnalyzeFormatKind, Expr, UtilityOption, Value};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Instant;

/// What EXPLAIN shows.
#[derive(Default)]
struct Options {
    analyze: bool,
    verbose: bool,
    json: bool,
}

fn options(statement: &ast::Statement) -> Result<Options> {
    let ast::Statement::Explain {
        analyze,
        verbose,
        format,
        options,
        ..
    } = statement
    else {
        return Ok(Options::default());
    };
    let mut out = Options {
        analyze: *analyze,
        verbose: *verbose,
        json: false,
    };
    if let Some(AnalyzeFormatKind::Keyword(kind) | AnalyzeFormatKind::Assignment(kind)) = format {
        out.json = matches!(kind, AnalyzeFormat::JSON);
    }
    for UtilityOption { name, arg } in options.iter().flatten() {
        let on = match arg {
            None => true,
            Some(Expr::Value(value)) => !matches!(&value.value, Value::Boolean(false)) && value.to_string() != "0",
            Some(other) => !other.to_string().eq_ignore_ascii_case("off"),
        };
        match name.value.to_lowercase().as_str() {
            "analyze" => out.analyze = on,
            "verbose" => out.verbose = on,
            "format" => match arg.as_ref().map(|arg| arg.to_string().to_lowercase()).as_deref() {
                Some("json" | "'json'") => out.json = true,
                Some("text" | "'text'") => out.json = false,
                other => {
                    let message = format!(
                        "unrecognized value for EXPLAIN option \"format\": {}",
                        other.unwrap_or("none")
                    );
                    return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
                }
            },
            "costs" | "settings" | "buffers" | "wal" | "timing" | "summary" | "generic_plan" => {}
            other => {
                let message = format!("unrecognized EXPLAIN option \"{other}\"");
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
        }
    }
    Ok(out)
}

pub(super) fn describe(session: &mut Session, inner: &ast::Statement, types: &[u32]) -> Result<Description> {
    let params = match inner {
        ast::Statement::Query(query) => query::describe(session, query, types)?.params,
        _ => Vec::new(),
    };
    Ok(Description {
        params,
        columns: Some(text_rows::columns(&["QUERY PLAN"])),
        plan: None,
    })
}

pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    statement: &ast::Statement,
    inner: &ast::Statement,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let options = options(statement)?;
    let query = match inner {
        ast::Statement::Query(query) => query,
        ast::Statement::CreateTable(ast::CreateTable { query: Some(query), .. }) if !options.analyze => query,
        ast::Statement::Insert(ast::Insert {
            source: Some(query), ..
        }) if !options.analyze => query,
        _ => {
            return Err(SqlError::new(
                SqlState("0A000"),
                "EXPLAIN of this statement is not supported",
            ));
        }
    };
    let plan = query::bound_plan(&session.binder(), query, &prepared.param_fields, params)?;
    let own = session.run();
    let analyze = options.analyze;
    let (plan, times) = run::background(&session.engine, async move {
        let begin = Instant::now();
        let physical = run::physical(&own, &plan).await?;
        let planned = begin.elapsed();
        if analyze {
            let _permit = own.engine.admission.acquire().await.map_err(SqlError::internal)?;
            let mut stream = execute_stream(physical.clone(), own.task.clone())
                .map_err(|error| crate::errors::from_datafusion(&error))?;
            loop {
                tokio::select! {
                    biased;
                    _ = own.cancel.cancelled() => return Err(run::canceled()),
                    batch = stream.next() => match batch {
                        Some(batch) => drop(batch.map_err(|error| crate::errors::from_datafusion(&error))?),
                        None => break,
                    },
                }
            }
        }
        Ok((physical, (planned, begin.elapsed() - planned)))
    })
    .await?;
    let mut lines: Vec<String> = text(&plan, &options).lines().map(str::to_string).collect();
    let (planning_ms, execution_ms) = (times.0.as_secs_f64() * 1e3, times.1.as_secs_f64() * 1e3);
    if options.json {
        let mut document = serde_json::json!([{ "Plan": tree(&plan) }]);
        if options.analyze {
            document[0]["Planning Time"] = serde_json::json!(planning_ms);
            document[0]["Execution Time"] = serde_json::json!(execution_ms);
        }
        let document = serde_json::to_string_pretty(&document).map_err(SqlError::internal)?;
        return Ok(text_rows::outcome(
            &["QUERY PLAN"],
            vec![vec![document]],
            RowsTag::Plain("EXPLAIN"),
        ));
    }
    if options.analyze {
        lines.push(format!("Planning Time: {planning_ms:.3} ms"));
        lines.push(format!("Execution Time: {execution_ms:.3} ms"));
    }
    let rows = lines.into_iter().map(|line| vec![line]).collect();
    Ok(text_rows::outcome(&["QUERY PLAN"], rows, RowsTag::Plain("EXPLAIN")))
}

fn text(plan: &Arc<dyn ExecutionPlan>, options: &Options) -> String {
    if options.analyze {
        DisplayableExecutionPlan::with_metrics(plan.as_ref())
            .indent(options.verbose)
            .to_string()
    } else {
        DisplayableExecutionPlan::new(plan.as_ref())
            .indent(options.verbose)
            .to_string()
    }
}

/// A node with what it says of itself and the nodes that it reads.
fn tree(plan: &Arc<dyn ExecutionPlan>) -> serde_json::Value {
    let line = DisplayableExecutionPlan::new(plan.as_ref()).one_line().to_string();
    let inputs: Vec<_> = plan.children().into_iter().map(tree).collect();
    let mut node = serde_json::json!({ "Node Type": plan.name(), "Detail": line.trim() });
    if let Some(metrics) = plan.metrics() {
        if let Some(rows) = metrics.output_rows() {
            node["Actual Rows"] = serde_json::json!(rows);
        }
        if let Some(time) = metrics.elapsed_compute() {
            node["Actual Compute Time"] = serde_json::json!(time as f64 / 1e6);
        }
    }
    if !inputs.is_empty() {
        node["Plans"] = serde_json::json!(inputs);
    }
    node
}
