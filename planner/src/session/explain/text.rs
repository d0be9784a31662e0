//! FORMAT TEXT, laid out as PostgreSQL does.

use super::{ExplainNode, Role, Shown, Summary, Value};
use std::fmt::Write;

/// The plan's lines.
pub(crate) fn lines(node: &ExplainNode, shown: &Shown, summary: &Summary) -> Vec<String> {
    let mut out = Vec::new();
    write_node(node, "", "", None, shown, &mut out);
    if let Some(id) = summary.query_id {
        out.push(format!("Query Identifier: {id}"));
    }
    if let Some(time) = summary.planning_ms {
        out.push(format!("Planning Time: {time:.3} ms"));
    }
    if let Some(time) = summary.execution_ms {
        out.push(format!("Execution Time: {time:.3} ms"));
    }
    out
}

/// `first` begins the node's own line, `rest` those below it.
fn write_node(node: &ExplainNode, first: &str, rest: &str, above: Option<&str>, shown: &Shown, out: &mut Vec<String>) {
    let mut line = format!("{first}{}", node.title);
    if shown.costs {
        let e = &node.estimate;
        let _ = write!(
            line,
            "  (cost={:.2}..{:.2} rows={:.0} width={})",
            e.startup_cost,
            e.total_cost,
            e.rows.round(),
            e.width
        );
    }
    if let Some(actual) = &node.actual {
        let space = if shown.costs { " " } else { "  " };
        let _ = match (actual.ran, shown.timing && !actual.fused) {
            (false, _) => write!(line, "{space}(never executed)"),
            (true, true) => write!(
                line,
                "{space}(actual time={:.3}..{:.3} rows={} loops=1)",
                actual.startup_ms, actual.total_ms, actual.rows
            ),
            (true, false) => write!(line, "{space}(actual rows={} loops=1)", actual.rows),
        };
    }
    out.push(line);
    let mut property = |label: &str, text: String| out.push(format!("{rest}  {label}: {text}"));
    if shown.verbose && !node.output.is_empty() {
        property("Output", node.output.join(", "));
    }
    for (label, value) in &node.properties {
        property(label, text(value));
    }
    // A node runs where the one above it does unless it says otherwise.
    if shown.verbose || above != Some(node.device) {
        property("Device", node.device.into());
    }
    if let Some(reason) = &node.reason {
        property("Reason", reason.clone());
    }
    if let Some(actual) = node.actual.as_ref().filter(|actual| actual.ran) {
        for (label, value) in &actual.counts {
            property(label, text(value));
        }
        if shown.timing && !actual.phases.is_empty() {
            let phases = actual.phases.iter().map(|(name, ms)| format!("{name} {ms:.3} ms"));
            property("Phases", phases.collect::<Vec<_>>().join(", "));
        }
    }
    for (role, input) in &node.inputs {
        let (first, rest) = match role {
            Role::InitPlan(number) => {
                out.push(format!("{rest}  InitPlan {number}"));
                (format!("{rest}    ->  "), format!("{rest}        "))
            }
            _ => (format!("{rest}  ->  "), format!("{rest}      ")),
        };
        write_node(input, &first, &rest, Some(node.device), shown, out);
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::List(texts) => texts.join(", "),
        Value::Count(count) => count.to_string(),
        Value::Bytes(bytes) => format!("{}kB", bytes.div_ceil(1024)),
    }
}
