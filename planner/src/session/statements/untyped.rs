//! Literals without a type, which become values of the columns that they are assigned to. What is computed of them, or has gone
//! through a subquery, DISTINCT, grouping or a set operation, is text, as in PostgreSQL.

use super::insert::check_assignable;
use crate::pg::error::Result;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Column;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use tenon_storage::{ColumnDef, SqlType};

/// 42804 where PostgreSQL has no assignment cast for a column of a plan.
pub(super) fn check_column(plan: &LogicalPlan, at: usize, column: &ColumnDef) -> Result<()> {
    check(plan.schema().field(at), column, || is_literal(plan, at))
}

/// The same for one value.
pub(super) fn check_value(value: &Expr, field: &Field, column: &ColumnDef) -> Result<()> {
    check(field, column, || is_untyped(value))
}

fn check(field: &Field, column: &ColumnDef, is_literal: impl FnOnce() -> bool) -> Result<()> {
    let takes_texts = column.sql_type.is_string() && column.sql_type != SqlType::Json;
    let is_text = *field.data_type() == DataType::Utf8 && !takes_texts && !is_literal();
    match is_text {
        true => check_assignable(&SqlType::Text.field(field.name(), true), column),
        false => check_assignable(field, column),
    }
}

fn is_untyped(value: &Expr) -> bool {
    match value {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Alias(alias) => is_untyped(&alias.expr),
        // Of NULL, beside others in a column of VALUES.
        Expr::Cast(cast) => is_untyped(&cast.expr),
        // Its type is that of all its results, of which it has that of the first before it is analyzed.
        Expr::Case(case) => {
            let mut results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            !results.all(|result| is_untyped(result))
        }
        _ => false,
    }
}

/// Whether a plan gives a column as it was written.
fn is_literal(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr[at].clone().unalias_nested().data {
            Expr::Column(column) => {
                let below = projection.input.schema().maybe_index_of_column(&column);
                below.is_some_and(|below| is_literal(&projection.input, below))
            }
            value => is_untyped(&value),
        },
        LogicalPlan::Values(values) => values.values.iter().all(|row| is_untyped(&row[at])),
        LogicalPlan::Sort(sort) => {
            let own = Expr::Column(Column::from(sort.input.schema().qualified_field(at)));
            sort.expr.iter().all(|key| key.expr != own) && is_literal(&sort.input, at)
        }
        LogicalPlan::Limit(limit) => is_literal(&limit.input, at),
        LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Distinct(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::Join(_) => false,
        _ => true,
    }
}
