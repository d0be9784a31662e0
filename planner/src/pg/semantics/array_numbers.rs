//! Numbers beside arrays of numerics, and arrays of numbers beside numerics: they become numerics before DataFusion's type
//! coercion, which knows no such cast.

use super::fields;
use crate::pg::functions::array;
use crate::pg::named;
use crate::pg::numeric::convert;
use datafusion::arrow::datatypes::Field;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::types::NUMERIC;

#[derive(Debug)]
pub(super) struct NumbersInArrays;

impl AnalyzerRule for NumbersInArrays {
    fn name(&self) -> &str {
        "numbers_in_arrays"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite_node)
            .map(|rewritten| rewritten.data)
    }
}

fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found = found || expr.exists(|expr| Ok(is_candidate(expr)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let rewritten = named::map_expressions(plan, |expr| match expr.exists(|expr| Ok(is_candidate(expr)))? {
        true => expr.transform_up(|expr| rewrite_expr(expr, &schema)),
        false => Ok(Transformed::no(expr)),
    })?;
    match rewritten.transformed {
        true => Ok(Transformed::yes(rewritten.data.recompute_schema()?)),
        false => Ok(rewritten),
    }
}

fn is_candidate(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if array::unifies(&call.func))
}

fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    if !array::unifies(&call.func) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    // What has no type yet, or fits no function, is told of by the rules that follow.
    let types = call
        .args
        .iter()
        .map(|arg| fields::data_type(arg, schema))
        .collect::<Result<Vec<_>>>();
    let Ok(types) = types else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let Some(wanted) = array::unified(&call.func, &types) else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let mut changed = false;
    for (at, (own, wanted)) in types.iter().zip(&wanted).enumerate() {
        let ((leaf, depth), (target, _)) = (array::leaf(own), array::leaf(wanted));
        let numbers = leaf.is_numeric() || *leaf == NUMERIC;
        if !numbers || leaf == target || (*leaf != NUMERIC && *target != NUMERIC) {
            continue;
        }
        let Some(to) = SqlType::from_data_type(target) else {
            continue;
        };
        let arg = std::mem::take(&mut call.args[at]);
        call.args[at] = match depth {
            0 => convert::call(arg, to),
            _ => {
                let field = Arc::new(Field::new("", wanted.clone(), true));
                array::cast_items(arg, own, &field, |one, _| Ok(convert::call(*one.expr, to)))?
            }
        };
        changed = true;
    }
    Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
}
