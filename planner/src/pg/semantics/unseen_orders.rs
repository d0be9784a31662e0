//! A subquery's ORDER BY goes where nobody sees the order: below joins, aggregations that do not look at it, DISTINCT and
//! other sorts. Where somebody does, `optimizer::row_order` keeps it, and the columns that it reads are there
//! (`correlated::sort_keys`).

use super::correlated::sort_keys;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct DropUnseenOrders;

impl AnalyzerRule for DropUnseenOrders {
    fn name(&self) -> &str {
        "drop_unseen_orders"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(dropped(plan, true)?.data)
    }
}

/// The plan without sorts whose order nobody sees. `seen`: the order of its own rows is.
fn dropped(plan: LogicalPlan, seen: bool) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Sort(sort) if !seen && sort.fetch.is_none() => {
            let input = dropped(Arc::unwrap_or_clone(sort.input), false)?;
            return Ok(Transformed::yes(input.data));
        }
        LogicalPlan::Sort(sort) => sort_keys::with_columns(sort)?,
        plan => plan,
    };
    let below = match &plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Union(_) => seen,
        LogicalPlan::Sort(_) | LogicalPlan::Join(_) | LogicalPlan::Distinct(_) | LogicalPlan::Repartition(_) => false,
        LogicalPlan::Aggregate(aggregate) => sees_order(aggregate),
        _ => true,
    };
    let plan = plan.map_children(|child| dropped(child, below))?;
    plan.transform_data(|plan| plan.map_subqueries(|subquery| dropped(subquery, true)))
}

/// Whether some aggregate's result depends on the order in which rows come.
fn sees_order(aggregate: &Aggregate) -> bool {
    aggregate.aggr_expr.iter().any(|expr| match expr.clone().unalias() {
        Expr::AggregateFunction(call) => {
            call.params.order_by.is_empty()
                && !call.params.distinct
                && !matches!(call.func.order_sensitivity(), AggregateOrderSensitivity::Insensitive)
        }
        _ => true,
    })
}
