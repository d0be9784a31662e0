//! DataFusion's rule that groups twice for aggregates over distinct values, where it can.

use crate::optimizer::spill::distinct::{distinct, is_numeric, without_distinct};
use crate::optimizer::spill::grouping_sets::expanded;
use crate::optimizer::spill::windows::spills;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `SingleDistinctToGroupBy` (DataFusion 55.2) fails on aggregates of two arguments, and where a column has one of the
/// names that it gives.
#[derive(Debug, Default)]
pub struct SingleDistinctOfOneArgument(SingleDistinctToGroupBy);

impl OptimizerRule for SingleDistinctOfOneArgument {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if spills(config)
            && let LogicalPlan::Aggregate(aggregate) = &plan
            && let Some(expanded) = expanded(aggregate, config)?
        {
            return Ok(Transformed::yes(expanded));
        }
        let plan = match plan {
            LogicalPlan::Aggregate(aggregate) if has_others(&aggregate) || has_numerics(&aggregate) => {
                Transformed::no(LogicalPlan::Aggregate(aggregate))
            }
            plan => self.0.rewrite(plan, config)?,
        };
        match &plan.data {
            LogicalPlan::Aggregate(aggregate) if spills(config) => match without_distinct(aggregate, config)? {
                Some(plain) => Ok(Transformed::yes(plain)),
                None => Ok(plan),
            },
            _ => Ok(plan),
        }
    }
}

fn has_others(aggregate: &Aggregate) -> bool {
    let several = aggregate.aggr_expr.iter().any(|call| match call {
        Expr::AggregateFunction(call) => call.params.distinct && call.params.args.len() != 1,
        _ => false,
    });
    let given = |name: &str| name.starts_with("alias") || name.starts_with("group_alias_");
    several
        || aggregate
            .input
            .schema()
            .fields()
            .iter()
            .any(|field| given(field.name()))
}

/// Whether distinct numerics are aggregated, which are alike where their bytes are not.
fn has_numerics(aggregate: &Aggregate) -> bool {
    let rows = aggregate.input.schema();
    aggregate
        .aggr_expr
        .iter()
        .filter_map(distinct)
        .any(|call| call.params.args.iter().any(|own| is_numeric(own, rows)))
}
