//! Expressions rewritten under their names.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The node with its expressions rewritten, each with the name that it had: those above know what a group or an aggregate
/// computes by its name. Each key of grouping sets is a column above.
pub(crate) fn map_expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let mut own = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    };
    node.map_expressions(|expr| match expr {
        sets @ Expr::GroupingSet(_) => sets.map_children(&mut own),
        expr => own(expr),
    })
}
