//! Sorts that keep a large part of their rows.
//!
//! DataFusion (55.2) keeps the first rows in a heap, into which each row that is among the first so far goes by itself: some
//! 5 us a row where the heap is large, where sorting all rows takes 0.4 us of each. Of N rows in no order K (1 + ln (N / K))
//! come into a heap of K.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;
use tenon_executor::pipeline::OffloadExec;

/// So few rows are kept in a heap, whatever there are.
const HEAP_ROWS_MIN: usize = 4096;
/// So many are not, if it is not known how many there are.
const HEAP_ROWS_MAX: usize = 1 << 16;
/// Rows of which one is kept, where both ways take as long.
const ROWS_OF_ONE: usize = 64;

#[derive(Debug)]
pub struct SortsOfManyFirst;

impl PhysicalOptimizerRule for SortsOfManyFirst {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| {
            // The device sorts all rows anyway.
            if plan.is::<OffloadExec>() {
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            let whole = plan.downcast_ref::<SortExec>().map(whole).transpose()?.flatten();
            Ok(match whole {
                Some(whole) => Transformed::yes(whole),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "sorts_of_many_first"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The sort of all rows; None where a heap is the shorter way.
fn whole(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(kept) = sort.fetch().filter(|kept| *kept > HEAP_ROWS_MIN) else {
        return Ok(None);
    };
    let partitions = sort.properties().partitioning.partition_count();
    let known = StatisticsContext::new().compute(sort.input().as_ref(), &StatisticsArgs::new())?;
    let is_shorter = match known.num_rows.get_value() {
        Some(rows) => kept.saturating_mul(ROWS_OF_ONE) < rows / partitions.max(1),
        None => kept <= HEAP_ROWS_MAX,
    };
    if is_shorter {
        return Ok(None);
    }
    Ok(Some(first_of_all(sort, kept)))
}

/// A sort of all rows, of which so many go on.
pub(super) fn first_of_all(sort: &SortExec, kept: usize) -> Arc<dyn ExecutionPlan> {
    let all: Arc<dyn ExecutionPlan> = Arc::new(sort.with_fetch(None));
    match all.output_partitioning().partition_count() {
        1 => Arc::new(GlobalLimitExec::new(all, 0, Some(kept))),
        _ => Arc::new(LocalLimitExec::new(all, kept)),
    }
}
