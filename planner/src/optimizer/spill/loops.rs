//! Joins without an equality, in plans that go through files: DataFusion's operator takes one side in as many parts as have room,
//! and reads the other from a file for each. Of two large sides that would take for ever: these are joined in memory or not at all.

use datafusion::common::{JoinType, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use std::sync::Arc;

/// So many pairs of rows are looked at in less than a minute by a core.
const PAIRS_MAX: usize = 10_000_000_000;

/// Whether the node is a join that looks at all pairs of rows, and can.
pub(crate) fn looks_at_all_pairs(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else {
        return Ok(false);
    };
    // It has no memory of which rows of both sides have found a partner.
    if *join.join_type() == JoinType::Full {
        return Ok(false);
    }
    let rows = |side: &Arc<dyn ExecutionPlan>| -> Result<usize> {
        let statistics = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new())?;
        Ok(statistics.num_rows.get_value().copied().unwrap_or(usize::MAX))
    };
    Ok(rows(join.left())?.saturating_mul(rows(join.right())?) <= PAIRS_MAX)
}
