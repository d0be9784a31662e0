//! An aggregate over columns of a query around alone belongs to that query. Where the binder has not put it there, it is
//! refused.

use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::AggregateFunction;

pub(super) fn check(call: &AggregateFunction) -> Result<()> {
    let params = &call.params;
    let keys = params.order_by.iter().map(|key| &key.expr);
    let (mut own, mut outer) = (false, false);
    for expr in params.args.iter().chain(keys).chain(params.filter.as_deref()) {
        own = own || expr.any_column_refs();
        outer = outer || expr.exists(|expr| Ok(matches!(expr, Expr::OuterReferenceColumn(..))))?;
    }
    if own || !outer {
        return Ok(());
    }
    Err(to_datafusion(SqlError::new(
        state::FEATURE_NOT_SUPPORTED,
        "aggregates of a query around in a subquery with FROM are not supported",
    )))
}
