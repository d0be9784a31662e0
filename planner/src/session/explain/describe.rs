//! From physical nodes to what EXPLAIN shows of them.
//!
//! More than 400 lines because what a node shows depends on the nodes above and below it, which one walk knows.

use super::cost::{Work, estimate};
use super::expr::{sort_key, text};
use super::{Estimate, ExplainNode, Role, Value, actual, foreign};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::ColumnIndex;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use std::sync::Arc;
use tenon_executor::aggregate::GroupingSet;
use tenon_executor::explain::Chosen;
use tenon_executor::join::{IndexJoinExec, JoinExec};
use tenon_executor::node::ExecutorNode;
use tenon_executor::pipeline::{NodeRan, OffloadExec, Ran, address, chain};
use tenon_executor::scan::ScanExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan as EXPLAIN shows it; with `analyze`, with what its run left in its metrics.
pub(crate) fn describe(plan: &Plan, analyze: bool) -> ExplainNode {
    let describer = Describer {
        statistics: StatisticsContext::new(),
        analyze,
        qualified: scans(plan) > 1,
    };
    let mut node = describer.node(plan);
    if analyze && node.is_constant() {
        give_constant(&mut node);
    }
    node
}

struct Describer {
    statistics: StatisticsContext,
    analyze: bool,
    /// Whether columns are shown with their table, as PostgreSQL does where there are several.
    qualified: bool,
}

fn scans(plan: &Plan) -> usize {
    // An index join looks its inner side up itself.
    let own = matches!(
        ExecutorNode::of(plan.as_ref()),
        Some(ExecutorNode::Scan(_) | ExecutorNode::IndexJoin(_))
    );
    usize::from(own) + plan.children().into_iter().map(scans).sum::<usize>()
}

/// What a kind of node adds to the common part.
pub(super) struct Facts {
    pub node: ExplainNode,
    pub work: Work,
    /// What its compute time is spent on.
    phase: &'static str,
    /// Of DataFusion, whose counters only its developers can read.
    pub foreign: bool,
}

impl Facts {
    pub fn new(kind: &str, work: Work, output: Vec<String>) -> Self {
        let node = ExplainNode {
            kind: kind.into(),
            title: kind.into(),
            device: "cpu",
            output,
            ..ExplainNode::default()
        };
        Self {
            node,
            work,
            phase: "compute",
            foreign: false,
        }
    }

    pub fn property(mut self, label: &str, value: impl Into<Option<Value>>) -> Self {
        if let Some(value) = value.into() {
            self.node.properties.push((label.into(), value));
        }
        self
    }

    pub fn identity(mut self, label: &'static str, value: &str) -> Self {
        self.node.identity.push((label, Value::Text(value.into())));
        self
    }

    pub fn title(mut self, title: String) -> Self {
        self.node.title = title;
        self
    }

    pub fn phase(mut self, phase: &'static str) -> Self {
        self.phase = phase;
        self
    }
}

