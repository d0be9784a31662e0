//! CASE whose conditions give another value each time. To know whether it may be NULL, DataFusion (55.2, `CaseExpr::nullable`)
//! evaluates conditions while it plans: a sequence would go on, a lock be taken. Of `CASE true WHEN condition` it does not,
//! which is the same.

use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, lit};

pub(super) fn has_them(case: &Case) -> bool {
    case.expr.is_none() && case.when_then_expr.iter().any(|(when, _)| when.is_volatile())
}

pub(super) fn compared(mut case: Case) -> Transformed<Expr> {
    case.expr = Some(Box::new(lit(true)));
    Transformed::yes(Expr::Case(case))
}
