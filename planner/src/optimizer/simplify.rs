//! DataFusion's rule that simplifies expressions, where there is something to simplify, and dates beside points in time.

use super::date_bounds::DateBounds;
use crate::pg::occurring::{all_are, is_column};
use crate::pg::planning::all_rules;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `SimplifyExpressions` (DataFusion 55.2) makes the schema of each node's inputs anew, and evaluators for each expression, which
/// are mere columns for the most part.
///
/// Constants are literals afterwards, so that it is seen which dates are compared with points in time. What the comparisons
/// become is simplified in the same turn: it would take a whole pass of the optimizer otherwise.
#[derive(Debug, Default)]
pub struct SimplifyWhatCanBe {
    simplify: SimplifyExpressions,
    dates: DateBounds,
}

impl OptimizerRule for SimplifyWhatCanBe {
    fn name(&self) -> &str {
        self.simplify.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.simplify.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !all_rules() && all_are(&plan, is_simple)? {
            if cfg!(debug_assertions) {
                let simplified = self.simplify.rewrite(plan.clone(), config)?.data;
                // What is known of keys below may have come since the node was made.
                let is_same = simplified.expressions() == plan.expressions();
                debug_assert!(is_same, "{} was taken for simple", plan.display());
            }
            return Ok(Transformed::no(plan));
        }
        let simplified = self.simplify.rewrite(plan, config)?;
        let bounded = self.dates.rewrite(simplified.data, config)?;
        match bounded.transformed {
            true => Ok(Transformed::yes(self.simplify.rewrite(bounded.data, config)?.data)),
            false => Ok(Transformed::new_transformed(bounded.data, simplified.transformed)),
        }
    }
}

/// Whether an expression is as simple as can be.
fn is_simple(expr: &Expr) -> bool {
    match expr {
        // Of a name for a name the latter is left.
        Expr::Alias(alias) => !matches!(*alias.expr, Expr::Alias(_)) && is_simple(&alias.expr),
        Expr::OuterReferenceColumn(..) | Expr::Placeholder(_) => true,
        Expr::AggregateFunction(call) => {
            call.params.filter.is_none()
                && call.params.order_by.is_empty()
                // Names within an expression go.
                && call.params.args.iter().all(|arg| !matches!(arg, Expr::Alias(_)) && is_simple(arg))
                && call.func.simplify().is_none()
        }
        other => is_column(other),
    }
}
