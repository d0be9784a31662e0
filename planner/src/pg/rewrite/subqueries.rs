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

use super::spellings::{compare_rows, take};
use crate::pg::parse::select;
use crate::pg::walk::null;
use crate::pg::walk::{VisitMut, constraint};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Distinct, Expr, GroupByExpr, Ident, JoinConstraint, OrderByKind,
    Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, UnaryOperator, Value, VisitorMut,
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
                if comparison.negated && comparison.op == BinaryOperator::Eq && is_plain(&comparison.left) =>
            {
                *condition = comparison.three_valued();
            }
            Some(Comparison {
                left,
                op,
                subquery,
                negated: false,
            }) => *condition = exists(&left, subquery, |left, value| compared(left, &op, value)),
            Some(Comparison {
                left,
                op,
                subquery,
                negated: true,
            }) => {
                // Every row satisfies it: none has the opposite, and none is unknown.
                let inverse = |left: &Expr, value: &Expr| {
                    compared(left, &op, value).map(|met| Expr::IsNotFalse(Box::new(Expr::Nested(Box::new(met)))))
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

fn is_plain(expr: &Expr) -> bool {
    !matches!(expr, Expr::Tuple(values) if values.len() > 1)
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

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(expr))),
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

/// `left op ANY (subquery)`, or its negation.
struct Comparison {
    left: Expr,
    op: BinaryOperator,
    subquery: Box<Query>,
    negated: bool,
}

impl Comparison {
    fn of(expr: &mut Expr) -> Option<Comparison> {
        match expr {
            Expr::InSubquery {
                expr: left,
                subquery,
                negated,
            } => Some(Comparison {
                left: take(left),
                op: BinaryOperator::Eq,
                subquery: subquery.clone(),
                negated: *negated,
            }),
            Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => take_subquery(right).map(|subquery| Comparison {
                left: take(left),
                op: compare_op.clone(),
                subquery,
                negated: false,
            }),
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => {
                let op = opposite(compare_op)?;
                take_subquery(right).map(|subquery| Comparison {
                    left: take(left),
                    op,
                    subquery,
                    negated: true,
                })
            }
            _ => None,
        }
    }

    fn three_valued(self) -> Expr {
        let Comparison {
            left,
            op,
            subquery,
            negated,
        } = self;
        let met = exists(&left, subquery.clone(), |left, value| compared(left, &op, value));
        let mut unknown = Vec::new();
        if op == BinaryOperator::Eq && is_plain(&left) {
            unknown.push(exists(&left, subquery.clone(), |_, value| {
                Some(Expr::IsNull(Box::new(value.clone())))
            }));
            let any = exists(&left, subquery, |_, _| Some(Expr::Value(Value::Boolean(true).into())));
            unknown.push(Expr::BinaryOp {
                left: Box::new(Expr::IsNull(Box::new(left))),
                op: BinaryOperator::And,
                right: Box::new(any),
            });
        } else {
            unknown.push(exists(&left, subquery, |left, value| {
                compared(left, &op, value).map(|met| Expr::IsNull(Box::new(Expr::Nested(Box::new(met)))))
            }));
        }
        let boolean = |value: bool| Expr::Value(Value::Boolean(value).into());
        let mut conditions = vec![CaseWhen {
            condition: met,
            result: boolean(!negated),
        }];
        conditions.extend(unknown.into_iter().map(|condition| CaseWhen {
            condition,
            result: Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(null()),
                data_type: DataType::Boolean,
                array: false,
                format: None,
            },
        }));
        Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions,
            else_result: Some(Box::new(boolean(negated))),
        }
    }
}

fn take_subquery(right: &mut Box<Expr>) -> Option<Box<Query>> {
    match right.as_mut() {
        Expr::Subquery(subquery) => Some(subquery.clone()),
        _ => None,
    }
}

fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
}

/// `left op value`; rows column by column.
fn compared(left: &Expr, op: &BinaryOperator, value: &Expr) -> Option<Expr> {
    if !is_plain(left) {
        return compare_rows(left, op, value);
    }
    Some(Expr::BinaryOp {
        left: Box::new(left.clone()),
        op: op.clone(),
        right: Box::new(value.clone()),
    })
}

/// `EXISTS (SELECT true FROM (subquery) AS s(v) WHERE condition(left, v))`, with as many columns as `left` has.
fn exists(left: &Expr, subquery: Box<Query>, condition: impl Fn(&Expr, &Expr) -> Option<Expr>) -> Expr {
    let width = match left {
        Expr::Tuple(values) => values.len(),
        _ => 1,
    };
    let (from, value) = named(subquery, width);
    let Some(condition) = condition(left, &value) else {
        return null();
    };
    let item = SelectItem::UnnamedExpr(Expr::Value(Value::Boolean(true).into()));
    Expr::Exists {
        subquery: select::query(vec![item], vec![from], Some(condition)),
        negated: false,
    }
}

/// A subquery in FROM, and the row of its columns, or the only one.
pub(super) fn named(subquery: Box<Query>, width: usize) -> (TableWithJoins, Expr) {
    let name = |text: &str| Ident::with_quote('"', text);
    let columns: Vec<Ident> = (0..width).map(|at| name(&format!("\u{1}value{at}"))).collect();
    let mut values: Vec<Expr> = columns
        .iter()
        .map(|column| Expr::CompoundIdentifier(vec![name("\u{1}any"), column.clone()]))
        .collect();
    let value = match values.len() {
        1 => values.remove(0),
        _ => Expr::Tuple(values),
    };
    let from = select::alone(select::derived(subquery, "\u{1}any", &columns));
    (from, value)
}
