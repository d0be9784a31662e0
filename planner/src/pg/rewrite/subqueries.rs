//! IN, ANY and ALL over a subquery, told in terms of EXISTS.
//!
//! Where NULL is as good as false (conditions of WHERE and HAVING, joined by AND and OR) one EXISTS says it. Elsewhere
//! the three values are told apart: with `x op v` for the subquery's rows `v`,
//!
//! ```text
//! x op ANY (S)  =  CASE WHEN EXISTS (S with x op v) THEN true
//!                       WHEN EXISTS (S with (x op v) IS NULL) THEN NULL ELSE false END
//! x op ALL (S)  =  NOT (x negated-op ANY (S))
//! x IN (S)      =  x = ANY (S)
//! ```
//!
//! `x = v` is NULL where either is, and those are looked for one by one, which needs no comparison of all with all.
//!
//! An aggregate or a window function on the left can stand in no WHERE: there the subquery's rows become an array, once,
//! `x op ANY (ARRAY (S))`, of records where `x` is a row.

use super::comparison::{Comparison, compared, exists, held, is_plain, not};
use super::spellings::take;
use crate::pg::walk::{VisitMut, constraint};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, GroupByExpr, JoinConstraint, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins, UnaryOperator, VisitorMut,
};
use std::ops::ControlFlow;

/// The clauses of a SELECT.
pub(super) fn in_select(select: &mut Select) {
    for condition in select.selection.iter_mut().chain(&mut select.having) {
        in_condition(condition, true);
    }
    select.from.iter_mut().for_each(in_joins);
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        keys.iter_mut().for_each(anywhere);
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            anywhere(expr);
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(anywhere);
    }
}

/// The conditions of joins.
fn in_joins(table: &mut TableWithJoins) {
    in_relation(&mut table.relation);
    for join in &mut table.joins {
        in_relation(&mut join.relation);
        if let Some(JoinConstraint::On(condition)) = constraint(&mut join.join_operator) {
            in_condition(condition, true);
        }
    }
}

fn in_relation(relation: &mut TableFactor) {
    if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
        in_joins(table_with_joins);
    }
}

/// ORDER BY and VALUES of a query.
pub(super) fn in_query(query: &mut Query) {
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        keys.iter_mut().for_each(|key| anywhere(&mut key.expr));
    }
    if let SetExpr::Values(values) = query.body.as_mut() {
        values
            .rows
            .iter_mut()
            .flat_map(|row| &mut row.content)
            .for_each(anywhere);
    }
}

/// A condition that only has to be told from true. `top`: reached through AND alone.
fn in_condition(condition: &mut Expr, top: bool) {
    match condition {
        Expr::BinaryOp {
            left,
            op: op @ (BinaryOperator::And | BinaryOperator::Or),
            right,
        } => {
            let top = top && *op == BinaryOperator::And;
            in_condition(left, top);
            in_condition(right, top);
        }
        Expr::Nested(inner) => in_condition(inner, top),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } if top && negated_in(expr).is_some() => {
            if let Some(found) = negated_in(expr) {
                *condition = found;
            }
            in_condition(condition, top);
        }
        // The optimizer has joins of its own for these.
        Expr::InSubquery { expr, negated, .. } if is_plain(expr) && (!*negated || top) => anywhere(expr),
        Expr::AnyOp {
            left,
            compare_op: BinaryOperator::Eq,
            right,
            ..
        } if is_plain(left) && is_subquery(right) => *condition = in_subquery(left, right, false),
        Expr::AllOp {
            left,
            compare_op: BinaryOperator::NotEq,
            right,
        } if top && is_plain(left) && is_subquery(right) => {
            *condition = in_subquery(left, right, true);
        }
        _ => match Comparison::of(condition) {
            Some(comparison)
                if comparison.is_over_rows()
                    || comparison.negated && comparison.op == BinaryOperator::Eq && is_plain(&comparison.left) =>
            {
                *condition = comparison.three_valued();
            }
            Some(Comparison {
                left,
                op,
                subquery,
                negated: false,
                ..
            }) => *condition = exists(&left, subquery, |left, value| compared(left, &op, value)),
            Some(Comparison {
                left,
                op,
                subquery,
                negated: true,
                inverted,
            }) => {
                // Every row satisfies it: none has the opposite, and none is unknown.
                let inverse = |left: &Expr, value: &Expr| {
                    held(left, &op, inverted, value).map(|met| Expr::IsNotFalse(Box::new(Expr::Nested(Box::new(met)))))
                };
                *condition = not(exists(&left, subquery, inverse));
            }
            None => anywhere(condition),
        },
    }
}

/// NOT over IN as NOT IN, and the other way round.
fn negated_in(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Nested(inner) => negated_in(inner),
        Expr::InSubquery {
            expr,
            subquery,
            negated,
        } => Some(Expr::InSubquery {
            expr: expr.clone(),
            subquery: subquery.clone(),
            negated: !negated,
        }),
        _ => None,
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_))
}

fn in_subquery(left: &mut Box<Expr>, right: &mut Box<Expr>, negated: bool) -> Expr {
    match take(right) {
        Expr::Subquery(subquery) => Expr::InSubquery {
            expr: Box::new(take(left)),
            subquery,
            negated,
        },
        other => other,
    }
}

/// Rewrites all of an expression, but not what is inside its subqueries.
fn anywhere(expr: &mut Expr) {
    struct Outer(usize);
    impl VisitorMut for Outer {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.0 -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if self.0 == 0
                && let Some(comparison) = Comparison::of(expr)
            {
                *expr = comparison.three_valued();
            }
            ControlFlow::Continue(())
        }
    }
    let _ = expr.visit(&mut Outer(0));
}
