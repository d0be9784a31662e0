//! One subquery in an expression: what stands for it where it becomes no join.

use super::references::{self, free, settled, substituted};
use super::{apart, common, down, guards, shape, subquery_of};
use crate::pg::functions::aggregate::single::{ONLY_ROW, SINGLE_ROW};
use crate::pg::nodes::{Apply, ApplyKind, Binding, GUARD};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use std::sync::Arc;

/// A subquery expression in its new form, and whether the input now computes it. `guard`: for which rows its value is asked
/// for; None: for all.
pub(super) fn one(
    mut expr: Expr,
    guard: Option<&Expr>,
    input: &mut LogicalPlan,
    names: &AliasGenerator,
) -> Result<(Expr, bool)> {
    let compared = match &mut expr {
        Expr::InSubquery(within) => left_below(within, guard, input, names)?,
        _ => false,
    };
    let (expr, applied) = in_new_form(expr, guard, input, names)?;
    Ok((expr, compared || applied))
}

/// A value before IN that has a subquery over the row is a column of the input: IN becomes a join's condition, which has no
/// subqueries.
fn left_below(
    within: &mut InSubquery,
    guard: Option<&Expr>,
    input: &mut LogicalPlan,
    names: &AliasGenerator,
) -> Result<bool> {
    let mut refers = false;
    within.expr.apply(|expr| {
        if let Some(subquery) = subquery_of(expr) {
            refers = refers || !free(&subquery.subquery)?.is_empty();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !refers {
        return Ok(false);
    }
    let (value, _) = guards::rewritten(std::mem::take(&mut *within.expr), guard, input, names)?;
    let name = names.next("__left");
    let mut items: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    items.push(value.alias(&name));
    *input = LogicalPlanBuilder::from(std::mem::take(input))
        .project(items)?
        .build()?;
    *within.expr = Expr::Column(Column::new_unqualified(name));
    Ok(true)
}

fn in_new_form(
    expr: Expr,
    guard: Option<&Expr>,
    input: &mut LogicalPlan,
    names: &AliasGenerator,
) -> Result<(Expr, bool)> {
    let Some(subquery) = subquery_of(&expr) else {
        return Ok((expr, false));
    };
    let schema = input.schema().clone();
    let plan = match &expr {
        Expr::ScalarSubquery(_) => shape::without_having(subquery.subquery.as_ref().clone())?,
        _ => subquery.subquery.as_ref().clone(),
    };
    let plan = common::in_front(plan)?;
    if free(&plan)?.is_empty() || shape::is_join(&expr, &plan)? {
        let plan = down(plan, names)?;
        return Ok((with_plan(expr, plan), false));
    }
    let name = names.next("__apply");
    let alias = TableReference::bare(name.clone());
    let guard = guard.map(|guard| Binding {
        value: guard.clone(),
        id: GUARD.into(),
    });
    match expr {
        Expr::ScalarSubquery(_) => {
            let (plan, mut bindings) = substituted(plan, &schema)?;
            bindings.extend(guard);
            let checked = !shape::gives_one_row_at_most(&plan);
            let single = if checked { single_row(plan)? } else { plan };
            let value = single.schema().columns().remove(0);
            let single = LogicalPlanBuilder::from(single)
                .project([Expr::Column(value).alias_qualified(Some(alias.clone()), "value")])?
                .build()?;
            *input = Apply::plan(std::mem::take(input), apart(single, names)?, bindings, ApplyKind::Left)?;
            let value = Expr::Column(Column::new(Some(alias), "value"));
            Ok((if checked { ONLY_ROW.call(vec![value]) } else { value }, true))
        }
        Expr::Exists(Exists { negated, .. }) => {
            let (plan, mut bindings) = substituted(plan, &schema)?;
            bindings.extend(guard);
            marked(plan, bindings, input, &alias, negated, names)
        }
        Expr::InSubquery(InSubquery {
            expr: value, negated, ..
        }) => {
            let (plan, mut bindings) = substituted(plan, &schema)?;
            let item = Expr::Column(plan.schema().columns().remove(0));
            let (value, more) = references::of_row(*value, &schema, &DFSchema::empty())?;
            bindings.extend(more.into_iter().chain(guard));
            // Not in: no item equals, and none might.
            let condition = match negated {
                true => Expr::IsNotFalse(Box::new(value.eq(item))),
                false => value.eq(item),
            };
            let plan = LogicalPlanBuilder::from(plan).filter(condition)?.build()?;
            marked(plan, bindings, input, &alias, negated, names)
        }
        other => Ok((other, false)),
    }
}

fn marked(
    plan: LogicalPlan,
    bindings: Vec<Binding>,
    input: &mut LogicalPlan,
    alias: &TableReference,
    negated: bool,
    names: &AliasGenerator,
) -> Result<(Expr, bool)> {
    *input = Apply::marking(std::mem::take(input), apart(plan, names)?, bindings, alias)?;
    let mark = Expr::Column(Column::new(Some(alias.clone()), "mark"));
    Ok((if negated { !mark } else { mark }, true))
}

/// The subquery's only row with the count of all, for `ONLY_ROW` to look at where the value is asked for.
fn single_row(plan: LogicalPlan) -> Result<LogicalPlan> {
    let value = Expr::Column(plan.schema().columns().remove(0));
    let single = AggregateFunction::new_udf(SINGLE_ROW.clone(), vec![value], false, None, Vec::new(), None);
    // Two rows say as much as all.
    LogicalPlanBuilder::from(plan)
        .limit(0, Some(2))?
        .aggregate(Vec::<Expr>::new(), vec![Expr::AggregateFunction(single)])?
        .build()
}

fn with_plan(expr: Expr, plan: LogicalPlan) -> Expr {
    let again = |subquery: Subquery| Subquery {
        outer_ref_columns: settled(&plan, &subquery.outer_ref_columns),
        subquery: Arc::new(plan.clone()),
        spans: subquery.spans,
    };
    match expr {
        Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(again(subquery)),
        Expr::Exists(exists) => Expr::Exists(Exists {
            subquery: again(exists.subquery),
            negated: exists.negated,
        }),
        Expr::InSubquery(InSubquery {
            expr,
            subquery,
            negated,
        }) => Expr::InSubquery(InSubquery::new(expr, again(subquery), negated)),
        other => other,
    }
}
