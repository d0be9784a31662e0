//! Which joins may run on the device as one fragment with what is around them; groupings try by themselves.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use tenon_executor::device;
use tenon_executor::join::JoinExec;
use tenon_executor::join::choice::DeviceState;
use tenon_executor::options::{DeviceChoice, JoinOptions};
use tenon_executor::pipeline::OffloadExec;

/// Puts a node that tries the device above each topmost join whose rows may come in any order and partition.
pub fn place(plan: Arc<dyn ExecutionPlan>, options: &JoinOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let forced = options.device == DeviceChoice::Gpu;
    match device::state(options) {
        DeviceState::Present { simulated, .. } if !simulated || forced => {}
        _ => return Ok(plan),
    }
    let placed = plan.transform_down(|node| {
        let own = node.downcast_ref::<JoinExec>().is_some();
        let free = node.output_ordering().is_none() && !matches!(node.output_partitioning(), Partitioning::Hash(..));
        match own && free {
            true => {
                let above: Arc<dyn ExecutionPlan> = Arc::new(OffloadExec::new(node));
                Ok(Transformed::new(above, true, TreeNodeRecursion::Jump))
            }
            false => Ok(Transformed::no(node)),
        }
    });
    placed.data()
}
