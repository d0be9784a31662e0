//! What a physical plan needs to run once more: a copy of its own, and a context.

use super::expressions::{comes_to_all, with_exprs_changed};
use super::{parameters, top_filters};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::prelude::SessionConfig;
use std::collections::HashMap;
use std::sync::Arc;
use tenon_executor::join::IndexJoinExec;
use tenon_executor::node::ExecutorNode;
use tenon_executor::options::JoinOptions;
use tenon_executor::pipeline::OffloadExec;
use tenon_executor::scan::ScanExec;
use tenon_storage::{DatabaseState, TableVersion};

/// The state of a plan that runs. Functions are in the plans themselves.
pub(crate) fn task(state: &SessionState) -> Arc<TaskContext> {
    in_config(state, state.config().clone())
}

/// The same for a plan that EXPLAIN ANALYZE shows.
pub(crate) fn analyzed_task(state: &SessionState) -> Arc<TaskContext> {
    let options = JoinOptions {
        count_rows: true,
        ..JoinOptions::of(state.config())
    };
    in_config(state, state.config().clone().with_extension(Arc::new(options)))
}

/// The same under another configuration.
pub(crate) fn in_config(state: &SessionState, config: SessionConfig) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        None,
        "tenon".into(),
        config,
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        state.runtime_env().clone(),
    ))
}

/// Whether a plan has nodes whose copies would write to one place when they run at the same time.
pub(crate) fn shares_state(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let own = match plan.downcast_ref::<ScalarSubqueryExec>() {
        Some(node) => !comes_to_all(node.input(), &|expr| result_of(expr).is_some()).unwrap_or(false),
        None => matches!(plan.name(), "RecursiveQueryExec" | "WorkTableExec" | "ApplyExec"),
    };
    own || plan.children().into_iter().any(shares_state)
}

fn result_of(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarSubqueryExpr> {
    expr.downcast_ref()
}

/// The node with a place of its own for what its subqueries give.
fn with_own_results(node: &ScalarSubqueryExec) -> Result<Arc<dyn ExecutionPlan>> {
    let (old, new) = (node.results(), ScalarSubqueryResults::new(node.subqueries().len()));
    let of_node = |expr: &Arc<dyn PhysicalExpr>| result_of(expr).is_some_and(|result| result.results() == old);
    let moved = |expr: Arc<dyn PhysicalExpr>| {
        let moved = expr.transform_up(|expr| match result_of(&expr) {
            Some(result) if result.results() == old => {
                let field = result.return_field(&Schema::empty())?;
                #[expect(deprecated, reason = "nothing else tells the index")]
                let index = result.index();
                let moved = ScalarSubqueryExpr::new(field.data_type().clone(), field.is_nullable(), index, new.clone());
                Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
            }
            _ => Ok(Transformed::no(expr)),
        });
        moved.data()
    };
    let input = Arc::clone(node.input())
        .transform_up(|node| {
            let changed = with_exprs_changed(Arc::clone(&node), &of_node, &moved)?;
            let is_new = !Arc::ptr_eq(&changed, &node);
            Ok(Transformed::new(changed, is_new, TreeNodeRecursion::Continue))
        })
        .data()?;
    let subqueries = node.subqueries().to_vec();
    Ok(Arc::new(ScalarSubqueryExec::new(input, subqueries, new)))
}

/// The table that a scan reads, as it is in a state.
pub(crate) fn current<'s>(state: &'s DatabaseState, scan: &ScanExec) -> Result<&'s Arc<TableVersion>> {
    let definition = scan.table().definition();
    let found = state.table(&definition.schema_name, &definition.name);
    match found.filter(|table| Arc::ptr_eq(table.definition(), definition)) {
        Some(table) => Ok(table),
        None => internal_err!("table {} of a kept plan is another one", definition.name),
    }
}

/// A plan with its scans changed, and its joins that look up the rows of one.
fn with_scans(
    plan: &Arc<dyn ExecutionPlan>,
    change: impl Fn(&ScanExec) -> Result<ScanExec>,
    change_join: impl Fn(&IndexJoinExec) -> Result<IndexJoinExec>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = Arc::clone(plan).transform_up(|node| {
        let changed: Arc<dyn ExecutionPlan> = if let Some(scan) = node.downcast_ref::<ScanExec>() {
            Arc::new(change(scan)?)
        } else if let Some(join) = node.downcast_ref::<IndexJoinExec>() {
            Arc::new(change_join(join)?)
        } else {
            return Ok(Transformed::no(node));
        };
        Ok(Transformed::yes(changed))
    });
    changed.data()
}

/// A plan without the versions of tables that it was made for, to be run over others ([`moved`]).
pub(crate) fn detached(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    with_scans(
        plan,
        |scan| Ok(scan.detached()),
        |join| Ok(join.with_inner(join.inner().detached(), None)),
    )
}

/// The same plan over a state's tables.
pub(crate) fn moved(plan: &Arc<dyn ExecutionPlan>, state: &DatabaseState) -> Result<Arc<dyn ExecutionPlan>> {
    let of_state = |scan: &ScanExec| scan.of_version(current(state, scan)?, Ok);
    let moved = with_scans(plan, of_state, |join| {
        let reader = join.reader_of(current(state, join.inner())?);
        match reader {
            Some(reader) => Ok(join.with_inner(of_state(join.inner())?, Some(reader))),
            None => exec_err!("the index {} of a kept plan is gone", join.spec().index),
        }
    });
    // Copies of sorts have filters of their own.
    top_filters::place(moved?)
}

/// The scans of a plan, those whose rows joins look up among them.
pub(crate) fn scans<'p>(plan: &'p Arc<dyn ExecutionPlan>, found: &mut Vec<&'p ScanExec>) {
    found.extend(plan.downcast_ref::<ScanExec>());
    found.extend(plan.downcast_ref::<IndexJoinExec>().map(|join| join.inner().as_ref()));
    plan.children().into_iter().for_each(|child| scans(child, found));
}

/// A copy of a plan that has nothing of earlier runs, neither rows nor counts; with `values`, one for these.
pub(crate) fn fresh(plan: &Arc<dyn ExecutionPlan>, values: Option<&[ScalarValue]>) -> Result<Arc<dyn ExecutionPlan>> {
    // Code that was made for a part of the plan is good for its copy, unless that has other values.
    let offload = |node: &Arc<dyn ExecutionPlan>| match (node.downcast_ref::<OffloadExec>(), values) {
        (Some(offload), None) => Some(offload.for_another_run(|plan| fresh(plan, None))),
        _ => None,
    };
    let copied = Arc::clone(plan).transform_down_up(
        |node| match offload(&node) {
            Some(copy) => Ok(Transformed::new(Arc::new(copy), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        },
        |node| {
            if node.is::<OffloadExec>() && values.is_none() {
                return Ok(Transformed::no(node));
            }
            let node = match values {
                Some(values) => parameters::filled(node, values)?,
                None => node,
            };
            if let Some(scan) = node.downcast_ref::<ScanExec>() {
                return Ok(Transformed::yes(Arc::new(scan.renewed()) as Arc<dyn ExecutionPlan>));
            }
            if let Some(subqueries) = node.downcast_ref::<ScalarSubqueryExec>() {
                return with_own_results(subqueries).map(Transformed::yes);
            }
            let is_new = !node.children().is_empty()
                && ExecutorNode::of(node.as_ref()).is_some_and(ExecutorNode::is_new_with_inputs);
            Ok(Transformed::yes(if is_new { node } else { node.reset_state()? }))
        },
    );
    top_filters::place(copied.data()?)
}
