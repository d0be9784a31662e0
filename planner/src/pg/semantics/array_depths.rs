//! Casts of arrays to array types that are written with other numbers of dimensions: to PostgreSQL these are one type, and an array
//! keeps its own. Before anything asks for the types of what stands around them.

use super::fields;
use crate::pg::functions::array;
use crate::pg::named;
use crate::pg::types::planner::WRITTEN;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;
use tenon_storage::SqlType;

#[derive(Debug)]
pub(super) struct ArraysKeepDepths;

impl AnalyzerRule for ArraysKeepDepths {
    fn name(&self) -> &str {
        "arrays_keep_depths"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found = found || has_candidates(node)?;
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        if !found {
            return Ok(plan);
        }
        let rewritten = plan.transform_up_with_subqueries(|node| {
            // What is below may give other types now.
            let done = rewrite_node(node)?;
            Ok(Transformed::yes(done.recompute_schema()?))
        })?;
        Ok(rewritten.data)
    }
}

fn has_candidates(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = found || expr.exists(|expr| Ok(candidate(expr).is_some()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether it is a cast to an array type whose dimensions may be others than it says.
pub(crate) fn is_array_cast(expr: &Expr) -> bool {
    candidate(expr).is_some()
}

fn candidate(expr: &Expr) -> Option<&Cast> {
    match expr {
        Expr::Cast(cast) if cast.field.name() == WRITTEN && array::leaf(cast.field.data_type()).1 > 0 => Some(cast),
        _ => None,
    }
}

fn rewrite_node(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_candidates(&plan)? {
        return Ok(plan);
    }
    let schema = merge_schema(&plan.inputs());
    let rewritten = named::map_expressions(plan, |expr| {
        expr.transform_up(|expr| {
            Ok(match candidate(&expr).and_then(|cast| deepened(cast, &schema)) {
                Some(cast) => Transformed::yes(Expr::Cast(cast)),
                None => Transformed::no(expr),
            })
        })
    })?;
    Ok(rewritten.data)
}

/// A cast of an array that has another number of dimensions than what is written, with the array's own.
fn deepened(cast: &Cast, schema: &DFSchema) -> Option<Cast> {
    // What has no type yet is told of by the rules that follow.
    let given = fields::data_type(&cast.expr, schema).ok()?;
    let (own, wanted) = (array::leaf(&given).1, array::leaf(cast.field.data_type()).1);
    if own == 0 || own == wanted {
        return None;
    }
    let Some(SqlType::Array(of)) = SqlType::from_field(&cast.field) else {
        return None;
    };
    let field = SqlType::Array(of.with_dimensions(own)).field(WRITTEN, cast.field.is_nullable());
    Some(Cast::new_from_field(cast.expr.clone(), Arc::new(field)))
}
