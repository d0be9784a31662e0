//! Sorts of partitions that keep their first rows only, where a sort key is one value in each partition and another in the
//! next: UNION ALL of queries with a constant each.
//!
//! DataFusion (55.2) leaves such a key out of the sorts, and yet lets them share what they know of the last row that counts:
//! a row of one partition rules out rows of another by the keys that are left.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::equivalence::AcrossPartitions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
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
    let keys = plan.downcast_ref::<SortPreservingMergeExec>();
    let keys = keys.map(SortPreservingMergeExec::expr);
    let old: Vec<_> = plan.children().into_iter().cloned().collect();
    let new = old.iter().map(|child| complete(Arc::clone(child), keys));
    let new = new.collect::<Result<Vec<_>>>()?;
    if old.iter().zip(&new).all(|(a, b)| Arc::ptr_eq(a, b)) {
        return Ok(plan);
    }
    plan.replace_children(new, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
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