impl Describer {
    fn node(&self, plan: &Plan) -> ExplainNode {
        if let Some(input) = handed_on(plan) {
            let mut node = self.node(input);
            if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
                let exprs = projection.expr().iter();
                node.output = exprs.map(|e| text(&e.expr, &node.output)).collect();
            }
            if let Some(offload) = plan.downcast_ref::<OffloadExec>()
                && self.analyze
            {
                match offload.ran() {
                    Some(Ran::Device(above)) => {
                        fuse(by_host(&mut node, input, above), &offload.nodes());
                        node.actual = actual::of(plan.as_ref(), "compute");
                    }
                    Some(Ran::Host(Some(why))) => {
                        let why = Value::Text(format!("none: {why}"));
                        node.properties.push(("Fragment".into(), why));
                    }
                    _ => {}
                }
            }
            return node;
        }
        if let Some(subqueries) = plan.downcast_ref::<ScalarSubqueryExec>() {
            let mut main = self.node(subqueries.input());
            for (at, link) in subqueries.subqueries().iter().enumerate().rev() {
                main.inputs.insert(0, (Role::InitPlan(at + 1), self.node(&link.plan)));
            }
            return main;
        }
        let mut inputs: Vec<(Role, ExplainNode)> = inputs(plan)
            .into_iter()
            .map(|(role, input)| (role, self.node(input)))
            .collect();
        if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
            inputs.push((Role::Inner, self.looked_up(join)));
        }
        let names: Vec<&[String]> = inputs.iter().map(|(_, input)| input.output.as_slice()).collect();
        let facts = self.facts(plan, &names);
        let below: Vec<Estimate> = inputs.iter().map(|(_, input)| input.estimate).collect();
        let rows = self.rows(plan).unwrap_or_else(|| guess(&facts.work, &below)).max(1.0);
        let mut node = ExplainNode {
            estimate: estimate(facts.work, rows, width(&plan.schema()), &below),
            inputs,
            address: address(plan),
            ..facts.node
        };
        if self.analyze && node.is_constant() {
            let rows = self.rows(plan).unwrap_or(0.0) as usize;
            node.actual = Some(super::Actual {
                rows,
                ..Default::default()
            });
        } else if self.analyze {
            node.actual = actual::of(plan.as_ref(), facts.phase).or_else(|| actual::of_members(&node.inputs));
            if let Some(actual) = node.actual.as_mut().filter(|_| facts.foreign) {
                actual.counts.retain(|(_, value)| matches!(value, Value::Bytes(_)));
            }
        }
        if node.actual.as_ref().is_some_and(|actual| actual.ran) {
            let inputs = node.inputs.iter_mut().map(|(_, input)| input);
            inputs.filter(|input| input.is_constant()).for_each(give_constant);
        }
        if plan.downcast_ref::<IndexJoinExec>().is_some() {
            account_for_lookups(&mut node);
        }
        if facts.work == Work::HashJoin {
            show_hash_phase(&mut node);
        }
        if self.analyze {
            finish_account(&mut node, plan, facts.work);
        }
        node
    }

    /// The inner side of an index join: the scan that the index stands in for.
    fn looked_up(&self, join: &IndexJoinExec) -> ExplainNode {
        let (scan, index) = (join.inner(), &join.spec().index);
        let facts = of_scan(scan, true);
        let mut title = format!("Index Scan using {index} on {}", scan.table().name());
        if let Some(alias) = scan.alias().filter(|alias| *alias != scan.table().name()) {
            title = format!("{title} {alias}");
        }
        let mut node = ExplainNode {
            kind: "Index Scan".into(),
            title,
            estimate: estimate(Work::Stream, 1.0, width(&scan.schema()), &[]),
            ..facts.node
        };
        node.identity.insert(0, ("Index Name", Value::Text(index.clone())));
        node
    }

    fn rows(&self, plan: &Plan) -> Option<f64> {
        let statistics = self.statistics.compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
        statistics.num_rows.get_value().map(|rows| *rows as f64)
    }

    /// What the node says of itself; `names` are those of its inputs' columns.
    fn facts(&self, plan: &Plan, names: &[&[String]]) -> Facts {
        match ExecutorNode::of(plan.as_ref()) {
            Some(ExecutorNode::Scan(scan)) => return of_scan(scan, self.qualified),
            Some(ExecutorNode::Join(join)) => return of_join(join, names),
            Some(ExecutorNode::IndexJoin(join)) => return of_index_join(join, names),
            Some(ExecutorNode::Group(group)) => {
                let spec = group.spec();
                let keys = spec.keys.iter().map(|(key, _)| text(key, first(names)));
                let keys: Vec<String> = keys.collect();
                let sets = spec.sets.iter().map(|set| grouping_set(&keys, set));
                let sets: Vec<String> = sets.collect();
                let mut facts = aggregate("", keys, spec.aggregates.as_slice(), names).phase("merge");
                if !sets.is_empty() {
                    facts.node.output = spec.schema.fields().iter().map(|field| field.name().clone()).collect();
                    facts = facts.property("Grouping Sets", Value::List(sets));
                }
                return facts;
            }
            Some(ExecutorNode::GroupTop(own)) => {
                let (top, input) = (own.top(), first(names));
                return Facts::new("Group Top", Work::Stream, input.to_vec())
                    .property("Group Key", list(top.keys.iter().map(|key| text(key, input))))
                    .property("Sort Key", list([sort_key(&top.order, input)]))
                    .property("Rows", Value::Count(top.rows as u64));
            }
            // As DataFusion's, which computes it; and what is offloaded is shown by its input.
            Some(ExecutorNode::Window(_) | ExecutorNode::Offload(_)) | None => {}
        }
        Facts {
            foreign: true,
            ..foreign::facts(plan, names)
        }
    }
}

