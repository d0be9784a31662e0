//! Rows stay in the order of a subquery's ORDER BY where somebody sees it: the client, LIMIT, a window function without
//! an order of its own, aggregates such as `array_agg`, and sequences. DataFusion takes such orders for nobody's and spreads
//! the rows over all cores. A sequence's values go to a table's rows in the table's order too.
//!
//! Before requirements are enforced, the nodes between who sees the order and its source are folded into one node
//! (`InOrder`) that asks for one sorted stream and lets nothing come between; afterwards they are unfolded. Joins,
//! aggregations and set operations give rows in no order, as in PostgreSQL; UNION ALL gives one input after the other
//! (`AppendExec`).

mod append;
mod fold;

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::sort_expr::OrderingRequirements;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, WindowExpr};
use tenon_executor::aggregate::GroupExec;
use tenon_executor::scan::ScanExec;

use crate::pg::functions::sequence;
use crate::pg::nodes::ProjectSetExec;

pub(crate) use append::{AppendExec, appended};
use fold::{InOrder, rebased};

type Plan = Arc<dyn ExecutionPlan>;

/// Folds what carries an order that somebody sees.
#[derive(Debug)]
pub struct FoldOrders;

impl PhysicalOptimizerRule for FoldOrders {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        // A sort at the top is seen to by DataFusion.
        let is_sort = plan.is::<SortExec>();
        kept(plan, !is_sort)
    }

    fn name(&self) -> &str {
        "fold_orders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Puts what was folded in its place again.
#[derive(Debug)]
pub struct UnfoldOrders;

impl PhysicalOptimizerRule for UnfoldOrders {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| match node.downcast_ref::<InOrder>() {
            Some(folded) => Ok(Transformed::yes(folded.unfolded()?)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "unfold_orders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with every order kept that somebody in it sees. `seen`: the order of its own rows is.
fn kept(plan: Plan, seen: bool) -> Result<Plan> {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && *aggregate.mode() == AggregateMode::Partial
        && sees_order(aggregate.aggr_expr())
    {
        // The step that sees the rows is itself kept from being spread.
        return fold(plan, true);
    }
    if seen && (plan.is::<SortExec>() || is_window(&plan)) {
        return fold(plan, false);
    }
    let sees = seen && passes_on(&plan) || sees_input_order(&plan);
    if sees && carries(&plan) {
        return fold(plan, false);
    }
    if seen && let Some(union) = plan.downcast_ref::<UnionExec>() {
        let inputs = union.inputs().iter().cloned();
        let inputs = inputs.map(|input| kept(input, true)).collect::<Result<Vec<_>>>()?;
        return Ok(Arc::new(AppendExec::new(inputs, union.schema())));
    }
    over_kept(plan, sees)
}

/// The same node over what is kept below it. `sees`: the order of its first input is seen.
fn over_kept(plan: Plan, sees: bool) -> Result<Plan> {
    let old: Vec<Plan> = plan.children().into_iter().cloned().collect();
    let new = old.iter().enumerate();
    let new: Vec<Plan> = new
        .map(|(at, child)| kept(Arc::clone(child), at == 0 && sees))
        .collect::<Result<_>>()?;
    if old.iter().zip(&new).all(|(a, b)| Arc::ptr_eq(a, b)) {
        return Ok(plan);
    }
    plan.replace_children(new, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// `top` and the nodes that carry its rows' order from their source, as one node, if there is such a source. `sees`: `top`
/// itself carries no order, but sees that of its input.
fn fold(top: Plan, sees: bool) -> Result<Plan> {
    let (mut depth, mut node) = below(&top, sees, carries);
    let mut ordering = order_of(&node);
    if !windows_hold(&top, depth, &node, ordering.as_ref())? {
        // The rows come in another order than a window on the way asks for: it is where their order begins.
        (depth, node) = below(&top, sees, |node| carries(node) && !asks_for_order(node));
        ordering = order_of(&node);
    }
    if ordering.is_some() || is_window(&node) {
        let source = over_kept(node, false)?;
        return Ok(Arc::new(InOrder::new(top, depth, source, ordering)?));
    }
    let source = kept(node, true)?;
    if let Some(scan) = source.downcast_ref::<ScanExec>()
        && path(&top, depth).any(takes_numbers)
    {
        let scan: Plan = Arc::new(scan.clone().in_order());
        return Ok(Arc::new(InOrder::new(top, depth, scan, None)?));
    }
    match is_source(&source) {
        true => Ok(Arc::new(InOrder::new(top, depth, source, None)?)),
        false => rebased(&top, depth, source),
    }
}

/// How many nodes carry the order of `top`'s rows, and what is below them.
fn below(top: &Plan, sees: bool, carries: impl Fn(&Plan) -> bool) -> (usize, Plan) {
    let (mut depth, mut node) = (0, Arc::clone(top));
    while depth == 0 && sees || carries(&node) {
        node = Arc::clone(node.children()[0]);
        depth += 1;
    }
    (depth, node)
}

/// The `depth` uppermost nodes.
fn path(top: &Plan, depth: usize) -> impl Iterator<Item = &Plan> {
    std::iter::successors(Some(top), |node| node.children().into_iter().next()).take(depth)
}

/// The order that a source gives its rows.
fn order_of(source: &Plan) -> Option<LexOrdering> {
    match source.downcast_ref::<SortExec>() {
        Some(sort) => Some(sort.expr().clone()),
        None => order_of_window(source),
    }
}

/// Whether the window functions among the `depth` uppermost nodes of `top` get the order that they ask for where `source`
/// gives this one. They may have it now from a scan, whose order the source changes.
fn windows_hold(top: &Plan, depth: usize, source: &Plan, ordering: Option<&LexOrdering>) -> Result<bool> {
    let asking = |top: &Plan, holds: fn(&Plan) -> bool| {
        let mut node = top;
        (0..depth).all(|_| {
            let held = !asks_for_order(node) || holds(node);
            node = node.children()[0];
            held
        })
    };
    if asking(top, |_| false) {
        return Ok(true);
    }
    let Some(ordering) = ordering else { return Ok(false) };
    let sorted = SortExec::new(ordering.clone(), Arc::clone(source));
    Ok(asking(&rebased(top, depth, Arc::new(sorted))?, is_ready_window))
}

/// Nodes with one input that put out its rows in their order, and are parallel or not as one likes.
fn carries(plan: &Plan) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<UnnestExec>()
        || plan.is::<ProjectSetExec>()
        || is_ready_window(plan)
}

fn window_exprs(plan: &Plan) -> Option<&[Arc<dyn WindowExpr>]> {
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return Some(window.window_expr());
    }
    plan.downcast_ref::<BoundedWindowAggExec>()
        .map(|window| window.window_expr())
}

fn is_window(plan: &Plan) -> bool {
    window_exprs(plan).is_some()
}

/// Window functions over rows in an order.
fn asks_for_order(plan: &Plan) -> bool {
    is_window(plan) && plan.required_input_ordering().iter().any(Option::is_some)
}

/// Window functions that take the rows as they come: all of them, or in an order that they have already.
fn is_ready_window(plan: &Plan) -> bool {
    let satisfied = |required: Option<OrderingRequirements>| match required {
        None => true,
        Some(required) => {
            let input = plan.children()[0];
            let known = input.equivalence_properties();
            input.output_partitioning().partition_count() == 1
                && known
                    .ordering_satisfy_requirement(required.into_single())
                    .unwrap_or(false)
        }
    };
    is_window(plan) && plan.required_input_ordering().into_iter().all(satisfied)
}

/// The order in which rows come from window functions: by what they partition and order by.
fn order_of_window(plan: &Plan) -> Option<LexOrdering> {
    let first = window_exprs(plan)?.first()?;
    let ascending = SortOptions::new(false, false);
    let partitions = first.partition_by().iter();
    let keys = partitions.map(|key| PhysicalSortExpr::new(Arc::clone(key), ascending));
    LexOrdering::new(keys.chain(first.order_by().iter().cloned()))
}

/// Nodes that see the order of their input, whoever sees theirs.
fn sees_input_order(plan: &Plan) -> bool {
    if let Some(group) = plan.downcast_ref::<GroupExec>() {
        return sees_order(&group.spec().aggregates);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return *aggregate.mode() != AggregateMode::Partial && sees_order(aggregate.aggr_expr());
    }
    plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>() || is_ready_window(plan) || takes_numbers(plan)
}

/// Whether a projection or filter calls functions of sequences.
fn takes_numbers(plan: &Plan) -> bool {
    let calls = |expr: &Arc<dyn PhysicalExpr>| {
        let function = expr.downcast_ref::<ScalarFunctionExpr>();
        function.is_some_and(|function| sequence::is_one(function.fun()))
    };
    let within = |expr: &Arc<dyn PhysicalExpr>| expr.exists(|expr| Ok(calls(expr))).is_ok_and(|called| called);
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return projection.expr().iter().any(|column| within(&column.expr));
    }
    plan.downcast_ref::<FilterExec>()
        .is_some_and(|filter| within(filter.predicate()))
}

/// Whether an aggregate's result depends on the order in which rows come.
fn sees_order(aggregates: &[Arc<AggregateFunctionExpr>]) -> bool {
    aggregates.iter().any(|aggregate| {
        aggregate.order_bys().is_empty()
            && !aggregate.is_distinct()
            && !matches!(
                aggregate.fun().order_sensitivity(),
                AggregateOrderSensitivity::Insensitive
            )
    })
}

/// Nodes whose rows come in the order of their first input's.
fn passes_on(plan: &Plan) -> bool {
    carries(plan) || plan.is::<ScalarSubqueryExec>()
}

/// Whether a plan gives its rows in an order that clients expect, though no sort says so.
fn is_source(plan: &Plan) -> bool {
    let in_memory = plan
        .downcast_ref::<DataSourceExec>()
        .is_some_and(|source| source.data_source().is::<MemorySourceConfig>());
    let known = in_memory || plan.is::<RecursiveQueryExec>() || plan.is::<LazyMemoryExec>();
    // What functions in FROM make of no rows at all.
    let known = known || plan.is::<PlaceholderRowExec>();
    plan.is::<AppendExec>() || known && plan.output_partitioning().partition_count() == 1
}
