//! Functions in FROM, and in the select lists of subqueries in FROM, are called where they do something, though nobody reads
//! what they give: `SELECT count(*) FROM pg_advisory_lock(7)`.

use crate::pg::nodes::WholeRows;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct EffectsOfRows;

impl AnalyzerRule for EffectsOfRows {
    fn name(&self) -> &str {
        "effects_of_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::SubqueryAlias(mut alias) => {
                let wanted = does_something(&alias.input)?;
                if wanted {
                    alias.input = Arc::new(match Arc::unwrap_or_clone(alias.input) {
                        // LATERAL is seen by its subquery, which stays outermost.
                        LogicalPlan::Subquery(mut lateral) => {
                            let rows = Arc::unwrap_or_clone(lateral.subquery);
                            lateral.subquery = Arc::new(WholeRows::plan(rows));
                            LogicalPlan::Subquery(lateral)
                        }
                        rows => WholeRows::plan(rows),
                    });
                }
                Ok(Transformed::new_transformed(LogicalPlan::SubqueryAlias(alias), wanted))
            }
            node => Ok(Transformed::no(node)),
        })
        .data()
    }
}

/// Whether a column of a subquery does, subqueries in its own FROM left aside.
fn does_something(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if matches!(node, LogicalPlan::SubqueryAlias(_)) || WholeRows::is(node) {
            return Ok(TreeNodeRecursion::Jump);
        }
        node.apply_expressions(|expr| {
            found = found || expr.exists(|expr| Ok(has_effect(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Functions that change what others see, or when.
const WITH_EFFECT: [&str; 9] = [
    "nextval",
    "pg_cancel_backend",
    "pg_notify",
    "pg_reload_conf",
    "pg_sleep",
    "pg_terminate_backend",
    "set_config",
    "setseed",
    "setval",
];

fn has_effect(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else {
        return false;
    };
    let name = call.name();
    WITH_EFFECT.contains(&name) || name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_")
}
