//! Whether the values of many rows meet few rows of each relation beside them.

use super::rows::RowsExec;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use std::sync::Arc;
use tenon_executor::join::JoinExec;

/// A relation of more rows is looked through better for each row by itself, where no key tells which of them it meets: a
/// scan compares faster than a join makes pairs.
const PAIRED_ROWS_MAX: usize = 1024;

/// Whether no join without a key makes pairs with many rows of what is the same for all.
pub(super) fn pairs_few(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let pairs = match plan.downcast_ref::<JoinExec>() {
        Some(join) => join.spec().build_keys.is_empty(),
        None => matches!(plan.name(), "CrossJoinExec" | "NestedLoopJoinExec"),
    };
    for input in plan.children() {
        if pairs && !reads_rows(input) {
            let known = StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new())?;
            let rows = known.num_rows.get_value();
            if rows.is_none_or(|rows| *rows > PAIRED_ROWS_MAX) {
                return Ok(false);
            }
        }
        if !pairs_few(input)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn reads_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<RowsExec>() || plan.children().into_iter().any(reads_rows)
}