/// The uppermost node of a fragment above which the host did so many nodes of the plan.
fn by_host<'n>(mut node: &'n mut ExplainNode, plan: &Plan, above: usize) -> &'n mut ExplainNode {
    let shown = |plan: &&Plan| handed_on(plan).is_none();
    let nodes = chain(plan).into_iter().take(above).filter(shown).count();
    for _ in 0..nodes {
        node.actual = None;
        node = &mut node.inputs[0].1;
    }
    node.actual = None;
    node
}

/// A node that ran on the device with all nodes below it, of which these had their rows counted.
fn fuse(node: &mut ExplainNode, ran: &[NodeRan]) {
    node.device = "gpu";
    for (_, input) in &mut node.inputs {
        fuse(input, ran);
    }
    let own = ran.iter().find(|own| own.node == node.address);
    if own.is_some_and(|own| own.given) {
        by_cpu(node);
    }
    node.actual = match (own, node.inputs.as_slice()) {
        (Some(own), _) => Some(actual::fused(own)),
        // The build side of a hash join, which is no node of the plan.
        (None, [(_, input)]) if node.address == 0 => input.actual.clone().map(|actual| super::Actual {
            counts: vec![],
            ..actual
        }),
        _ => None,
    };
}

/// A node whose rows the CPU made for the device, by a copy of these nodes.
fn by_cpu(node: &mut ExplainNode) {
    node.device = "cpu";
    node.actual = None;
    node.inputs.iter_mut().for_each(|(_, input)| by_cpu(input));
}

/// The nodes below, the streaming side of a join first.
fn inputs(plan: &Plan) -> Vec<(Role, &Plan)> {
    if let Some(join) = plan.downcast_ref::<JoinExec>() {
        return vec![(Role::Outer, join.probe()), (Role::Inner, join.build())];
    }
    let children = plan.children();
    match children.as_slice() {
        [build, probe] if foreign::is_join(plan) => vec![(Role::Outer, *probe), (Role::Inner, *build)],
        [initial, recursive] if plan.downcast_ref::<RecursiveQueryExec>().is_some() => {
            vec![(Role::Outer, *initial), (Role::Inner, *recursive)]
        }
        [input] => vec![(Role::Outer, *input)],
        _ => children.iter().map(|input| (Role::Member, *input)).collect(),
    }
}

/// The input of a node that only hands batches on, or picks columns: not worth a line.
fn handed_on(plan: &Plan) -> Option<&Plan> {
    let children = plan.children();
    let [input] = children.as_slice() else { return None };
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let picks = projection
            .expr()
            .iter()
            .all(|e| e.expr.downcast_ref::<Column>().is_some() || e.expr.downcast_ref::<Literal>().is_some());
        return picks.then_some(*input);
    }
    matches!(
        plan.name(),
        "CompactExec"
            | "CooperativeExec"
            | "OffloadExec"
            | "PiecesExec"
            | "UnorderedExec"
            | "CoalesceBatchesExec"
            | "BufferExec"
            | "OutputRequirementExec"
    )
    .then_some(*input)
}

/// Rows where nothing is known of a node itself.
fn guess(work: &Work, inputs: &[Estimate]) -> f64 {
    let rows = |at: usize| inputs.get(at).map_or(1.0, |input| input.rows);
    match work {
        Work::Loop => rows(0) * rows(1) * crate::optimizer::estimate::UNKNOWN,
        Work::HashJoin => rows(0).max(rows(1)),
        _ => inputs.iter().map(|input| input.rows).fold(1.0, f64::max),
    }
    .max(1.0)
}

/// Bytes of an average row, as PostgreSQL guesses them from types.
fn width(schema: &Schema) -> usize {
    let of = |data_type: &DataType| data_type.primitive_width().unwrap_or(32);
    schema.fields().iter().map(|field| of(field.data_type())).sum()
}

