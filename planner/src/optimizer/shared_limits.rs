//! Sorts of partitions that keep their first rows only, where a sort key is one value in each partition and another in the
//! next: UNION ALL of queries with a constant each.
//!
//! DataFusion (55.2) leaves such a key out of the sorts, and yet lets them share what they know of the last row that counts:
//! a row of one partition rules out rows of another by the keys that are left.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_expr::equivalence::AcrossPartitions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

#[derive(Debug)]
pub struct SortsByAllKeys;

impl PhysicalOptimizerRule for SortsByAllKeys {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        complete(plan, None)
    }

    fn name(&self) -> &str {
        "sorts_by_all_keys"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `merged`: the order by which the node's partitions are merged.
fn complete(plan: Arc<dyn ExecutionPlan>, merged: Option<&LexOrdering>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = match plan.downcast_ref::<SortExec>() {
        Some(sort) if shares(sort) => {
            let whole = match merged {
                Some(keys) => SortExec::new(keys.clone(), Arc::clone(sort.input())).with_fetch(sort.fetch()),
                // What is above takes the first rows of all.
                None => sort.with_fetch(None),
            };
            Arc::new(whole.with_preserve_partitioning(true))
        }
        _ => plan,
    };
    let keys = match (plan.downcast_ref::<ProjectionExec>(), merged) {
        (Some(projection), Some(keys)) => Some(below(keys, projection)?),
        _ => plan
            .downcast_ref::<SortPreservingMergeExec>()
            .map(|merge| merge.expr().clone()),
    };
    let old: Vec<_> = plan.children().into_iter().cloned().collect();
    let new = old.iter().map(|child| complete(Arc::clone(child), keys.as_ref()));
    let new = new.collect::<Result<Vec<_>>>()?;
    if old.iter().zip(&new).all(|(a, b)| Arc::ptr_eq(a, b)) {
        return Ok(plan);
    }
    plan.replace_children(new, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The order of a projection's rows, over the columns of its input.
fn below(keys: &LexOrdering, projection: &ProjectionExec) -> Result<LexOrdering> {
    let keys = keys.iter().map(|key| {
        let expr = Arc::clone(&key.expr).transform_up(|expr| match expr.downcast_ref::<Column>() {
            Some(column) => Ok(Transformed::yes(Arc::clone(&projection.expr()[column.index()].expr))),
            None => Ok(Transformed::no(expr)),
        });
        Ok(PhysicalSortExpr::new(expr.data()?, key.options))
    });
    let keys: Vec<_> = keys.collect::<Result<_>>()?;
    LexOrdering::new(keys).ok_or_else(|| internal_datafusion_err!("a merge has keys"))
}

/// Whether the sort's partitions rule out each other's rows, and may differ in a key that it does not know.
fn shares(sort: &SortExec) -> bool {
    let input = sort.input();
    let differs = || {
        let constants = input.equivalence_properties().constants();
        let mut of_partition = constants
            .iter()
            .filter(|constant| constant.across_partitions == AcrossPartitions::Heterogeneous);
        of_partition.any(|constant| !sort.expr().iter().any(|key| key.expr.eq(&constant.expr)))
    };
    sort.fetch().is_some()
        && sort.preserve_partitioning()
        && input.output_partitioning().partition_count() > 1
        && differs()
}
