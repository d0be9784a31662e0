//! LATERAL that refers to nothing any more.

use crate::pg::semantics::without_marks;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `DecorrelateLateralJoin` (DataFusion 55.2) leaves a subquery as it is whose references simplification has taken away, as of
/// `p.x = p.x` over a column that is never null; no plan can be made of it then.
#[derive(Debug, Default)]
pub struct DecorrelateLateral(DecorrelateLateralJoin);

impl OptimizerRule for DecorrelateLateral {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else {
            return Ok(Transformed::no(plan));
        };
        let join = without_marks(join)?;
        let changed = join.transformed;
        let plan = self.0.rewrite(LogicalPlan::Join(join.data), config)?;
        Ok(Transformed::new_transformed(plan.data, changed || plan.transformed))
    }
}