/// Rows that stand in the plan itself are there for whatever runs above them, and keep no account.
fn give_constant(node: &mut ExplainNode) {
    if let Some(actual) = &mut node.actual {
        actual.ran = true;
    }
}

/// Gives the inner side of an index join its account: all lookups together.
fn account_for_lookups(join: &mut ExplainNode) {
    let Some(actual) = &mut join.actual else { return };
    let rows = actual.take_count("Rows Looked Up").unwrap_or(0);
    if let Some((_, looked_up)) = join.inputs.last_mut() {
        looked_up.actual = Some(super::Actual {
            rows: rows as usize,
            total_ms: actual.total_ms,
            ran: actual.ran,
            ..Default::default()
        });
    }
}

/// Forms of a hash join's table, as its metrics name them.
const TABLE_FORMS: [&str; 2] = ["Array", "Hash"];

/// Gives the build side of a hash join a node of its own, with the account of the build phase.
fn show_hash_phase(join: &mut ExplainNode) {
    let Some(at) = join.inputs.iter().position(|(role, _)| *role == Role::Inner) else {
        return;
    };
    let (_, input) = join.inputs.remove(at);
    let mut hash = ExplainNode {
        kind: "Hash".into(),
        title: "Hash".into(),
        device: join.device,
        output: input.output.clone(),
        estimate: Estimate {
            startup_cost: input.estimate.total_cost,
            ..input.estimate
        },
        ..ExplainNode::default()
    };
    if let Some(actual) = &mut join.actual {
        let built = actual.take_count("Build Rows");
        let time = actual.take_phase("build");
        for form in TABLE_FORMS {
            if let Some(bytes) = actual.take_count(form) {
                let form = Value::Text(form.to_lowercase());
                hash.properties
                    .extend([("Table".into(), form), ("Memory Usage".into(), Value::Bytes(bytes))]);
            }
        }
        hash.actual = Some(super::Actual {
            rows: built.unwrap_or(0) as usize,
            startup_ms: time.unwrap_or(0.0),
            total_ms: time.unwrap_or(0.0),
            ran: built.is_some() || time.is_some_and(|time| time > 0.0),
            ..Default::default()
        });
    }
    hash.inputs.push((Role::Outer, input));
    join.inputs.insert(at, (Role::Inner, hash));
}

/// The first row's time, and rows that filters removed.
fn finish_account(node: &mut ExplainNode, plan: &Plan, work: Work) {
    let startup = |role: Role| {
        let input = node.inputs.iter().find(|(own, _)| *own == role);
        input.and_then(|(_, input)| input.actual.as_ref())
    };
    let startup_ms = match work {
        Work::Hash | Work::Sort => startup(Role::Outer).map(|input| input.total_ms),
        Work::HashJoin => startup(Role::Inner).map(|input| input.total_ms),
        _ => startup(Role::Outer).map(|input| input.startup_ms),
    };
    let Some(actual) = &mut node.actual else { return };
    actual.startup_ms = startup_ms.unwrap_or(0.0).min(actual.total_ms);
    if let Some(scan) = plan.downcast_ref::<ScanExec>()
        && actual.ran
        && scan.limit().is_none()
        && !scan.is_below_top()
    {
        let filtered = scan.conjuncts().next().is_some() || scan.runtime_filters().next().is_some();
        let removed = scan.table().rows().saturating_sub(actual.rows as u64);
        if filtered {
            let removed = Value::Count(removed);
            actual.counts.insert(0, ("Rows Removed by Filter".into(), removed));
        }
    }
}

/// Names of the first input's columns.
pub(super) fn first<'a>(names: &[&'a [String]]) -> &'a [String] {
    names.first().copied().unwrap_or_default()
}

pub(super) fn list(texts: impl IntoIterator<Item = String>) -> Option<Value> {
    let texts: Vec<String> = texts.into_iter().collect();
    (!texts.is_empty()).then_some(Value::List(texts))
}

