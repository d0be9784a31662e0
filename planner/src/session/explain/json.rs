//! FORMAT JSON: the members that PostgreSQL's tools look for, in its order.

use super::{ExplainNode, Role, Shown, Summary, Value};

/// The document.
pub(crate) fn document(node: &ExplainNode, shown: &Shown, summary: &Summary) -> String {
    let mut members = vec![("Plan".to_string(), Json::Object(plan(node, None, shown)))];
    if let Some(id) = summary.query_id {
        members.push(("Query Identifier".into(), Json::Bare(id.to_string())));
    }
    if let Some(time) = summary.planning_ms {
        members.push(("Planning Time".into(), Json::number(time, 3)));
    }
    if let Some(time) = summary.execution_ms {
        members.push(("Triggers".into(), Json::Array(Vec::new())));
        members.push(("Execution Time".into(), Json::number(time, 3)));
    }
    let mut out = String::new();
    Json::Array(vec![Json::Object(members)]).write(0, &mut out);
    out
}

/// A value to be written; objects keep their members' order.
enum Json {
    Text(String),
    /// A number or a truth value, as it is written.
    Bare(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    fn number(value: f64, decimals: usize) -> Self {
        Self::Bare(format!("{value:.decimals$}"))
    }

    fn write(&self, indent: usize, out: &mut String) {
        let line = |out: &mut String, indent: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', 2 * indent));
        };
        match self {
            Self::Text(text) => out.push_str(&serde_json::Value::from(text.as_str()).to_string()),
            Self::Bare(text) => out.push_str(text),
            Self::Array(items) if items.is_empty() => out.push_str("[]"),
            Self::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    line(out, indent + 1);
                    item.write(indent + 1, out);
                }
                line(out, indent);
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    line(out, indent + 1);
                    out.push_str(&format!("\"{name}\": "));
                    value.write(indent + 1, out);
                }
                line(out, indent);
                out.push('}');
            }
        }
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        match value {
            Value::Text(text) => Self::Text(text.clone()),
            Value::List(texts) => Self::Array(texts.iter().cloned().map(Self::Text).collect()),
            Value::Count(count) | Value::Bytes(count) => Self::Bare(count.to_string()),
        }
    }
}

fn plan(node: &ExplainNode, role: Option<Role>, shown: &Shown) -> Vec<(String, Json)> {
    let mut members: Vec<(String, Json)> = Vec::new();
    let mut put = |name: &str, value: Json| members.push((name.into(), value));
    let text = |text: &str| Json::Text(text.into());
    put("Node Type", text(&node.kind));
    if let Some(role) = role {
        put(
            "Parent Relationship",
            text(match role {
                Role::Outer => "Outer",
                Role::Inner => "Inner",
                Role::Member => "Member",
                Role::InitPlan(_) => "InitPlan",
            }),
        );
        if let Role::InitPlan(number) = role {
            put("Subplan Name", Json::Text(format!("InitPlan {number}")));
        }
    }
    put("Parallel Aware", Json::Bare("false".into()));
    put("Async Capable", Json::Bare("false".into()));
    for (name, value) in &node.identity {
        if *name != "Schema" || shown.verbose {
            put(name, value.into());
        }
    }
    put("Device", text(node.device));
    if let Some(reason) = &node.reason {
        put("Reason", text(reason));
    }
    if shown.costs {
        let estimate = &node.estimate;
        put("Startup Cost", Json::number(estimate.startup_cost, 2));
        put("Total Cost", Json::number(estimate.total_cost, 2));
        put("Plan Rows", Json::number(estimate.rows.round(), 0));
        put("Plan Width", Json::Bare(estimate.width.to_string()));
    }
    if let Some(actual) = &node.actual {
        if shown.timing && !actual.fused {
            put("Actual Startup Time", Json::number(actual.startup_ms, 3));
            put("Actual Total Time", Json::number(actual.total_ms, 3));
        }
        put("Actual Rows", Json::Bare(actual.rows.to_string()));
        put("Actual Loops", Json::Bare(u8::from(actual.ran).to_string()));
    }
    if shown.verbose {
        put("Output", (&Value::List(node.output.clone())).into());
    }
    for (name, value) in &node.properties {
        put(name, value.into());
    }
    if let Some(actual) = node.actual.as_ref().filter(|actual| actual.ran) {
        for (name, value) in &actual.counts {
            put(name, value.into());
        }
        if shown.timing && !actual.phases.is_empty() {
            let phases = actual.phases.iter();
            let phases = phases.map(|(name, ms)| (name.clone(), Json::number(*ms, 3)));
            put("Phases", Json::Object(phases.collect()));
        }
    }
    if !node.inputs.is_empty() {
        let inputs = node.inputs.iter();
        let inputs = inputs.map(|(role, input)| Json::Object(plan(input, Some(*role), shown)));
        put("Plans", Json::Array(inputs.collect()));
    }
    members
}
