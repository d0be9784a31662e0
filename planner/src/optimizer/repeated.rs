//! DataFusion's rule that computes what several expressions have in common once, where they have something in common.

use super::passes::hash;
use super::same_windows;
use crate::pg::planning::all_rules;
use datafusion::common::Result;
use datafusion::common::cse::HashNode;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use foldhash::fast::FixedState;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};

/// `CommonSubexprEliminate` (DataFusion 55.2) takes every node apart to see whether an expression is there twice.
#[derive(Debug, Default)]
pub struct EliminateWhatRepeats(CommonSubexprEliminate);

impl OptimizerRule for EliminateWhatRepeats {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if all_rules() || repeats(&plan)? {
            return same_windows::once(plan)?
                .transform_data(|plan| self.0.rewrite(plan, config))?
                .transform_data(same_windows::without_names);
        }
        if cfg!(debug_assertions) {
            let made = self.0.rewrite(plan.clone(), config)?.data;
            debug_assert!(
                hash(&made) == hash(&plan),
                "{} was said to repeat nothing",
                plan.display_indent()
            );
        }
        Ok(Transformed::no(plan))
    }
}

/// Whether a node of the plan computes the same twice, or may, or is not as the rule leaves it. What two operands make is taken for the same in either order.
fn repeats(plan: &LogicalPlan) -> Result<bool> {
    let (mut found, mut seen) = (false, HashSet::new());
    plan.apply_with_subqueries(|node| {
        seen.clear();
        found |= match node {
            // Window functions above each other are looked at together.
            LogicalPlan::Window(window) => matches!(*window.input, LogicalPlan::Window(_)),
            // A condition that is made anew has no names inside.
            LogicalPlan::Filter(filter) => filter.predicate.exists(|expr| Ok(matches!(expr, Expr::Alias(_))))?,
            _ => false,
        };
        node.apply_expressions(|expr| {
            found = found || see(expr, &mut seen)?.1;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// An expression's hash, and whether a part of it has been seen.
fn see(expr: &Expr, seen: &mut HashSet<u64>) -> Result<(u64, bool)> {
    let (mut parts, mut again) = (0_u64, false);
    expr.apply_children(|part| {
        let (hash, found) = see(part, seen)?;
        parts = parts.wrapping_add(hash);
        again |= found;
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut hasher = FixedState::default().build_hasher();
    expr.hash_node(&mut hasher);
    hasher.write_u64(parts);
    let hash = hasher.finish();
    let computes = !matches!(expr, Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_));
    Ok((hash, again || computes && !seen.insert(hash)))
}
