//! Volatile functions in a select list that ORDER BY does not read are called after it, for rows in their order; LIMIT goes
//! below a projection by itself.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Sort};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct VolatileColumnsLate;

impl AnalyzerRule for VolatileColumnsLate {
    fn name(&self) -> &str {
        "volatile_columns_late"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Sort(sort) => sorted(sort),
            node => Ok(Transformed::no(node)),
        })
        .data()
    }
}

fn sorted(sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    if !projection.expr.iter().any(Expr::is_volatile) {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let mut keys = sort.expr.clone();
    for key in &mut keys {
        key.expr = below(key.expr.clone(), projection)?;
        // A volatile key is computed once, in the column that it names.
        if key.expr.is_volatile() {
            return Ok(Transformed::no(LogicalPlan::Sort(sort)));
        }
    }
    let input = LogicalPlanBuilder::from(Arc::clone(&projection.input))
        .sort_with_limit(keys, sort.fetch)?
        .build()?;
    let above =
        Projection::try_new_with_schema(projection.expr.clone(), Arc::new(input), Arc::clone(&projection.schema))?;
    Ok(Transformed::yes(LogicalPlan::Projection(above)))
}

/// What an expression over a projection's columns is over those of its input.
fn below(expr: Expr, projection: &Projection) -> Result<Expr> {
    let of = |column: &Column| -> Result<Expr> {
        let at = projection.schema.index_of_column(column)?;
        Ok(projection.expr[at].clone().unalias())
    };
    expr.transform_up(|expr| match &expr {
        Expr::Column(column) => Ok(Transformed::yes(of(column)?)),
        _ => Ok(Transformed::no(expr)),
    })
    .data()
}
