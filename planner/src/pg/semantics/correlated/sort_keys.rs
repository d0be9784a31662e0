//! ORDER BY over subqueries that read columns of FROM which the SELECT list lacks: DataFusion lends a sort the columns that its
//! keys name, but for those in subqueries.

use super::references::free;
use super::subquery_of;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, plan_err};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Projection, Sort};
use std::sync::Arc;

/// A sort over the columns that its keys read.
pub(in crate::pg::semantics) fn with_columns(sort: Sort) -> Result<LogicalPlan> {
    let schema = sort.input.schema();
    let mut read: Vec<Column> = Vec::new();
    for key in &sort.expr {
        key.expr.apply(|expr| {
            if let Some(subquery) = subquery_of(expr) {
                let columns = free(&subquery.subquery)?.into_iter().map(|(_, column)| column);
                read.extend(columns.filter(|column| !schema.has_column(column)));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    // Others are of queries around this one.
    let lacks = |projection: &Projection| {
        let below = projection.input.schema();
        let mut lacks: Vec<Column> = Vec::new();
        for column in &read {
            if below.has_column(column) && !lacks.contains(column) {
                lacks.push(column.clone());
            }
        }
        lacks
    };
    match sort.input.as_ref() {
        LogicalPlan::Projection(projection) => {
            let lacks = lacks(projection);
            if lacks.is_empty() {
                return Ok(LogicalPlan::Sort(sort));
            }
            let columns = schema.columns().into_iter().map(Expr::Column);
            let exprs = projection
                .expr
                .iter()
                .cloned()
                .chain(lacks.into_iter().map(Expr::Column));
            let input = Projection::try_new(exprs.collect(), Arc::clone(&projection.input))?;
            let input = Arc::new(LogicalPlan::Projection(input));
            LogicalPlanBuilder::from(LogicalPlan::Sort(Sort { input, ..sort.clone() }))
                .project(columns)?
                .build()
        }
        LogicalPlan::Distinct(Distinct::All(input)) if matches!(input.as_ref(), LogicalPlan::Projection(own) if !lacks(own).is_empty()) =>
        {
            plan_err!("For SELECT DISTINCT, ORDER BY expressions must appear in select list")
        }
        _ => Ok(LogicalPlan::Sort(sort)),
    }
}
