//! Plans whose subqueries stand deep in each other.
//!
//! DataFusion checks a plan with its subqueries, and each of these with its own once more: time by two to the power of their
//! depth, in which nothing can be cancelled. Here the same rules run over such plans, and each subquery is checked once.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::logical_plan::{assert_expected_schema, check_subquery_expr};
use datafusion::logical_expr::{Expr, InvariantLevel, LogicalPlan, Subquery, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Subqueries in each other that DataFusion checks fast enough.
const DEPTH_MAX: usize = 4;

/// The plan analyzed and optimized.
pub(crate) fn optimized(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan> {
    match is_deep(plan)? {
        true => optimized_analyzed(state, analyzed(state, plan.clone())?),
        false => state.optimize(plan),
    }
}

/// The plan analyzed.
pub(crate) fn analyzed(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let (analyzer, options) = (state.analyzer(), state.config_options());
    if !is_deep(&plan)? {
        return analyzer.execute_and_check(plan, options, |_, _| {});
    }
    let mut plan = plan;
    for rule in &analyzer.rules {
        plan = rule.analyze(plan, options)?;
    }
    check(&plan)?;
    Ok(plan)
}

/// An analyzed plan optimized.
pub(crate) fn optimized_analyzed(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let optimizer = state.optimizer();
    if !is_deep(&plan)? {
        return optimizer.optimize(plan, state, |_, _| {});
    }
    let mut plan = plan;
    let mut seen = HashSet::from([hash(&plan)]);
    for _ in 0..state.config_options().optimizer.max_passes {
        for rule in &optimizer.rules {
            let schema = plan.schema().clone();
            plan = match rule.apply_order() {
                Some(order) => {
                    let mut pass = Pass {
                        order,
                        rule: rule.as_ref(),
                        state,
                    };
                    plan.rewrite_with_subqueries(&mut pass)?.data
                }
                None => rule.rewrite(plan, state)?.data,
            };
            assert_expected_schema(&schema, &plan)?;
        }
        if !seen.insert(hash(&plan)) {
            break;
        }
    }
    check(&plan)?;
    Ok(plan)
}

fn hash(plan: &LogicalPlan) -> u64 {
    let mut hasher = DefaultHasher::new();
    plan.hash(&mut hasher);
    hasher.finish()
}

/// One rule over one plan.
struct Pass<'a> {
    order: ApplyOrder,
    rule: &'a dyn OptimizerRule,
    state: &'a SessionState,
}

impl TreeNodeRewriter for Pass<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::TopDown => self.rule.rewrite(node, self.state as &dyn OptimizerConfig),
            ApplyOrder::BottomUp => Ok(Transformed::no(node)),
        }
    }

    fn f_up(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::BottomUp => self.rule.rewrite(node, self.state as &dyn OptimizerConfig),
            ApplyOrder::TopDown => Ok(Transformed::no(node)),
        }
    }
}

fn subquery(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(InSubquery { subquery, .. }) => Some(subquery),
        Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Calls `f` with each subquery in the expressions of a node.
fn each_subquery(node: &LogicalPlan, mut f: impl FnMut(&Expr, &Subquery) -> Result<()>) -> Result<TreeNodeRecursion> {
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Some(subquery) = subquery(expr) {
                f(expr, subquery)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })
}

fn is_deep(plan: &LogicalPlan) -> Result<bool> {
    fn depth(plan: &LogicalPlan) -> Result<usize> {
        let mut deepest = 0;
        plan.apply(|node| {
            each_subquery(node, |_, subquery| {
                deepest = deepest.max(1 + depth(&subquery.subquery)?);
                Ok(())
            })
        })?;
        Ok(deepest)
    }
    Ok(depth(plan)? > DEPTH_MAX)
}

/// What DataFusion checks of a plan that can be executed.
fn check(plan: &LogicalPlan) -> Result<()> {
    plan.schema().check_names()?;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Extension(extension) = node {
            extension.node.check_invariants(InvariantLevel::Always)?;
            extension.node.check_invariants(InvariantLevel::Executable)?;
        }
        each_subquery(node, |expr, subquery| {
            check_subquery_expr(node, &bare(&subquery.subquery)?, expr)
        })
    })?;
    Ok(())
}

/// A plan with constants in the places of its subqueries.
fn bare(plan: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let constant = |expr: Expr| {
        Ok(match expr {
            Expr::ScalarSubquery(subquery) => {
                let of = subquery.subquery.schema().field(0).data_type();
                Transformed::yes(lit(ScalarValue::try_from(of)?))
            }
            Expr::Exists(_) => Transformed::yes(lit(true)),
            Expr::InSubquery(InSubquery { expr, .. }) | Expr::SetComparison(SetComparison { expr, .. }) => {
                Transformed::yes(Expr::IsNull(expr))
            }
            other => Transformed::no(other),
        })
    };
    let bare = plan
        .as_ref()
        .clone()
        .transform_up(|node| node.map_expressions(|expr| expr.transform_up(constant)))?;
    Ok(bare.data)
}