pub(super) fn conjunction(texts: impl Iterator<Item = String>) -> Option<Value> {
    let texts: Vec<String> = texts.collect();
    match texts.len() {
        0 => None,
        1 => texts.into_iter().next().map(Value::Text),
        _ => Some(Value::Text(format!("({})", texts.join(" AND ")))),
    }
}

/// The names that a join's output or filter takes its columns from; `names` are the probe side's, then the build side's.
pub(super) fn picked(columns: &[ColumnIndex], names: &[&[String]]) -> Vec<String> {
    let side = |side: JoinSide| match side {
        JoinSide::Left => names.get(1).copied(),
        JoinSide::Right => names.first().copied(),
        JoinSide::None => None,
    };
    let name = |column: &ColumnIndex| side(column.side).and_then(|names| names.get(column.index)).cloned();
    columns
        .iter()
        .map(|column| name(column).unwrap_or_else(|| "mark".into()))
        .collect()
}

fn of_scan(scan: &ScanExec, qualified: bool) -> Facts {
    let table = scan.table();
    // An index gives the rows that it holds and no others.
    let index = scan.found_by();
    let rows = index.as_ref().map_or(table.rows() as f64, |_| 0.0);
    let alias = scan.alias().unwrap_or(table.name());
    let name = |column: &str| {
        if qualified {
            format!("{alias}.{column}")
        } else {
            column.to_string()
        }
    };
    let (kind, mut title) = match &index {
        Some((index, _)) => ("Index Scan", format!("Index Scan using {index} on {}", table.name())),
        None => ("Seq Scan", format!("Seq Scan on {}", table.name())),
    };
    if alias != table.name() {
        title = format!("{title} {alias}");
    }
    let output = scan.schema().fields().iter().map(|field| name(field.name())).collect();
    let columns: Vec<String> = table.schema().fields().iter().map(|field| name(field.name())).collect();
    let filters = scan.conjuncts().map(|(filter, read)| {
        let names: Vec<String> = read
            .iter()
            .map(|&at| columns.get(at).cloned().unwrap_or_default())
            .collect();
        text(filter, &names)
    });
    let mut runtime: Vec<&str> = Vec::new();
    for column in scan.runtime_filters() {
        if !runtime.contains(&column) {
            runtime.push(column);
        }
    }
    let facts = Facts::new(kind, Work::Scan { rows }, output).title(title);
    let facts = match &index {
        Some((index, backward)) => facts
            .identity("Scan Direction", if *backward { "Backward" } else { "Forward" })
            .identity("Index Name", index),
        None => facts,
    };
    facts
        .identity("Relation Name", table.name())
        .identity("Schema", &table.definition().schema_name)
        .identity("Alias", alias)
        .phase("read")
        .property("Filter", conjunction(filters))
        .property("Runtime Filter", list(runtime.into_iter().map(name)))
        .property("Limit", scan.limit().map(|rows| Value::Count(rows as u64)))
}

fn of_join(join: &JoinExec, names: &[&[String]]) -> Facts {
    let spec = join.spec();
    let operator = join.operator();
    let work = match operator {
        "Nested Loop" => Work::Loop,
        "Merge" => Work::Sort,
        _ => Work::HashJoin,
    };
    let (probe, build) = (first(names), names.get(1).copied().unwrap_or_default());
    let keys = spec.probe_keys.iter().zip(&spec.build_keys);
    let keys = conjunction(keys.map(|(p, b)| format!("({} = {})", text(p, probe), text(b, build))));
    let filter = spec.filter.as_ref().map(|filter| {
        let names = picked(filter.column_indices(), names);
        Value::Text(text(filter.expression(), &names))
    });
    let filtering = list(join.filtering_keys().map(|key| text(key, probe)));
    let mut facts = join_facts(operator, spec.join_type, work, picked(&spec.output, names))
        .property(&format!("{operator} Cond"), keys)
        .property("Join Filter", filter)
        .property("Filters Scan By", filtering)
        .phase("probe");
    facts.node.device = join.device();
    facts.node.reason = join.reason();
    facts
}

