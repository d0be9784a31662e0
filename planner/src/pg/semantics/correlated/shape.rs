//! Which correlated subqueries become joins: those whose references stand in conditions that can be pulled up past all
//! that is above them.

use super::subquery_of;
use crate::pg::functions::sets;
use crate::pg::semantics::subqueries::{domain, gives_one_row};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, ScalarValue};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, when};
use std::sync::Arc;

/// Whether DataFusion's rules and those of `subqueries` plan the subquery right.
pub(super) fn is_join(expr: &Expr, plan: &LogicalPlan) -> Result<bool> {
    let scalar = matches!(expr, Expr::ScalarSubquery(_));
    let all = plan;
    let plan = if scalar { without_first_row(plan)? } else { plan };
    // An aggregate has a row where a group has none.
    let first_of_one = !std::ptr::eq(all, plan) && gives_one_row(plan);
    if scalar && (first_of_one || !is_filled_in(plan, 0)) {
        return Ok(false);
    }
    let mut state = PullUpCheck {
        scalar,
        aggregates_left: usize::from(scalar),
    };
    state.pulls_up(plan)
}

/// The same for LATERAL.
pub(super) fn is_lateral_join(join: &Join) -> Result<bool> {
    if join.join_type != JoinType::Inner {
        return Ok(false);
    }
    let mut plan = join.right.as_ref();
    if let LogicalPlan::SubqueryAlias(alias) = plan {
        plan = &alias.input;
    }
    let LogicalPlan::Subquery(subquery) = plan else {
        return Ok(false);
    };
    let all_left = subquery.outer_ref_columns.iter().all(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => join.left.schema().has_column(column),
        _ => false,
    });
    let mut state = PullUpCheck {
        scalar: false,
        aggregates_left: 0,
    };
    Ok(all_left && !computes_subqueries(&subquery.subquery)? && state.pulls_up(&subquery.subquery)?)
}

/// HAVING over the one row of an aggregate without groups, for a value: the column where it holds, or else NULL.
pub(super) fn without_having(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = &plan else {
        return Ok(plan);
    };
    let (LogicalPlan::Filter(having), [column]) = (projection.input.as_ref(), projection.expr.as_slice()) else {
        return Ok(plan);
    };
    let LogicalPlan::Aggregate(aggregate) = having.input.as_ref() else {
        return Ok(plan);
    };
    if !aggregate.group_expr.is_empty() || own_references(&projection.input)? != Own::None {
        return Ok(plan);
    }
    let value = when(having.predicate.clone(), column.clone().unalias()).end()?;
    let (qualifier, field) = projection.schema.qualified_field(0);
    let value = value.alias_qualified(qualifier.cloned(), field.name());
    let made = Projection::try_new(vec![value], Arc::clone(&having.input))?;
    Ok(LogicalPlan::Projection(made))
}

/// Whether a column is NULL where an aggregate below becomes groups and there is none for the row, or is computed of what the
/// aggregates give of no rows: DataFusion fills in the latter. It knows neither constants, which are NULL then, nor
/// conditions on what an aggregate gives, nor what a subquery does.
fn is_filled_in(plan: &LogicalPlan, at: usize) -> bool {
    if !gives_one_row(plan) {
        return true;
    }
    match plan {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let asks = |expr: &Expr| expr.exists(|expr| Ok(subquery_of(expr).is_some()));
            if expr.get(at).is_some_and(|expr| asks(expr).unwrap_or(true)) {
                return false;
            }
            let columns = expr.get(at).map(Expr::column_refs).unwrap_or_default();
            let filled_in = |column| {
                let index = input.schema().maybe_index_of_column(column);
                index.is_some_and(|index| is_filled_in(input, index))
            };
            !columns.is_empty() && columns.into_iter().all(filled_in)
        }
        LogicalPlan::SubqueryAlias(alias) => is_filled_in(&alias.input, at),
        LogicalPlan::Filter(_) => false,
        _ => true,
    }
}

/// Below `ORDER BY ... LIMIT 1` of a scalar subquery, which becomes an aggregate: not where it orders by the row outside.
fn without_first_row(plan: &LogicalPlan) -> Result<&LogicalPlan> {
    let mut node = plan;
    if let LogicalPlan::Projection(projection) = node
        && let LogicalPlan::Limit(_) = projection.input.as_ref()
    {
        node = &projection.input;
    }
    let LogicalPlan::Limit(limit) = node else {
        return Ok(plan);
    };
    let is = |fetch: &Option<Box<Expr>>, wanted: i64| matches!(fetch.as_deref(), Some(Expr::Literal(ScalarValue::Int64(Some(n)), _)) if *n == wanted);
    if !is(&limit.fetch, 1) || limit.skip.is_some() && !is(&limit.skip, 0) {
        return Ok(plan);
    }
    node = &limit.input;
    if let LogicalPlan::Projection(projection) = node
        && let LogicalPlan::Sort(_) = projection.input.as_ref()
    {
        node = &projection.input;
    }
    match node {
        LogicalPlan::Sort(_) if own_references(node)? != Own::None || asks_other_rows(node)? => Ok(plan),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => Ok(&sort.input),
        node => Ok(node),
    }
}

