//! Filters that keep the first rows of each partition of a window, by `row_number`, `rank` or `dense_rank`: what cannot be
//! among them goes before the rows are spread and sorted ([`GroupTopExec`]).
//!
//! The filter stays. The window's functions see fewer rows, so each must depend on none behind its own and those beside it in
//! the order.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Operator, WindowFrameBound};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, StandardWindowExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, WindowExpr};
use std::sync::Arc;
use tenon_executor::group_top::{GroupTop, GroupTopExec};
use tenon_executor::options::PlanOptions;
use tenon_executor::window::WindowExec;

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub struct TopsOfGroups;

impl PhysicalOptimizerRule for TopsOfGroups {
    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> Result<Plan> {
        // Where a query goes through files, so do all its rows: groups would take of the memory that its sorts share.
        if options.extensions.get::<PlanOptions>().is_some_and(|plan| plan.spill) {
            return Ok(plan);
        }
        plan.transform_down(|node| {
            let Some(filter) = node.downcast_ref::<FilterExec>() else {
                return Ok(Transformed::no(node));
            };
            for (column, rows) in bounds(filter) {
                if let Some(input) = with_top(filter.input(), column, rows)? {
                    return Ok(Transformed::yes(with_input(&node, input)?));
                }
            }
            Ok(Transformed::no(node))
        })
        .data()
    }

    fn name(&self) -> &str {
        "tops_of_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn with_input(node: &Plan, input: Plan) -> Result<Plan> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(node).replace_children(vec![input], options)
}

/// Columns that a filter bounds from above by a whole number, and that number.
fn bounds(filter: &FilterExec) -> Vec<(usize, usize)> {
    let conjuncts = split_conjunction(filter.predicate()).into_iter();
    conjuncts.filter_map(bound).collect()
}

fn bound(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, usize)> {
    let comparison = condition.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (comparison.left(), comparison.right());
    let (column, op, literal) = match column(left) {
        Some(column) => (column, *comparison.op(), right),
        None => (column(right)?, comparison.op().swap()?, left),
    };
    let whole = literal.downcast_ref::<Literal>()?.value();
    let ScalarValue::Int64(Some(whole)) = whole.cast_to(&arrow::datatypes::DataType::Int64).ok()? else {
        return None;
    };
    let last = match op {
        Operator::Eq | Operator::LtEq => whole,
        Operator::Lt => whole.checked_sub(1)?,
        _ => return None,
    };
    // Of none, one is as good.
    Some((column, usize::try_from(last.max(1)).ok()?))
}

/// The column that an expression is, whatever whole numbers of it are called.
fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    if let Some(cast) = expr
        .downcast_ref::<CastExpr>()
        .filter(|cast| cast.cast_type().is_integer())
    {
        return column(cast.expr());
    }
    expr.downcast_ref::<Column>().map(Column::index)
}

/// The plan with a node below that drops rows by which the column passes `rows`; None where it is no rank of a window.
fn with_top(plan: &Plan, at: usize, rows: usize) -> Result<Option<Plan>> {
    if let Some(exprs) = window(plan) {
        let &[input] = plan.children().as_slice() else {
            return Ok(None);
        };
        let ranking = at
            .checked_sub(input.schema().fields().len())
            .and_then(|at| exprs.get(at));
        let Some(top) = ranking.and_then(|ranking| top(ranking, exprs, rows)) else {
            return Ok(None);
        };
        return match below_sorts(input, top, false)? {
            Some(input) => Ok(Some(with_input(plan, input)?)),
            None => Ok(None),
        };
    }
    let &[input] = plan.children().as_slice() else {
        return Ok(None);
    };
    let at = match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => projection.expr().get(at).and_then(|own| column(&own.expr)),
        None if hands_on(plan) => Some(at),
        None => None,
    };
    let Some(at) = at else { return Ok(None) };
    match with_top(input, at, rows)? {
        Some(input) => Ok(Some(with_input(plan, input)?)),
        None => Ok(None),
    }
}

fn window(plan: &Plan) -> Option<&[Arc<dyn WindowExpr>]> {
    if let Some(window) = plan.downcast_ref::<WindowExec>() {
        return Some(window.window_expr());
    }
    plan.downcast_ref::<BoundedWindowAggExec>()
        .map(BoundedWindowAggExec::window_expr)
}

/// Whether a node gives all rows of its input, and each as it came.
fn hands_on(plan: &Plan) -> bool {
    const NAMES: [&str; 4] = [
        "CoalescePartitionsExec",
        "CooperativeExec",
        "PiecesExec",
        "SortPreservingMergeExec",
    ];
    let keeps_all = plan.fetch().is_none();
    keeps_all && (NAMES.contains(&plan.name()) || plan.is::<SortExec>() || plan.is::<RepartitionExec>())
}

/// What is wanted of the input of a window whose functions are `exprs`, if the rows up to a rank are.
fn top(ranking: &Arc<dyn WindowExpr>, exprs: &[Arc<dyn WindowExpr>], rows: usize) -> Option<GroupTop> {
    let (keys, order) = (ranking.partition_by(), ranking.order_by());
    let is_alike = |expr: &Arc<dyn WindowExpr>| expr.partition_by() == keys && expr.order_by() == order;
    let is_rank = matches!(function(ranking), Some("row_number" | "rank"));
    if !is_rank || !exprs.iter().all(|expr| is_alike(expr) && looks_back(expr)) {
        return None;
    }
    let order = order.first().cloned()?;
    // Of those that are evaluated once more, the values would be others.
    if keys.iter().chain([&order.expr]).any(is_volatile) {
        return None;
    }
    Some(GroupTop {
        keys: keys.to_vec(),
        order,
        rows,
    })
}

fn function(expr: &Arc<dyn WindowExpr>) -> Option<&str> {
    let standard = expr.as_any().downcast_ref::<StandardWindowExpr>()?;
    let function = standard
        .get_standard_func_expr()
        .as_any()
        .downcast_ref::<WindowUDFExpr>()?;
    Some(function.fun().name())
}

/// Whether a function's values depend on no rows behind their own and its peers.
fn looks_back(expr: &Arc<dyn WindowExpr>) -> bool {
    let frame = expr.get_window_frame();
    match function(expr) {
        Some(name) => matches!(name, "row_number" | "rank" | "dense_rank"),
        None => {
            expr.as_any().is::<PlainAggregateWindowExpr>()
                && frame.start_bound.is_unbounded()
                && matches!(frame.end_bound, WindowFrameBound::CurrentRow)
        }
    }
}

/// The plan with the node below its sorts and where rows are spread for them; None where nothing is sorted.
fn below_sorts(plan: &Plan, top: GroupTop, sorted: bool) -> Result<Option<Plan>> {
    if let (true, &[input]) = (hands_on(plan), plan.children().as_slice()) {
        return match below_sorts(input, top, sorted || plan.is::<SortExec>())? {
            Some(input) => Ok(Some(with_input(plan, input)?)),
            None => Ok(None),
        };
    }
    if !sorted {
        return Ok(None);
    }
    let node = GroupTopExec::try_new(Arc::clone(plan), top)?;
    Ok(node.map(|node| Arc::new(node) as Plan))
}
