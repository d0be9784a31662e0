//! DataFusion's rule that pushes limits down, where it can.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{FetchType, Limit, LogicalPlan, SkipType};
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `PushDownLimit` (DataFusion 55.2) pushes the sum of OFFSET and LIMIT down, which must be a number of 64 bits.
#[derive(Debug, Default)]
pub struct PushDownLimitInRange(PushDownLimit);

impl OptimizerRule for PushDownLimitInRange {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Limit(limit) if reaches(&limit)? > i64::MAX as u128 => {
                Ok(Transformed::no(LogicalPlan::Limit(limit)))
            }
            // The sort takes the number of rows first, and the limit goes then: otherwise in another pass of the optimizer.
            LogicalPlan::Limit(limit) if matches!(limit.input.as_ref(), LogicalPlan::Sort(_)) => {
                let told = self.0.rewrite(LogicalPlan::Limit(limit), config)?;
                match told.transformed {
                    true => Ok(Transformed::yes(self.0.rewrite(told.data, config)?.data)),
                    false => Ok(told),
                }
            }
            plan => self.0.rewrite(plan, config),
        }
    }
}

/// How many rows are looked at, with those of the limit below, which the rule adds to it.
fn reaches(limit: &Limit) -> Result<u128> {
    let below = match limit.input.as_ref() {
        LogicalPlan::Limit(below) => reaches(below)?,
        _ => 0,
    };
    Ok(match (limit.get_skip_type()?, limit.get_fetch_type()?) {
        (SkipType::Literal(skip), FetchType::Literal(fetch)) => skip as u128 + fetch.unwrap_or(0) as u128 + below,
        _ => 0,
    })
}