struct PullUpCheck {
    /// Conditions are pulled over an aggregate.
    scalar: bool,
    aggregates_left: usize,
}

impl PullUpCheck {
    fn pulls_up(&mut self, plan: &LogicalPlan) -> Result<bool> {
        if !refers(plan)? {
            return Ok(true);
        }
        let own = own_references(plan)?;
        if own == Own::Nested || own == Own::Direct && !matches!(plan, LogicalPlan::Filter(_)) {
            return Ok(false);
        }
        let passes = match plan {
            LogicalPlan::Filter(filter) => !self.scalar || domain::is_taken(&filter.predicate),
            LogicalPlan::SubqueryAlias(_) => true,
            LogicalPlan::Projection(projection) => !calls_sets(&projection.expr)?,
            LogicalPlan::Join(join) => {
                join.join_type == JoinType::Inner
                    && !refers_below_alias(&join.left)?
                    && !refers_below_alias(&join.right)?
            }
            LogicalPlan::Aggregate(aggregate) if self.aggregates_left > 0 && aggregate.group_expr.is_empty() => {
                self.aggregates_left -= 1;
                !asks_other_rows(plan)?
            }
            _ => false,
        };
        if !passes {
            return Ok(false);
        }
        for input in plan.inputs() {
            if !self.pulls_up(input)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a node's expressions have subqueries over its own rows, which become joins below it.
fn asks_other_rows(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found =
            found || expr.exists(|expr| Ok(subquery_of(expr).is_some_and(|own| !own.outer_ref_columns.is_empty())))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether columns of a plan are computed by such subqueries.
fn computes_subqueries(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| match node {
        LogicalPlan::Filter(_) => Ok(false),
        node => asks_other_rows(node),
    })
}

pub(super) fn calls_sets(exprs: &[Expr]) -> Result<bool> {
    let mut found = false;
    for expr in exprs {
        found = found || expr.exists(|expr| Ok(sets::called(expr).is_some()))?;
    }
    Ok(found)
}

/// Whether a plan has any reference to a row outside, its subqueries included.
fn refers(plan: &LogicalPlan) -> Result<bool> {
    Ok(!super::free(plan)?.is_empty())
}

/// Whether a side of a join refers to it inside a derived table: conditions that DataFusion pulls over the join from there name
/// columns of relations that nothing above the derived table has.
fn refers_below_alias(side: &LogicalPlan) -> Result<bool> {
    match side {
        LogicalPlan::SubqueryAlias(alias) => refers(&alias.input),
        side => {
            for input in side.inputs() {
                if refers_below_alias(input)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

#[derive(PartialEq)]
enum Own {
    None,
    Direct,
    /// From inside a subquery in the node's expressions.
    Nested,
}

fn own_references(plan: &LogicalPlan) -> Result<Own> {
    let mut own = Own::None;
    let schema = datafusion::logical_expr::utils::merge_schema(&plan.inputs());
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            if matches!(expr, Expr::OuterReferenceColumn(..)) && own == Own::None {
                own = Own::Direct;
            }
            if let Some(subquery) = subquery_of(expr)
                && super::free(&subquery.subquery)?
                    .iter()
                    .any(|(_, column)| !schema.has_column(column))
            {
                own = Own::Nested;
            }
            // A join is made of IN before its condition could be pulled up.
            if let Expr::InSubquery(found) = expr
                && found.expr.contains_outer()
            {
                own = Own::Nested;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(own)
}

/// Whether a plan has one row, or none.
pub(super) fn gives_one_row_at_most(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => {
            !calls_sets(&projection.expr).unwrap_or(true) && gives_one_row_at_most(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => gives_one_row_at_most(&alias.input),
        LogicalPlan::Filter(filter) => gives_one_row_at_most(&filter.input),
        LogicalPlan::Sort(sort) => gives_one_row_at_most(&sort.input),
        LogicalPlan::Limit(limit) => {
            let one = matches!(
                limit.fetch.as_deref(),
                Some(Expr::Literal(ScalarValue::Int64(Some(0 | 1)), _))
            );
            one || gives_one_row_at_most(&limit.input)
        }
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}
