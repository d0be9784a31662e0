//! Constants so long that a batch of copies of them would not fit: the query's batches are short then.

use super::arguments::scalar_bytes;
use super::call::Bounded;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What a batch of copies of a constant may take, bytes.
const COPIES_BYTES: u64 = 16 << 20;

/// Rows of a batch in which a constant of so many bytes may be copied for each row, up to `rows`.
pub(crate) fn batch_rows(longest_bytes: u64, rows: usize) -> usize {
    let fitting = COPIES_BYTES / longest_bytes.max(1);
    rows.min(usize::try_from(fitting).unwrap_or(usize::MAX)).max(1)
}

/// Bytes of a plan's longest constant.
pub(crate) fn longest_constant(plan: &LogicalPlan) -> Result<u64> {
    let mut longest = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                longest = longest.max(constant_bytes(expr));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(longest)
}

fn constant_bytes(expr: &Expr) -> u64 {
    match expr {
        Expr::Literal(value, _) => scalar_bytes(value),
        Expr::ScalarFunction(call) => {
            let constant = |expr: &Expr| match expr {
                Expr::Literal(value, _) => Some(value.clone()),
                _ => None,
            };
            let bounded = call.func.inner().downcast_ref::<Bounded>();
            let constants: Option<Vec<_>> = call.args.iter().map(constant).collect();
            match (bounded, constants) {
                (Some(bounded), Some(constants)) => bounded.width(&constants),
                _ => 0,
            }
        }
        _ => 0,
    }
}
