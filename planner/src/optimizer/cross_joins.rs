//! DataFusion's rule that makes inner joins of cross joins and their conditions, where it is right.

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `EliminateCrossJoin` (DataFusion 55.2) gives all joins that it takes apart the null equality of the uppermost: beside
/// an `IS NOT DISTINCT FROM`, plain equalities would match nulls. And it forgets a key that reads several relations of a side
/// where the order that it chooses has no join between its two sides. Plans with such a join are left as they are; their
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
        match has_other_keys(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// Whether some join of the plan, or of a subquery in it, matches nulls or has a key over several relations.
fn has_other_keys(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node {
            let mut keys = join.on.iter().flat_map(|(left, right)| [left, right]);
            found |= join.null_equality == NullEquality::NullEqualsNull || keys.any(is_wide);
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether an expression may read columns of several relations.
fn is_wide(key: &Expr) -> bool {
    let columns: Vec<&Column> = key.column_refs().into_iter().collect();
    let alike = |pair: &[&Column]| pair[0].relation.is_some() && pair[0].relation == pair[1].relation;
    !columns.windows(2).all(alike)
}
