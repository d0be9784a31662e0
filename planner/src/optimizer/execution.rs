//! What a physical plan needs to run once more: a copy of its own, and a context.

use super::parameters;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use std::collections::HashMap;
use std::sync::Arc;
use tenon_executor::scan::ScanExec;

/// The state of a plan that runs. Functions are in the plans themselves.
pub(crate) fn task(state: &SessionState) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        None,
        "tenon".into(),
        state.config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        state.runtime_env().clone(),
    ))
}

/// Nodes whose copies would write to one place when they run at the same time.
pub(crate) fn shares_state(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let own = matches!(
        plan.name(),
        "ScalarSubqueryExec" | "RecursiveQueryExec" | "WorkTableExec" | "ApplyExec" | "MaterializedExec"
    );
    own || plan.children().into_iter().any(shares_state)
}

/// A copy of a plan that has nothing of earlier runs, neither rows nor counts; with `values`, one for these.
pub(crate) fn fresh(plan: &Arc<dyn ExecutionPlan>, values: Option<&[ScalarValue]>) -> Result<Arc<dyn ExecutionPlan>> {
    let copied = Arc::clone(plan).transform_up(|node| {
        let node = match values {
            Some(values) => parameters::filled(node, values)?,
            None => node,
        };
        if let Some(scan) = node.downcast_ref::<ScanExec>() {
            return Ok(Transformed::yes(Arc::new(scan.renewed()) as Arc<dyn ExecutionPlan>));
        }
        // Tenon's other nodes are new with their new inputs, and would lose their runtime filters by a reset.
        if node.children().is_empty() || !tenon_executor::is_own(&node) {
            return Ok(Transformed::yes(node.reset_state()?));
        }
        Ok(Transformed::yes(node))
    })?;
    Ok(copied.data)
}
