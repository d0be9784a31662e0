//! An aggregate over columns of a query around alone belongs to that query. Where the binder has not put it there, it is
//! refused; those of a function's body that was put in the place of a call are the body's own.

use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::constant::OF_BODY;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, Operator};

/// Whether the mark of a function's body was there, and is gone now.
pub(super) fn check(call: &mut AggregateFunction) -> Result<bool> {
    if let Some(filter) = call.params.filter.take_if(|filter| is_marked(filter)) {
        call.params.filter = match *filter {
            Expr::BinaryExpr(both) => Some(both.right),
            _ => None,
        };
        return Ok(true);
    }
    let params = &call.params;
    let keys = params.order_by.iter().map(|key| &key.expr);
    let (mut own, mut outer) = (false, false);
    for expr in params.args.iter().chain(keys).chain(params.filter.as_deref()) {
        own = own || expr.any_column_refs();
        outer = outer || expr.exists(|expr| Ok(matches!(expr, Expr::OuterReferenceColumn(..))))?;
    }
    if own || !outer {
        return Ok(false);
    }
    Err(to_datafusion(SqlError::new(
        state::FEATURE_NOT_SUPPORTED,
        "aggregates of a query around in a subquery with FROM are not supported",
    )))
}

fn is_marked(filter: &Expr) -> bool {
    match filter {
        Expr::ScalarFunction(call) => call.name() == OF_BODY,
        Expr::BinaryExpr(both) => both.op == Operator::And && is_marked(&both.left),
        _ => false,
    }
}
