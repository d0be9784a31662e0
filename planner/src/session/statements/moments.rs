//! The time, and who runs a statement, in plans that are kept: parameters stand for them, after those of the statement, and get their
//! values whenever the plan runs. Their fields have the names of the functions that tell it. So it is with what a single row takes of
//! sequences.

use super::parameters::index;
use crate::catalog::bind::Binder;
use crate::pg::error::Result;
use crate::pg::errors::from_datafusion;
use crate::pg::functions::constant::ConstantFunction;
use crate::pg::functions::sequence;
use crate::pg::functions::session::Facts;
use crate::pg::functions::sets;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the name of a field that stands for `nextval` begins with; the sequence's oid follows.
const NEXT: &str = "nextval ";

/// A plan of a statement with so many parameters of its own, which may serve other executions of it, with parameters in place
/// of the time; and whether it may.
pub(super) fn opened(binder: &Binder, plan: LogicalPlan, params: usize) -> Result<(LogicalPlan, bool)> {
    opened_beside(binder, plan, params, 0)
}

/// The same where something else has taken so many things of the statement's own out of the plan.
pub(super) fn opened_beside(
    binder: &Binder,
    plan: LogicalPlan,
    params: usize,
    beside: usize,
) -> Result<(LogicalPlan, bool)> {
    if binder.reusable() {
        return Ok((plan, true));
    }
    if binder.facts.used.load(Ordering::Relaxed) {
        return Ok((plan, false));
    }
    let mut possible = true;
    let mut found = 0;
    let one_row = is_one_row(&plan)?;
    let opened = plan.clone().transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let mut expr = Transformed::no(expr);
            if one_row {
                expr.transformed = next_replaced(&mut expr.data, &mut |oid| {
                    found += 1;
                    let field = Field::new(format!("{NEXT}{oid}"), DataType::Int64, true);
                    placeholder(field, params + found)
                });
            }
            let (own, was_opened) = (expr.data, expr.transformed);
            let changed = own.transform_up(|expr| {
                let Expr::ScalarFunction(call) = &expr else {
                    return Ok(Transformed::no(expr));
                };
                possible &= !sequence::is_next(&call.func);
                let value = call.func.inner().downcast_ref::<ConstantFunction>();
                let Some(value) = value.and_then(|_| binder.facts.moment(call.name())) else {
                    return Ok(Transformed::no(expr));
                };
                // A precision is none of its arguments.
                possible &= call.args.is_empty();
                found += 1;
                let field = Field::new(call.name(), value.data_type(), true);
                Ok(Transformed::yes(placeholder(field, params + found)))
            })?;
            let mut changed = changed.update_data(|expr| name.restore(expr));
            changed.transformed |= was_opened;
            Ok(changed)
        })
    });
    let opened = opened.and_then(|opened| opened.data.recompute_schema());
    match opened {
        Ok(opened) if possible && found + beside > 0 => Ok((opened, true)),
        _ => Ok((plan, false)),
    }
}

fn placeholder(field: Field, number: usize) -> Expr {
    Expr::Placeholder(Placeholder::new_with_field(format!("${number}"), Some(Arc::new(field))))
}

/// Whether a plan makes one row out of expressions alone, each of which is evaluated once.
pub(super) fn is_one_row(plan: &LogicalPlan) -> Result<bool> {
    let mut one = true;
    let walked = plan.apply_with_subqueries(|node| {
        one &= match node {
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => true,
            LogicalPlan::Values(values) => values.values.len() == 1,
            LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
            _ => false,
        };
        node.apply_expressions(|expr| {
            let gives_rows = |expr: &Expr| matches!(expr, Expr::Unnest(_)) || sets::called(expr).is_some();
            one &= !expr.exists(|expr| Ok(gives_rows(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })
    });
    walked.map_err(|error| from_datafusion(&error))?;
    Ok(one)
}

/// Puts something in the place of a `nextval`, of a sequence with this oid, that is all of an expression but for its type and name:
/// nothing decides whether it is called. Whether there was one.
pub(super) fn next_replaced(expr: &mut Expr, put: &mut dyn FnMut(u32) -> Expr) -> bool {
    match expr {
        Expr::Alias(alias) => next_replaced(&mut alias.expr, put),
        Expr::Cast(cast) => next_replaced(&mut cast.expr, put),
        Expr::ScalarFunction(call) if sequence::is_next(&call.func) => {
            let Some(oid) = sequence::named(&call.func, &call.args) else {
                return false;
            };
            *expr = put(oid);
            true
        }
        _ => false,
    }
}

/// The values of such parameters, by their names.
pub(super) fn values(facts: &Arc<Facts>, names: &[String]) -> Result<Vec<ScalarValue>> {
    let value = |name: &String| match name.strip_prefix(NEXT).and_then(|oid| oid.parse().ok()) {
        Some(oid) => Ok(ScalarValue::Int64(Some(sequence::next(facts, oid)?))),
        None => Ok(facts.moment(name).unwrap_or(ScalarValue::Null)),
    };
    names.iter().map(value).collect()
}

/// What tells the time in such a plan, and the sequences: in the order of the parameters.
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
