//! What DataFusion's simplification writes down several times: the arguments of `coalesce` (as CASE WHEN a IS NOT NULL THEN
//! a), what BETWEEN compares, what IN compares with few values. In each other they double at each step, within one rule,
//! where neither a cancel nor a limit of memory reaches. `coalesce` of `coalesce` becomes one; what would still grow past
//! any use is refused.

use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::named;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// Nodes of one expression once everything is written down. A plain one has as many as its text has words; the parser bears
/// some tens of thousands.
const NODES_MAX: u64 = 200_000;

#[derive(Debug)]
pub(super) struct Expansion;

impl AnalyzerRule for Expansion {
    fn name(&self) -> &str {
        "expansion"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut plan = plan;
        let mut expanded = Expanded::of(&plan)?;
        if expanded.nested {
            plan = plan.transform_up_with_subqueries(flatten)?.data;
            expanded = Expanded::of(&plan)?;
        }
        if expanded.largest > NODES_MAX {
            let message = "the statement is too complex: functions that use their arguments several times are in each \
                           other too deep";
            return Err(to_datafusion(SqlError::new(state::STATEMENT_TOO_COMPLEX, message)));
        }
        Ok(plan)
    }
}

fn coalesced(expr: &Expr) -> Option<&ScalarFunction> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == "coalesce" => Some(call),
        _ => None,
    }
}

fn is_nested(expr: &Expr) -> bool {
    coalesced(expr).is_some_and(|call| call.args.iter().any(|arg| coalesced(arg).is_some()))
}

fn flatten(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut nested = false;
    node.apply_expressions(|expr| {
        nested = nested || expr.exists(|expr| Ok(is_nested(expr)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !nested {
        return Ok(Transformed::no(node));
    }
    named::map_expressions(node, |expr| {
        expr.transform_up(|expr| match expr {
            Expr::ScalarFunction(mut call) if call.name() == "coalesce" => {
                let args = std::mem::take(&mut call.args).into_iter();
                let args = args.flat_map(|arg| match arg {
                    Expr::ScalarFunction(inner) if inner.name() == "coalesce" => inner.args,
                    other => vec![other],
                });
                call.args = args.collect();
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })
    })
}

/// How many nodes expressions will have, and whether `coalesce` stands in `coalesce`.
#[derive(Default)]
struct Expanded {
    /// Of the children seen so far, for each node above and the one at hand.
    nodes: Vec<u64>,
    largest: u64,
    nested: bool,
}

impl Expanded {
    /// Of all expressions of a plan.
    fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut expanded = Self::default();
        plan.apply_with_subqueries(|node| node.apply_expressions(|expr| expr.visit(&mut expanded)))?;
        Ok(expanded)
    }
}

impl<'n> TreeNodeVisitor<'n> for Expanded {
    type Node = Expr;

    fn f_down(&mut self, _: &'n Expr) -> Result<TreeNodeRecursion> {
        self.nodes.push(0);
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, expr: &'n Expr) -> Result<TreeNodeRecursion> {
        let times = match expr {
            Expr::Between(_) => 2,
            Expr::InList(list) if list.list.len() <= 3 => list.list.len() as u64,
            _ if coalesced(expr).is_some() => 2,
            _ => 1,
        };
        let own = self.nodes.pop().unwrap_or(0).saturating_mul(times).saturating_add(1);
        self.largest = self.largest.max(own);
        self.nested = self.nested || is_nested(expr);
        if let Some(above) = self.nodes.last_mut() {
            *above = above.saturating_add(own);
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