/// A join that looks each outer row up in an index of its inner side.
fn of_index_join(join: &IndexJoinExec, names: &[&[String]]) -> Facts {
    let spec = join.spec();
    let outer = first(names);
    // `picked` takes the names of the right side first.
    let (sides, join_type) = match spec.outer_side {
        JoinSide::Left => (
            [names.get(1).copied().unwrap_or_default(), outer],
            spec.join_type.swap(),
        ),
        _ => ([outer, names.get(1).copied().unwrap_or_default()], spec.join_type),
    };
    let lookup = &spec.lookup;
    let equal = lookup.equal.iter().map(|e| format!("= {}", text(e, outer)));
    let low = lookup.low.iter().map(|e| format!(">= {}", text(e, outer)));
    let high = lookup.high.iter().map(|e| format!("<= {}", text(e, outer)));
    let inner = sides[usize::from(spec.outer_side != JoinSide::Left)];
    let also = spec.also_equal.iter().map(|(e, column)| {
        let column = inner.get(*column).cloned().unwrap_or_default();
        format!("({} = {column})", text(e, outer))
    });
    let filter = spec.filter.as_ref().map(|filter| {
        let names = picked(filter.column_indices(), &sides);
        Value::Text(text(filter.expression(), &names))
    });
    let mut facts = join_facts("Nested Loop", join_type, Work::Stream, picked(&spec.output, &sides))
        .property("Index Lookup", list(equal.chain(low).chain(high)))
        .property("Also Equal", conjunction(also))
        .property("Join Filter", filter)
        .phase("join");
    facts.node.reason = join.reason();
    facts
}

/// A join by PostgreSQL's name: there the outer input is the one that streams, here the probe side.
pub(super) fn join_facts(operator: &str, join_type: JoinType, work: Work, output: Vec<String>) -> Facts {
    let word = match join_type {
        JoinType::Inner => "Inner",
        JoinType::Left => "Right",
        JoinType::Right => "Left",
        JoinType::Full => "Full",
        JoinType::LeftSemi => "Right Semi",
        JoinType::RightSemi => "Semi",
        JoinType::LeftAnti => "Right Anti",
        JoinType::RightAnti => "Anti",
        JoinType::LeftMark => "Right Mark",
        JoinType::RightMark => "Mark",
    };
    let kind = match operator {
        "Nested Loop" => operator.to_string(),
        _ => format!("{operator} Join"),
    };
    let title = match word {
        "Inner" => kind.clone(),
        _ => format!("{operator} {word} Join"),
    };
    Facts::new(&kind, work, output).title(title).identity("Join Type", word)
}

/// Those of the keys by which a set groups.
fn grouping_set(keys: &[String], set: &GroupingSet) -> String {
    let own = keys.iter().zip(&set.has).filter(|(_, has)| **has);
    let own: Vec<&str> = own.map(|(key, _)| key.as_str()).collect();
    format!("({})", own.join(", "))
}

/// An aggregation; `mode` is empty where it is done in one step.
pub(super) fn aggregate(
    mode: &str,
    keys: Vec<String>,
    functions: &[Arc<AggregateFunctionExpr>],
    names: &[&[String]],
) -> Facts {
    let (strategy, name) = match keys.is_empty() {
        false => ("Hashed", "HashAggregate"),
        true => ("Plain", "Aggregate"),
    };
    let title = if mode.is_empty() {
        name.to_string()
    } else {
        format!("{mode} {name}")
    };
    let partial_mode = if mode.is_empty() { "Simple" } else { mode };
    let calls = functions.iter().map(|function| {
        let arguments: Vec<String> = function.expressions().iter().map(|e| text(e, first(names))).collect();
        let distinct = if function.is_distinct() { "DISTINCT " } else { "" };
        match (function.fun().name(), arguments.as_slice()) {
            ("count", [one]) if one == "1" => "count(*)".to_string(),
            (name, arguments) => format!("{name}({distinct}{})", arguments.join(", ")),
        }
    });
    let calls: Vec<String> = calls.collect();
    let output = keys.iter().chain(&calls).cloned().collect();
    Facts::new("Aggregate", Work::Hash, output)
        .title(title)
        .identity("Strategy", strategy)
        .identity("Partial Mode", partial_mode)
        .property("Group Key", list(keys))
        .property("Aggregates", list(calls))
}
