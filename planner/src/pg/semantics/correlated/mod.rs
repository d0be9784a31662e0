//! Correlated subqueries and LATERAL.
//!
//! What becomes a join by pulling conditions up is left to DataFusion and to `subqueries` (`shape` says which). All else
//! is run row by row (`nodes::Apply`): from the outside in, references to the row become placeholders (`references`), deep
//! inside nested subqueries too, and then the subquery stands alone. Functions in FROM over the row's columns need no
//! subquery: their calls are computed with the row. What EXISTS does not ask for goes first (`exists`).

mod common;
mod exists;
mod full;
mod functions;
mod guards;
mod one;
mod references;
mod shape;
pub(super) mod sort_keys;

use super::subqueries::distinct_over;
use crate::pg::nodes::{Apply, ApplyKind};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, not_impl_err};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Distinct, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use references::substituted;
pub(super) use references::{free, has_lateral};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Correlated;

impl AnalyzerRule for Correlated {
    fn name(&self) -> &str {
        "correlated"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            let asks = match node {
                LogicalPlan::Join(join) => join.join_type != JoinType::Inner && compares(join)?,
                LogicalPlan::Subquery(_) => true,
                _ => false,
            };
            found = found || asks || node.contains_outer_reference();
            Ok(if found {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        if !found {
            return Ok(plan);
        }
        down(exists::of_any_rows(plan)?, &AliasGenerator::new())
    }
}

/// Rewrites a plan that refers to no row outside of it, from its root down.
fn down(plan: LogicalPlan, names: &AliasGenerator) -> Result<LogicalPlan> {
    crate::pg::planning::check().map_err(crate::pg::errors::to_datafusion)?;
    let plan = match plan {
        LogicalPlan::Join(join) => joined(join, names)?,
        LogicalPlan::Distinct(Distinct::On(distinct)) => distinct_over(distinct, names)?,
        plan => plan,
    };
    let plan = expressions(plan, names)?;
    plan.map_children(|child| down(child, names).map(Transformed::yes))
        .data()
}

/// A subquery that stands alone from now on, with all that is still to be done to it.
fn apart(plan: LogicalPlan, names: &AliasGenerator) -> Result<LogicalPlan> {
    let options = ConfigOptions::default();
    let plan = down(plan, names)?;
    let plan = super::sets::SetsInLists.analyze(plan, &options)?;
    let plan = super::limits::LimitsByValue.analyze(plan, &options)?;
    let plan = super::own_names::NamesOfTheirOwn.analyze(plan, &options)?;
    super::subqueries::SubqueriesAnywhere.analyze(plan, &options)
}

/// LATERAL: a join whose right side refers to its left side's rows.
fn joined(join: Join, names: &AliasGenerator) -> Result<LogicalPlan> {
    let left = join.left.schema().clone();
    let lateral = free(&join.right)?.iter().any(|(_, column)| left.has_column(column));
    if !lateral {
        return outer_join(without_marks(join)?.data, names);
    }
    let kind = match join.join_type {
        JoinType::Inner => ApplyKind::Inner,
        JoinType::Left => ApplyKind::Left,
        _ => return not_impl_err!("LATERAL in this join"),
    };
    let condition = conjunction(
        join.on
            .iter()
            .map(|(left, right)| left.clone().eq(right.clone()))
            .chain(join.filter.clone()),
    );
    let trivial = condition
        .as_ref()
        .is_none_or(|condition| *condition == datafusion::logical_expr::lit(true));
    if trivial || kind == ApplyKind::Inner {
        let with = functions::with_row(&join.left, &join.right, kind == ApplyKind::Left, names)?;
        if let Some(plan) = with {
            return match condition.filter(|_| !trivial) {
                Some(condition) => LogicalPlanBuilder::from(plan).filter(condition)?.build(),
                None => Ok(plan),
            };
        }
    }
    if shape::is_lateral_join(&join)? {
        return Ok(LogicalPlan::Join(join));
    }
    let right = unwrapped(join.right.as_ref().clone())?;
    let (right, mut bindings) = substituted(right, &left)?;
    let (right, condition) = match (kind, condition.filter(|_| !trivial)) {
        // An outer join's condition says which rows of the subquery count.
        (ApplyKind::Left, Some(condition)) => {
            let (condition, more) = references::of_row(condition, &left, right.schema())?;
            bindings.extend(more);
            (LogicalPlanBuilder::from(right).filter(condition)?.build()?, None)
        }
        (_, condition) => (right, condition),
    };
    let right = apart(right, names)?;
    let plan = Apply::plan(join.left.as_ref().clone(), right, bindings, kind)?;
    match condition {
        Some(condition) => LogicalPlanBuilder::from(plan).filter(condition)?.build(),
        None => Ok(plan),
    }
}

/// A join without the marks of a LATERAL that refers to nothing.
pub(crate) fn without_marks(mut join: Join) -> Result<Transformed<Join>> {
    let mut changed = false;
    for side in [&mut join.left, &mut join.right] {
        let marked = match side.as_ref() {
            LogicalPlan::SubqueryAlias(alias) => matches!(alias.input.as_ref(), LogicalPlan::Subquery(_)),
            plan => matches!(plan, LogicalPlan::Subquery(_)),
        };
        if marked && free(side)?.is_empty() {
            *side = Arc::new(unwrapped(side.as_ref().clone())?);
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(join, changed))
}

/// Takes away the marks of LATERAL: what was marked refers to nothing outside any more, or is about to.
fn unwrapped(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(subquery) => Ok(Arc::unwrap_or_clone(subquery.subquery)),
        LogicalPlan::SubqueryAlias(alias) if matches!(alias.input.as_ref(), LogicalPlan::Subquery(_)) => {
            let input = unwrapped(Arc::unwrap_or_clone(alias.input))?;
            LogicalPlanBuilder::from(input).alias(alias.alias)?.build()
        }
        plan => Ok(plan),
    }
}

/// An outer join with a subquery in its condition that refers to its rows, or whose rows are compared with them: the right
/// side's rows for each left row.
fn outer_join(join: Join, names: &AliasGenerator) -> Result<LogicalPlan> {
    match join.join_type {
        _ if !compares(&join)? => Ok(LogicalPlan::Join(join)),
        JoinType::Inner => {
            let mut join = join;
            match join.filter.take() {
                Some(filter) => Ok(LogicalPlan::Filter(Filter::try_new(
                    filter,
                    Arc::new(LogicalPlan::Join(join)),
                )?)),
                None => Ok(LogicalPlan::Join(join)),
            }
        }
        JoinType::Left => {
            let left = join.left.schema().clone();
            let on = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
            let Some(condition) = conjunction(on.chain(join.filter.clone())) else {
                return Ok(LogicalPlan::Join(join));
            };
            let right = join.right.as_ref().clone();
            let (condition, bindings) = references::of_row(condition, &left, right.schema())?;
            let right = LogicalPlanBuilder::from(right).filter(condition)?.build()?;
            Apply::plan(
                join.left.as_ref().clone(),
                apart(right, names)?,
                bindings,
                ApplyKind::Left,
            )
        }
        JoinType::Right => {
            let columns = join.schema.columns().into_iter().map(Expr::Column);
            let on = join.on.into_iter().map(|(left, right)| (right, left)).collect();
            let (constraint, nulls) = (join.join_constraint, join.null_equality);
            let mirrored = Join::try_new(
                join.right,
                join.left,
                on,
                join.filter,
                JoinType::Left,
                constraint,
                nulls,
                false,
            )?;
            LogicalPlanBuilder::from(outer_join(mirrored, names)?)
                .project(columns)?
                .build()
        }
        JoinType::Full => full::apart(join, names),
        _ => not_impl_err!("a correlated subquery in the condition of this join"),
    }
}

/// Whether the condition has such a subquery.
fn compares(join: &Join) -> Result<bool> {
    let mut found = false;
    if let Some(condition) = &join.filter {
        condition.apply(|expr| {
            if let Some(subquery) = subquery_of(expr) {
                let apart = matches!(expr, Expr::ScalarSubquery(_)) && free(&subquery.subquery)?.is_empty();
                found = found || !apart;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(found)
}

pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// The subqueries in a node's own expressions.
fn expressions(node: LogicalPlan, names: &AliasGenerator) -> Result<LogicalPlan> {
    let mut any = false;
    node.apply_expressions(|expr| {
        any = any || expr.exists(|expr| Ok(subquery_of(expr).is_some()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !any {
        return Ok(node);
    }
    let [input] = node.inputs()[..] else {
        // Of joins, what refers to a row is no longer here.
        return alone(node, names);
    };
    let mut input = input.clone();
    let before = node.schema().clone();
    let same_columns = matches!(
        node,
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_) | LogicalPlan::Limit(_)
    );
    let kept = NamePreserver::new(&node);
    let mut changed = false;
    let exprs = node
        .expressions()
        .into_iter()
        .map(|expr| {
            let name = kept.save(&expr);
            let (expr, applied) = guards::rewritten(expr, None, &mut input, names)?;
            changed |= applied;
            Ok(name.restore(expr))
        })
        .collect::<Result<Vec<_>>>()?;
    let node = node.with_new_exprs(exprs, vec![input])?.recompute_schema()?;
    if changed && same_columns {
        let columns = before.columns().into_iter().map(Expr::Column);
        return LogicalPlanBuilder::from(node).project(columns)?.build();
    }
    Ok(node)
}

/// Rewrites the subqueries of a node that refer to no row of it.
fn alone(node: LogicalPlan, names: &AliasGenerator) -> Result<LogicalPlan> {
    node.map_subqueries(|plan| match plan {
        LogicalPlan::Subquery(subquery) => {
            let inner = down(Arc::unwrap_or_clone(subquery.subquery), names)?;
            Ok(Transformed::yes(LogicalPlan::Subquery(Subquery {
                subquery: Arc::new(inner),
                ..subquery
            })))
        }
        plan => Ok(Transformed::no(plan)),
    })
    .data()
}
