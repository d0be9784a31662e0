//! What the formats that tools read say: the members that PostgreSQL's tools look for, in its order.

use super::{ExplainNode, Role, Shown, Summary, Value};

/// What is told of the statement.
pub(crate) fn document(node: &ExplainNode, shown: &Shown, summary: &Summary) -> Members {
    let mut members = vec![("Plan".to_string(), Item::Object(plan(node, None, shown)))];
    if let Some(id) = summary.query_id {
        members.push(("Query Identifier".into(), Item::Bare(id.to_string())));
    }
    if let Some(time) = summary.planning_ms {
        members.push(("Planning Time".into(), Item::number(time, 3)));
    }
    if let Some(time) = summary.execution_ms {
        members.push(("Triggers".into(), Item::Array(Vec::new())));
        members.push(("Execution Time".into(), Item::number(time, 3)));
    }
    members
}

/// An object's members, in their order.
pub(crate) type Members = Vec<(String, Item)>;

/// A value to be written.
pub(crate) enum Item {
    Text(String),
    /// A number or a truth value, as it is written.
    Bare(String),
    Array(Vec<Item>),
    Object(Members),
}

impl Item {
    fn number(value: f64, decimals: usize) -> Self {
        Self::Bare(format!("{value:.decimals$}"))
    }
}

impl From<&Value> for Item {
    fn from(value: &Value) -> Self {
        match value {
            Value::Text(text) => Self::Text(text.clone()),
            Value::List(texts) => Self::Array(texts.iter().cloned().map(Self::Text).collect()),
            Value::Count(count) | Value::Bytes(count) => Self::Bare(count.to_string()),
        }
    }
}

fn plan(node: &ExplainNode, role: Option<Role>, shown: &Shown) -> Members {
    let mut members: Members = Vec::new();
    let mut put = |name: &str, value: Item| members.push((name.into(), value));
    let text = |text: &str| Item::Text(text.into());
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
            put("Subplan Name", Item::Text(format!("InitPlan {number}")));
        }
    }
    put("Parallel Aware", Item::Bare("false".into()));
    put("Async Capable", Item::Bare("false".into()));
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
        put("Startup Cost", Item::number(estimate.startup_cost, 2));
        put("Total Cost", Item::number(estimate.total_cost, 2));
        put("Plan Rows", Item::number(estimate.rows.round(), 0));
        put("Plan Width", Item::Bare(estimate.width.to_string()));
    }
    if let Some(actual) = &node.actual {
        if shown.timing && !actual.fused {
            put("Actual Startup Time", Item::number(actual.startup_ms, 3));
            put("Actual Total Time", Item::number(actual.total_ms, 3));
        }
        put("Actual Rows", Item::Bare(actual.rows.to_string()));
        put("Actual Loops", Item::Bare(u8::from(actual.ran).to_string()));
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
            let phases = phases.map(|(name, ms)| (name.clone(), Item::number(*ms, 3)));
            put("Phases", Item::Object(phases.collect()));
        }
    }
    if !node.inputs.is_empty() {
        let inputs = node.inputs.iter();
        let inputs = inputs.map(|(role, input)| Item::Object(plan(input, Some(*role), shown)));
        put("Plans", Item::Array(inputs.collect()));
    }
    members
}
