//! LATERAL as joins.

use crate::pg::semantics::without_marks;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `DecorrelateLateralJoin` (DataFusion 55.2), but for two faults of it:
///
/// - it leaves a subquery as it is whose references simplification has taken away, as of `p.x = p.x` over a column that is
///   never null; no plan can be made of it then;
/// - a join gets the columns that a subquery's condition compares, and the joins and windows above do not learn of them: what
///   counts their columns then takes one for another, or refuses them.
#[derive(Debug, Default)]
pub struct DecorrelateLateral(DecorrelateLateralJoin);

impl OptimizerRule for DecorrelateLateral {
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The whole plan at once.
    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let joined = plan.transform_down_with_subqueries(|plan| self.joined(plan, config))?;
        match joined.transformed {
            true => joined.transform_data(|plan| plan.transform_up_with_subqueries(with_columns_of_inputs)),
            false => Ok(joined),
        }
    }
}

impl DecorrelateLateral {
    fn joined(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else {
            return Ok(Transformed::no(plan));
        };
        let join = without_marks(join)?;
        let changed = join.transformed;
        let plan = self.0.rewrite(LogicalPlan::Join(join.data), config)?;
        // On to what is below: another LATERAL may stand there.
        Ok(Transformed::new_transformed(plan.data, changed || plan.transformed))
    }
}

/// A node that passes its inputs' columns on, with those that they have now.
fn with_columns_of_inputs(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Unnest(_) => plan.recompute_schema().map(Transformed::yes),
        _ => Ok(Transformed::no(plan)),
    }
}
