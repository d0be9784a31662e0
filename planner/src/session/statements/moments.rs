//! The time in plans that are kept: parameters stand for it, after those of the statement, and get their values whenever the
//! plan runs. Their fields have the names of the functions that tell it.

use super::parameters::index;
use crate::catalog::bind::Binder;
use crate::pg::error::Result;
use crate::pg::errors::from_datafusion;
use crate::pg::functions::constant::ConstantFunction;
use datafusion::arrow::datatypes::Field;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A plan of a statement with so many parameters of its own, which may serve other executions of it, with parameters in place
/// of the time; and whether it may.
pub(super) fn opened(binder: &Binder, plan: LogicalPlan, params: usize) -> Result<(LogicalPlan, bool)> {
    if binder.reusable() {
        return Ok((plan, true));
    }
    if binder.facts.used.load(Ordering::Relaxed) {
        return Ok((plan, false));
    }
    let mut possible = true;
    let mut found = 0;
    let opened = plan.clone().transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| {
                let Expr::ScalarFunction(call) = &expr else {
                    return Ok(Transformed::no(expr));
                };
                let value = call.func.inner().downcast_ref::<ConstantFunction>();
                let Some(value) = value.and_then(|_| binder.facts.moment(call.name())) else {
                    return Ok(Transformed::no(expr));
                };
                // A precision is none of its arguments.
                possible &= call.args.is_empty();
                found += 1;
                let field = Field::new(call.name(), value.data_type(), true);
                let id = format!("${}", params + found);
                Ok(Transformed::yes(Expr::Placeholder(Placeholder::new_with_field(
                    id,
                    Some(Arc::new(field)),
                ))))
            })?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })
    });
    let opened = opened.and_then(|opened| opened.data.recompute_schema());
    match opened {
        Ok(opened) if possible && found > 0 => Ok((opened, true)),
        _ => Ok((plan, false)),
    }
}

/// What tells the time in such a plan: in the order of the parameters.
pub(super) fn named(plan: &LogicalPlan, params: usize) -> Result<Vec<String>> {
    let mut found: Vec<(usize, String)> = vec![];
    let mut look = |expr: &Expr| -> DataFusionResult<TreeNodeRecursion> {
        expr.apply(|expr| {
            if let Expr::Placeholder(Placeholder { id, field: Some(field) }) = expr
                && let Some(at) = index(id).filter(|at| *at >= params)
            {
                found.push((at, field.name().clone()));
            }
            Ok(TreeNodeRecursion::Continue)
        })
    };
    let walked = plan.apply_with_subqueries(|node| node.apply_expressions(&mut look));
    walked.map_err(|error| from_datafusion(&error))?;
    found.sort_unstable();
    found.dedup();
    Ok(found.into_iter().map(|(_, name)| name).collect())
}
