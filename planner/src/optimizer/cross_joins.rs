//! DataFusion's rule that makes inner joins of cross joins and their conditions, where it is right.

use datafusion::common::NullEquality;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `EliminateCrossJoin` (DataFusion 55.2) gives all joins that it takes apart the null equality of the uppermost: beside
/// an `IS NOT DISTINCT FROM`, plain equalities would match nulls. Plans with such a join are left as they are; their
/// conditions still become keys when filters are pushed down.
#[derive(Debug, Default)]
pub struct EliminateCrossJoinOfOneEquality(EliminateCrossJoin);

impl OptimizerRule for EliminateCrossJoinOfOneEquality {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match matches_nulls(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// Whether some join of the plan, or of a subquery in it, matches nulls.
fn matches_nulls(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull);
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
