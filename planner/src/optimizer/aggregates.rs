//! Which of DataFusion's aggregations become `GroupExec`.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use tenon_executor::aggregate::{GroupExec, GroupSpec};

/// `plan` as a `GroupExec`, if it is an aggregation (in one step or two) that `GroupExec` computes; else `plan`.
pub fn replace(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(last) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(plan);
    };
    let first = match last.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => last,
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            match last
                .input()
                .downcast_ref::<AggregateExec>()
                .filter(|first| *first.mode() == AggregateMode::Partial)
            {
                Some(first) => first,
                None => return Ok(plan),
            }
        }
        _ => return Ok(plan),
    };
    if !first.group_expr().is_single() && !first.group_expr().is_empty() || last.limit_options().is_some() {
        return Ok(plan);
    }
    let spec = GroupSpec {
        keys: first.group_expr().expr().to_vec(),
        aggregates: first.aggr_expr().to_vec(),
        filters: first.filter_expr().to_vec(),
        input_schema: first.input().schema(),
        schema: last.schema(),
    };
    if !spec.is_supported() {
        return Ok(plan);
    }
    Ok(Arc::new(GroupExec::new(Arc::clone(first.input()), spec)))
}
