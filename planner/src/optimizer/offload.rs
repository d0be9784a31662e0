//! Which parts of a plan may run on the device as one fragment each.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use tenon_executor::aggregate::GroupExec;
use tenon_executor::device;
use tenon_executor::device::DeviceState;
use tenon_executor::join::JoinExec;
use tenon_executor::options::{DeviceChoice, JoinOptions};
use tenon_executor::pipeline::{self, OffloadExec, Steps, Top, chain};
use tenon_executor::scan::ScanExec;
use tenon_executor::window::WindowExec;

/// A sort that wants more rows than this takes them all.
const TOP_MAX: usize = 1 << 16;

/// Puts a node that tries the device above each grouping and each window, above each topmost join, above filters of those,
/// and below each sort that wants the first of such rows, where rows may come in any partition and, but for windows, in any
/// order; and above sorts of such rows with the merges and projections that follow, of tables' rows too. Of several such nodes above one another
/// the topmost that can takes all below it.
pub fn place(plan: Arc<dyn ExecutionPlan>, options: &JoinOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let there = || match device::state(options) {
        DeviceState::Present { simulated, .. } => !simulated || options.device == DeviceChoice::Gpu,
        _ => false,
    };
    match options.device != DeviceChoice::Cpu && there() {
        true => {
            reside(&plan);
            let above = Above {
                asks_for_device: options.device == DeviceChoice::Gpu,
                ..Above::default()
            };
            placed(plan, above)
        }
        false => Ok(plan),
    }
}

/// Has the columns of resident tables that a plan reads loaded, where they are not there.
fn reside(plan: &Arc<dyn ExecutionPlan>) {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        pipeline::reside(scan.table());
    }
    plan.children().into_iter().for_each(reside);
}

/// What is above a node.
#[derive(Clone, Copy, Default)]
struct Above {
    /// Takes the node's rows into its own pipelines.
    within: bool,
    /// Does what the host does to a fragment's rows.
    chained: bool,
    /// Takes each partition's rows together with those of another input's.
    paired: bool,
    /// The session does.
    asks_for_device: bool,
}

fn placed(plan: Arc<dyn ExecutionPlan>, above: Above) -> Result<Arc<dyn ExecutionPlan>> {
    if !above.asks_for_device && gives_first_rows(&plan) {
        return Ok(plan);
    }
    let is_join = plan.downcast_ref::<JoinExec>().is_some();
    let is_group = is_group(&plan);
    let (is_window, are_steps) = (is_window(&plan), Steps::are_of(&plan));
    let is_union = is_union(&plan);
    let is_chained = sorts_rows_of_fragments(&plan);
    let below = Above {
        within: is_join || above.within && hands_on(&plan),
        chained: is_chained || above.chained && chain(&plan).len() > 1,
        paired: !is_join && !is_union && plan.children().len() > 1 || above.paired && !repartitions(&plan),
        ..above
    };
    let offloaded = |plan| OffloadExec::new(plan).asked_for(above.asks_for_device);
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
        && (is_free(sort.input()) || !above.paired && has_rows_of_windows(sort.input()))
    {
        let top = offloaded(Arc::clone(sort.input())).with_top(Top::new(sort.expr().first(), rows));
        plan = plan.replace_children(
            vec![Arc::new(top)],
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )?;
    }
    if is_chained && !above.chained {
        return Ok(Arc::new(offloaded(plan)));
    }
    let is_filter = plan.downcast_ref::<FilterExec>().is_some() && has_rows_of_fragments(&plan);
    let takes_rows = (is_group || (is_join || is_filter) && !above.within) && is_free(&plan);
    // These come in their order, which what is above may rely on, as on which of them are in one partition.
    let takes_steps = are_steps && plan.output_ordering().is_none();
    match takes_rows || (is_window || takes_steps) && !above.paired {
        true => Ok(Arc::new(offloaded(plan))),
        false => Ok(plan),
    }
}

/// Whether few of a table's rows are read, since an index has them in the order in which a sort wants the first ones, and what they are
/// joined with is no work for a device either.
fn gives_first_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return scan.expects_first_by_index();
    }
    if let Some(join) = plan.downcast_ref::<JoinExec>() {
        return gives_first_rows(join.probe()) && reads_only(join.build());
    }
    match plan.children()[..] {
        [input] if !is_group(plan) && !is_window(plan) => gives_first_rows(input),
        _ => false,
    }
}

/// Whether a plan gives rows of a table as they are.
fn reads_only(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.children()[..] {
        [] => plan.is::<ScanExec>(),
        [input] => hands_on(plan) && reads_only(input),
        _ => false,
    }
}

/// Whether a plan puts rows of a fragment in order, all in one partition.
fn sorts_rows_of_fragments(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let nodes = chain(plan);
    let sorts = nodes.iter().any(|node| node.downcast_ref::<SortExec>().is_some());
    sorts
        && plan.output_partitioning().partition_count() == 1
        && nodes
            .last()
            .is_some_and(|last| has_rows_of_fragments(last) || has_rows_of(last, &is_source))
}

/// Whether a node gives rows that a fragment may put in order alone.
fn is_source(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<ScanExec>().is_some() || is_union(plan)
}

fn is_union(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<UnionExec>() || plan.name() == "AppendExec"
}

fn is_group(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<GroupExec>().is_some()
}

fn is_window(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<WindowExec>().is_some() || plan.downcast_ref::<BoundedWindowAggExec>().is_some()
}

/// Whether a node's rows are in other partitions than its input's.
fn repartitions(plan: &Arc<dyn ExecutionPlan>) -> bool {
    const NAMES: [&str; 4] = [
        "RepartitionExec",
        "CoalescePartitionsExec",
        "SortPreservingMergeExec",
        "GroupExec",
    ];
    NAMES.contains(&plan.name())
}

/// Whether it does not matter to what is above in which order and partition rows come.
fn is_free(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_ordering().is_none() && !matches!(plan.output_partitioning(), Partitioning::Hash(..))
}

/// Whether rows come from a grouping, a join or a window, through nodes that hand them on.
fn has_rows_of_fragments(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let of = |plan: &Arc<dyn ExecutionPlan>| {
        plan.downcast_ref::<JoinExec>().is_some() || is_group(plan) || is_window(plan) || Steps::are_of(plan)
    };
    has_rows_of(plan, &of)
}

fn has_rows_of_windows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    has_rows_of(plan, &is_window)
}

fn has_rows_of(plan: &Arc<dyn ExecutionPlan>, of: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool) -> bool {
    match plan.children()[..] {
        _ if of(plan) => true,
        [input] if hands_on(plan) => has_rows_of(input, of),
        _ => false,
    }
}

fn hands_on(plan: &Arc<dyn ExecutionPlan>) -> bool {
    const NAMES: [&str; 8] = [
        "CooperativeExec",
        "GroupTopExec",
        "PiecesExec",
        "ProjectionExec",
        "FilterExec",
        "CoalescePartitionsExec",
        "RepartitionExec",
        "OffloadExec",
    ];
    NAMES.contains(&plan.name())
}
