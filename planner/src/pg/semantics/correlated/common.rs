//! What all alternatives of a condition on the row outside have in common, in front of them: `(a = o.a AND x) OR (a = o.a
//! AND y)` is `a = o.a AND (x OR y)`, which is pulled up, and asks the subquery once for all rows.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::utils::{conjunction, disjunction, split_binary_owned, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Operator};

/// The plan of a subquery with such conditions in this form.
pub(super) fn in_front(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_down(|node| match node {
        LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
            let mut changed = false;
            let conditions = split_conjunction_owned(filter.predicate.clone())
                .into_iter()
                .flat_map(|one| {
                    let found = if one.contains_outer() { shared(&one) } else { None };
                    changed |= found.is_some();
                    found.unwrap_or_else(|| vec![one])
                });
            match conjunction(conditions.collect::<Vec<_>>()) {
                Some(predicate) if changed => {
                    let filter = Filter::try_new(predicate, filter.input)?;
                    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
                }
                _ => Ok(Transformed::no(LogicalPlan::Filter(filter))),
            }
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(rewritten.data)
}

/// The conditions of a disjunction that all its alternatives have, and what is left of it; None where they have none.
fn shared(condition: &Expr) -> Option<Vec<Expr>> {
    if !matches!(condition, Expr::BinaryExpr(binary) if binary.op == Operator::Or) || condition.is_volatile() {
        return None;
    }
    let alternatives = split_binary_owned(condition.clone(), Operator::Or).into_iter();
    let mut alternatives: Vec<Vec<Expr>> = alternatives.map(split_conjunction_owned).collect();
    let (first, others) = alternatives.split_first()?;
    let mut common: Vec<Expr> = vec![];
    for one in first {
        if !common.contains(one) && others.iter().all(|other| other.contains(one)) {
            common.push(one.clone());
        }
    }
    if common.is_empty() {
        return None;
    }
    for alternative in &mut alternatives {
        alternative.retain(|one| !common.contains(one));
    }
    // One that asks for nothing more holds wherever they do.
    if !alternatives.iter().any(Vec::is_empty) {
        common.extend(disjunction(alternatives.into_iter().filter_map(conjunction)));
    }
    Some(common)
}
