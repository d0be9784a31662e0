//! Which of a plan's decimal columns are declared with their precision: those of a table, and casts. Arithmetic gives
//! decimals too, but what it gives is a `numeric`, of which a table that is made of it must hold any.

use datafusion::logical_expr::{Expr, LogicalPlan};

/// Whether output column `at` has its precision from a table's column or a cast.
pub(crate) fn is_declared(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(projection) => projection
            .expr
            .get(at)
            .is_some_and(|expr| of_expr(expr, &projection.input)),
        LogicalPlan::Aggregate(aggregate) => aggregate
            .group_expr
            .get(at)
            .is_some_and(|expr| of_expr(expr, &aggregate.input)),
        LogicalPlan::Union(union) => union.inputs.iter().all(|input| is_declared(input, at)),
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match at < left {
                true => is_declared(&join.left, at),
                false => is_declared(&join.right, at - left),
            }
        }
        LogicalPlan::Window(window) => at < window.input.schema().fields().len() && is_declared(&window.input, at),
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(_) => plan.inputs().first().is_some_and(|input| is_declared(input, at)),
        _ => false,
    }
}

fn of_expr(expr: &Expr, input: &LogicalPlan) -> bool {
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, input),
        Expr::Cast(_) => true,
        Expr::Column(column) => match input.schema().maybe_index_of_column(column) {
            Some(at) => is_declared(input, at),
            None => false,
        },
        _ => false,
    }
}
