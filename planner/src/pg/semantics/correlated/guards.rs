//! For which rows a subquery in an expression is asked for its value: in the branch of a CASE, for those that come to it. It is
//! run for no others, whose values might make it fail, or cost much.

use super::one::one;
use super::subquery_of;
use datafusion::common::Result;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};

/// An expression with its subqueries in their new forms, and whether the input now computes any of them.
pub(super) fn rewritten(
    expr: Expr,
    guard: Option<&Expr>,
    input: &mut LogicalPlan,
    names: &AliasGenerator,
) -> Result<(Expr, bool)> {
    let mut changed = false;
    let expr = expr.transform_down(|expr| {
        let (expr, applied) = match expr {
            Expr::Case(case) if is_guarded(&case)? => branches(case, guard, input, names)?,
            expr if subquery_of(&expr).is_some() => one(expr, guard, input, names)?,
            expr => return Ok(Transformed::no(expr)),
        };
        changed |= applied;
        Ok(Transformed::new(expr, true, TreeNodeRecursion::Jump))
    })?;
    Ok((expr.data, changed))
}

/// Whether a CASE has subqueries in its branches, and conditions that may be computed twice.
fn is_guarded(case: &Case) -> Result<bool> {
    let has = |expr: &Expr| expr.exists(|expr| Ok(subquery_of(expr).is_some()));
    let branches = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    let branches = branches.chain(case.else_expr.as_deref());
    let mut any = false;
    for branch in branches {
        any |= has(branch)?;
    }
    let conditions = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
    for condition in conditions.chain(case.expr.as_deref()) {
        any &= !has(condition)? && !condition.is_volatile();
    }
    Ok(any)
}

fn branches(
    mut case: Case,
    guard: Option<&Expr>,
    input: &mut LogicalPlan,
    names: &AliasGenerator,
) -> Result<(Expr, bool)> {
    let mut changed = false;
    // Which branch a row comes to is found as the CASE itself finds it: a condition that fails is not computed for rows that
    // an earlier one took.
    let operand = case.expr.clone();
    let comes_to = |before: &[Box<Expr>], own: Option<&Expr>| {
        let taken = before.iter().map(|when| (when.clone(), Box::new(lit(false))));
        let own_branch = own.map(|when| (Box::new(when.clone()), Box::new(lit(true))));
        let branches: Vec<_> = taken.chain(own_branch).collect();
        let comes = match branches.is_empty() {
            true => lit(true),
            false => Expr::Case(Case::new(operand.clone(), branches, Some(Box::new(lit(own.is_none()))))),
        };
        match guard {
            None => comes,
            Some(guard) => Expr::Case(Case::new(
                None,
                vec![(Box::new(guard.clone()), Box::new(comes))],
                Some(Box::new(lit(false))),
            )),
        }
    };
    let mut before = Vec::new();
    for (when, then) in &mut case.when_then_expr {
        let own = comes_to(&before, Some(when.as_ref()));
        let (expr, applied) = rewritten(std::mem::take(then.as_mut()), Some(&own), input, names)?;
        **then = expr;
        changed |= applied;
        before.push(when.clone());
    }
    if let Some(other) = &mut case.else_expr {
        let own = comes_to(&before, None);
        let (expr, applied) = rewritten(std::mem::take(other.as_mut()), Some(&own), input, names)?;
        **other = expr;
        changed |= applied;
    }
    Ok((Expr::Case(case), changed))
}
