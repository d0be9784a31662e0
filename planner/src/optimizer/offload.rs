//! Which parts of a plan may run on the device as one fragment each.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use tenon_executor::aggregate::GroupExec;
use tenon_executor::device;
use tenon_executor::device::DeviceState;
use tenon_executor::join::JoinExec;
use tenon_executor::options::{DeviceChoice, JoinOptions};
use tenon_executor::pipeline::{OffloadExec, Top, chain};

/// A sort that wants more rows than this takes them all.
const TOP_MAX: usize = 1 << 16;

/// Puts a node that tries the device above each grouping, above each topmost join, above filters of those, and below each
/// sort that wants the first of such rows, where rows may come in any order and partition; and above sorts of such rows
/// with the merges and projections that follow. Of several such nodes above one another the topmost that can takes all
/// below it.
pub fn place(plan: Arc<dyn ExecutionPlan>, options: &JoinOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let there = || match device::state(options) {
        DeviceState::Present { simulated, .. } => !simulated || options.device == DeviceChoice::Gpu,
        _ => false,
    };
    match options.device != DeviceChoice::Cpu && there() {
        true => placed(plan, Above::default()),
        false => Ok(plan),
    }
}

/// What is above a node.
#[derive(Clone, Copy, Default)]
struct Above {
    /// Takes the node's rows into its own pipelines.
    within: bool,
    /// Does what the host does to a fragment's rows.
    chained: bool,
}

fn placed(plan: Arc<dyn ExecutionPlan>, above: Above) -> Result<Arc<dyn ExecutionPlan>> {
    let is_join = plan.downcast_ref::<JoinExec>().is_some();
    let is_group = plan.downcast_ref::<GroupExec>().is_some();
    let is_chained = sorts_rows_of_fragments(&plan);
    let below = Above {
        within: is_join || above.within && hands_on(&plan),
        chained: is_chained || above.chained && chain(&plan).len() > 1,
    };
    let children = plan.children().into_iter().cloned();
    let new = children.map(|child| placed(child, below)).collect::<Result<Vec<_>>>()?;
    let changed = new.iter().zip(plan.children()).any(|(new, old)| !Arc::ptr_eq(new, old));
    let mut plan = match changed {
        true => plan.replace_children(new, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?,
        false => plan,
    };
    if let Some(sort) = plan.downcast_ref::<SortExec>()
        && let Some(rows) = sort.fetch().filter(|rows| *rows <= TOP_MAX)
        && has_rows_of_fragments(sort.input())
        && is_free(sort.input())
    {
        let top = OffloadExec::new(Arc::clone(sort.input())).with_top(Top::new(sort.expr().first(), rows));
        plan = plan.replace_children(
            vec![Arc::new(top)],
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )?;
    }
    if is_chained && !above.chained {
        return Ok(Arc::new(OffloadExec::new(plan)));
    }
    let is_filter = plan.downcast_ref::<FilterExec>().is_some() && has_rows_of_fragments(&plan);
    match (is_group || (is_join || is_filter) && !above.within) && is_free(&plan) {
        true => Ok(Arc::new(OffloadExec::new(plan))),
        false => Ok(plan),
    }
}

/// Whether a plan puts rows of a fragment in order, all in one partition.
fn sorts_rows_of_fragments(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let nodes = chain(plan);
    let sorts = nodes.iter().any(|node| node.downcast_ref::<SortExec>().is_some());
    sorts
        && plan.output_partitioning().partition_count() == 1
        && nodes.last().is_some_and(|last| has_rows_of_fragments(last))
}

/// Whether it does not matter to what is above in which order and partition rows come.
fn is_free(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_ordering().is_none() && !matches!(plan.output_partitioning(), Partitioning::Hash(..))
}

/// Whether rows come from a grouping or a join, through nodes that hand them on.
fn has_rows_of_fragments(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.children()[..] {
        _ if plan.downcast_ref::<JoinExec>().is_some() || plan.downcast_ref::<GroupExec>().is_some() => true,
        [input] if hands_on(plan) => has_rows_of_fragments(input),
        _ => false,
    }
}

fn hands_on(plan: &Arc<dyn ExecutionPlan>) -> bool {
    const NAMES: [&str; 5] = [
        "ProjectionExec",
        "FilterExec",
        "CoalescePartitionsExec",
        "RepartitionExec",
        "OffloadExec",
    ];
    NAMES.contains(&plan.name())
}
