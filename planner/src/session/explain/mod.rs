//! What EXPLAIN shows: the physical plan in PostgreSQL's words.
//!
//! `describe` turns a plan into a tree of `ExplainNode`s; `text` writes it as PostgreSQL's EXPLAIN does, and so do `json`, `yaml`
//! and `xml` the members that `document` makes of it, so that people and explain visualisers can read it. A join shows its probe side first (PostgreSQL's outer input) and its build
//! side second (the inner one); a hash join's build phase is a `Hash` node of its own.

mod actual;
mod cost;
mod describe;
mod document;
mod expr;
mod foreign;
pub(crate) mod json;
pub(crate) mod text;
pub(crate) mod xml;
pub(crate) mod yaml;

pub(crate) use actual::Actual;
pub(crate) use describe::describe;
pub(crate) use document::document;

/// One node of the plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExplainNode {
    /// PostgreSQL's name of the operation: `Hash Join`, `Seq Scan`.
    pub kind: String,
    /// What text shows instead: `Hash Left Join`, `Seq Scan on orders`.
    pub title: String,
    /// What `title` says beyond `kind`, as a document's members.
    pub identity: Vec<(&'static str, Value)>,
    /// Conditions, keys, filters.
    pub properties: Vec<(String, Value)>,
    /// Names of the columns that the node gives.
    pub output: Vec<String>,
    /// Where it runs.
    pub device: &'static str,
    /// Why it runs there and by this operator.
    pub reason: Option<String>,
    pub estimate: Estimate,
    /// What EXPLAIN ANALYZE saw; None where the node keeps no account.
    pub actual: Option<Actual>,
    /// The address of the plan's node that this shows.
    pub address: usize,
    pub inputs: Vec<(Role, ExplainNode)>,
}

impl ExplainNode {
    /// Whether its rows stand in the plan itself.
    fn is_constant(&self) -> bool {
        self.inputs.is_empty() && matches!(self.kind.as_str(), "Values Scan" | "Result")
    }
}

/// What a node is to the one above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Outer,
    Inner,
    Member,
    /// A subquery that runs once, before the plan; its number from 1.
    InitPlan(usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    List(Vec<String>),
    Count(u64),
    Bytes(u64),
}

/// What the planner expects. Costs include the inputs'; the first is spent before the first row comes out. Their unit is
/// PostgreSQL's roughly: a hundredth for each row that is handled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimate {
    pub rows: f64,
    /// Bytes of an average row.
    pub width: usize,
    pub startup_cost: f64,
    pub total_cost: f64,
}

/// What is shown, apart from the plan itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub verbose: bool,
    pub costs: bool,
    pub timing: bool,
}

/// What is told of the whole statement; times in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub planning_ms: Option<f64>,
    /// The statement's number.
    pub query_id: Option<i64>,
    pub execution_ms: Option<f64>,
}
