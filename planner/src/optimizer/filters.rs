//! DataFusion's rule that pushes filters down, where it is right.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `PushDownFilter` (DataFusion 55.2) takes a condition without columns, such as a scalar subquery, below every
/// aggregation. One over all rows, and a grouping set without keys, make a row of none: there such conditions stay above.
/// Volatile ones stay above every aggregation.
#[derive(Debug, Default)]
pub struct PushDownFilterToGroups(PushDownFilter);

impl OptimizerRule for PushDownFilterToGroups {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(mut filter) = plan else {
            return self.0.rewrite(plan, config);
        };
        let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref() else {
            return self.0.rewrite(LogicalPlan::Filter(filter), config);
        };
        let (stay, go): (Vec<Expr>, Vec<Expr>) = split_conjunction_owned(filter.predicate.clone())
            .into_iter()
            .partition(|condition| stays_above(condition, aggregate));
        let Some(stay) = conjunction(stay) else {
            return self.0.rewrite(LogicalPlan::Filter(filter), config);
        };
        let Some(go) = conjunction(go) else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        filter.predicate = go;
        self.0
            .rewrite(LogicalPlan::Filter(filter), config)?
            .map_data(|input| Ok(LogicalPlan::Filter(Filter::try_new(stay, input.into())?)))
    }
}

fn stays_above(condition: &Expr, aggregate: &Aggregate) -> bool {
    let grouping_sets = || {
        aggregate
            .group_expr
            .iter()
            .any(|key| matches!(key, Expr::GroupingSet(_)))
    };
    condition.is_volatile()
        || condition.column_refs().is_empty() && (aggregate.group_expr.is_empty() || grouping_sets())
}
