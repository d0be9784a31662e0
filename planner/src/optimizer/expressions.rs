//! Changing the expressions of physical plans that are made already.

use crate::pg::nodes::{LimitByValueExec, with_args_changed};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;
use tenon_executor::expr::accelerate;
use tenon_executor::join::IndexJoinExec;
use tenon_executor::scan::ScanExec;

/// Which expressions are meant.
type IsWanted<'a> = &'a dyn Fn(&Arc<dyn PhysicalExpr>) -> bool;

/// Whether [`with_exprs_changed`] comes to every such expression of the plan.
pub(super) fn comes_to_all(plan: &Arc<dyn ExecutionPlan>, is_wanted: IsWanted<'_>) -> Result<bool> {
    let own = plan.downcast_ref::<ScanExec>().is_some()
        || plan.downcast_ref::<FilterExec>().is_some()
        || plan.downcast_ref::<ProjectionExec>().is_some()
        || plan.is::<LimitByValueExec>()
        || plan.name() == "ProjectSetExec";
    let comes = match plan.downcast_ref::<IndexJoinExec>() {
        Some(join) => !has_elsewhere(join, is_wanted)?,
        None => own || !has(plan, is_wanted)?,
    };
    if !comes {
        return Ok(false);
    }
    for child in plan.children() {
        if !comes_to_all(child, is_wanted)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a join has such an expression but in what rows are looked up by.
fn has_elsewhere(join: &IndexJoinExec, is_wanted: IsWanted<'_>) -> Result<bool> {
    let spec = join.spec();
    let also = spec.also_equal.iter().map(|(expr, _)| expr);
    let filter = spec.filter.as_ref().map(JoinFilter::expression);
    let bounds = spec.lookup.low.iter().chain(&spec.lookup.high);
    for expr in also.chain(filter).chain(bounds) {
        if expr.exists(|expr| Ok(is_wanted(expr)))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has(node: &Arc<dyn ExecutionPlan>, is_wanted: IsWanted<'_>) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(&mut |expr| {
        found |= expr.exists(|expr| Ok(is_wanted(expr)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// One node with its own expressions that have such ones changed; its inputs stay as they are.
pub(super) fn with_exprs_changed(
    node: Arc<dyn ExecutionPlan>,
    is_wanted: IsWanted<'_>,
    change: &dyn Fn(Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = |expr: Arc<dyn PhysicalExpr>| match expr.exists(|expr| Ok(is_wanted(expr)))? {
        true => change(expr),
        false => Ok(expr),
    };
    if let Some(join) = node.downcast_ref::<IndexJoinExec>() {
        let looked_up: Arc<dyn ExecutionPlan> = join.inner().clone();
        return Ok(match has(&looked_up, is_wanted)? || has(&node, is_wanted)? {
            true => Arc::new(join.with_values_changed(changed)?),
            false => node,
        });
    }
    if !has(&node, is_wanted)? {
        return Ok(node);
    }
    if let Some(scan) = node.downcast_ref::<ScanExec>() {
        return Ok(Arc::new(scan.with_filters_changed(changed)?));
    }
    if let Some(limit) = node.downcast_ref::<LimitByValueExec>() {
        return Ok(Arc::new(limit.with_bounds_changed(changed)?));
    }
    if let Some(sets) = with_args_changed(&node, changed) {
        return sets;
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let predicate = accelerate(changed(filter.predicate().clone())?)?;
        return Ok(Arc::new(
            FilterExecBuilder::from(filter).with_predicate(predicate).build()?,
        ));
    }
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else {
        return internal_err!("an expression to change in {}", node.name());
    };
    let mut exprs = projection.expr().to_vec();
    for projected in &mut exprs {
        projected.expr = accelerate(changed(projected.expr.clone())?)?;
    }
    Ok(Arc::new(ProjectionExec::try_new(exprs, projection.input().clone())?))
}
