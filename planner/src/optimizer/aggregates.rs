//! Which of DataFusion's aggregations become `GroupExec`.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use tenon_executor::aggregate::{GroupExec, GroupSpec, GroupingSet};

use super::unordered;

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
    if first.group_expr().has_grouping_set() && first.group_expr().is_empty() || last.limit_options().is_some() {
        return Ok(plan);
    }
    let input = unordered::within(first.input());
    let spec = GroupSpec {
        keys: first.group_expr().expr().to_vec(),
        aggregates: first.aggr_expr().to_vec(),
        filters: first.filter_expr().to_vec(),
        sets: sets(first.group_expr()),
        input_schema: input.schema(),
        schema: last.schema(),
    };
    if !spec.is_supported() {
        return Ok(plan);
    }
    Ok(Arc::new(GroupExec::new(Arc::clone(input), spec)))
}

/// The sets of GROUPING SETS with the numbers that DataFusion gives them: a bit for each key that is NULL, and above those
/// which one of several like it a set is. None where there is one set.
fn sets(group_by: &PhysicalGroupBy) -> Vec<GroupingSet> {
    if !group_by.has_grouping_set() {
        return vec![];
    }
    let mut sets: Vec<GroupingSet> = vec![];
    for nulls in group_by.groups() {
        let has: Vec<bool> = nulls.iter().map(|null| !null).collect();
        let alike = sets.iter().filter(|other| other.has == has).count() as u64;
        let nulls = nulls.iter().fold(0u64, |bits, null| bits << 1 | u64::from(*null));
        let number = nulls | alike.checked_shl(has.len() as u32).unwrap_or(0);
        sets.push(GroupingSet { has, number });
    }
    sets
}
