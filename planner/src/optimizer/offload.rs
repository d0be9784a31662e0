//! Which parts of a plan may run on the device as one fragment each.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use tenon_executor::aggregate::GroupExec;
use tenon_executor::device;
use tenon_executor::join::JoinExec;
use tenon_executor::join::choice::DeviceState;
use tenon_executor::options::{DeviceChoice, JoinOptions};
use tenon_executor::pipeline::OffloadExec;

/// Puts a node that tries the device above each grouping, and above each topmost join whose rows may come in any order and
/// partition.
pub fn place(plan: Arc<dyn ExecutionPlan>, options: &JoinOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let there = || matches!(device::state(options), DeviceState::Present { .. });
    match options.device == DeviceChoice::Gpu && there() {
        true => placed(plan, false),
        false => Ok(plan),
    }
}

/// `within`: what is above takes the node's rows into its own pipelines.
fn placed(plan: Arc<dyn ExecutionPlan>, within: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let is_join = plan.downcast_ref::<JoinExec>().is_some();
    let is_group = plan.downcast_ref::<GroupExec>().is_some();
    let hands_on = matches!(
        plan.name(),
        "ProjectionExec" | "FilterExec" | "CoalescePartitionsExec" | "RepartitionExec"
    );
    let below = is_join || within && hands_on;
    let children = plan.children().into_iter().cloned();
    let new = children.map(|child| placed(child, below)).collect::<Result<Vec<_>>>()?;
    let changed = new.iter().zip(plan.children()).any(|(new, old)| !Arc::ptr_eq(new, old));
    let plan = match changed {
        true => plan.replace_children(new, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?,
        false => plan,
    };
    let free = plan.output_ordering().is_none() && !matches!(plan.output_partitioning(), Partitioning::Hash(..));
    match (is_group || is_join && !within) && free {
        true => Ok(Arc::new(OffloadExec::new(plan))),
        false => Ok(plan),
    }
}
