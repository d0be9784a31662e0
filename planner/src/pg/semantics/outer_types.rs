//! The types of references to an enclosing query's row: a subquery is coerced before the query around it, whose columns may
//! get other types then (`nullif('a', 'b')`, a union's). What stands beside such a reference is coerced anew.

use super::correlated::{has_lateral, subquery_of};
use super::ungrouped;
use crate::pg::errors::to_datafusion;
use crate::pg::planning;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use std::sync::Arc;

/// A rule right after type coercion.
#[derive(Debug)]
pub(super) struct OuterColumnsTakeTypes;

impl AnalyzerRule for OuterColumnsTakeTypes {
    fn name(&self) -> &str {
        "outer_columns_take_types"
    }

    fn analyze(&self, mut plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_references(&plan)? {
            return Ok(plan);
        }
        ungrouped::refuse(&plan)?;
        // A query's own columns may change by a subquery that changed: each turn settles one more level.
        loop {
            planning::check().map_err(to_datafusion)?;
            let renewed = renewed(plan, &mut Vec::new())?;
            if !renewed.transformed {
                return Ok(renewed.data);
            }
            plan = TypeCoercion::new().analyze(renewed.data, options)?;
        }
    }
}

fn has_references(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = found || expr.exists(|expr| Ok(matches!(expr, Expr::OuterReferenceColumn(..))))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// The plan whose references have the types of the rows that they name. `rows`: those of the queries around it.
fn renewed(plan: LogicalPlan, rows: &mut Vec<DFSchemaRef>) -> Result<Transformed<LogicalPlan>> {
    let inputs = match plan {
        LogicalPlan::Join(mut join) => {
            let left = renewed(Arc::unwrap_or_clone(join.left), rows)?;
            let lateral = has_lateral(&join.right)?;
            if lateral {
                rows.push(left.data.schema().clone());
            }
            let right = renewed(Arc::unwrap_or_clone(join.right), rows);
            if lateral {
                rows.pop();
            }
            let right = right?;
            (join.left, join.right) = (Arc::new(left.data), Arc::new(right.data));
            Transformed::new_transformed(LogicalPlan::Join(join), left.transformed || right.transformed)
        }
        LogicalPlan::Subquery(subquery) => renewed_subquery(subquery, rows)?.update_data(LogicalPlan::Subquery),
        plan => plan.map_children(|child| renewed(child, rows))?,
    };
    let own = Arc::new(merge_schema(&inputs.data.inputs()));
    inputs.transform_data(|plan| {
        plan.map_expressions(|expr| {
            expr.transform_up(|expr| {
                if subquery_of(&expr).is_none() {
                    return Ok(reference(expr, rows));
                }
                rows.push(own.clone());
                let inner = within(expr, rows);
                rows.pop();
                inner
            })
        })
    })
}

fn within(expr: Expr, rows: &mut Vec<DFSchemaRef>) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarSubquery(subquery) => renewed_subquery(subquery, rows)?.update_data(Expr::ScalarSubquery),
        Expr::Exists(exists) => {
            renewed_subquery(exists.subquery, rows)?.update_data(|subquery| Expr::Exists(Exists { subquery, ..exists }))
        }
        Expr::InSubquery(within) => renewed_subquery(within.subquery, rows)?
            .update_data(|subquery| Expr::InSubquery(InSubquery { subquery, ..within })),
        other => Transformed::no(other),
    })
}

fn renewed_subquery(subquery: Subquery, rows: &mut Vec<DFSchemaRef>) -> Result<Transformed<Subquery>> {
    let plan = renewed(Arc::unwrap_or_clone(subquery.subquery), rows)?;
    let references = subquery.outer_ref_columns.into_iter();
    let outer_ref_columns = references
        .map(|expr| reference(expr, rows))
        .map(Ok)
        .map(TransformedResult::data);
    Ok(Transformed::new_transformed(
        Subquery {
            subquery: Arc::new(plan.data),
            outer_ref_columns: outer_ref_columns.collect::<Result<_>>()?,
            spans: subquery.spans,
        },
        plan.transformed,
    ))
}

/// A reference with the type that its column has now.
fn reference(expr: Expr, rows: &[DFSchemaRef]) -> Transformed<Expr> {
    let Expr::OuterReferenceColumn(field, column) = expr else {
        return Transformed::no(expr);
    };
    let now = rows
        .iter()
        .rev()
        .find_map(|row| row.qualified_field_from_column(&column).ok());
    match now {
        Some((_, now)) if now.data_type() != field.data_type() => {
            Transformed::yes(Expr::OuterReferenceColumn(now.clone(), column))
        }
        _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
    }
}
