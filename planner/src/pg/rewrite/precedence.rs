//! Operator precedence where the parser's is not PostgreSQL's.
//!
//! - `a IS DISTINCT FROM b AND c`: the parser takes all of `b AND c` for the second operand;
//! - `-2 ^ 2`: PostgreSQL's minus binds tighter than its `^`;
//! - `BETWEEN SYMMETRIC`, which `parse` hands over as a prefix operator of the lower bound.
//!
//! Parentheses of the text are nodes of their own in the tree, so an AND or OR that is bare is one to be moved.

use super::spellings::take;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

/// Repairs one node whose operands are repaired.
pub(super) fn repair(expr: &mut Expr) {
    match expr {
        Expr::IsDistinctFrom(left, right) if is_logic(right) => {
            *expr = at_left_end(take(right), &mut |leaf| {
                Expr::IsDistinctFrom(left.clone(), Box::new(leaf))
            });
        }
        Expr::IsNotDistinctFrom(left, right) if is_logic(right) => {
            *expr = at_left_end(take(right), &mut |leaf| {
                Expr::IsNotDistinctFrom(left.clone(), Box::new(leaf))
            });
        }
        // Only a repaired operand leaves a bare OR below AND, or either of them below NOT.
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } if matches!(
            right.as_ref(),
            Expr::BinaryOp {
                op: BinaryOperator::And | BinaryOperator::Or,
                ..
            }
        ) =>
        {
            *expr = at_left_end(take(right), &mut |leaf| Expr::BinaryOp {
                left: left.clone(),
                op: BinaryOperator::And,
                right: Box::new(leaf),
            });
        }
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: inner,
        } if is_logic(inner) => {
            *expr = at_left_end(take(inner), &mut |leaf| Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: Box::new(leaf),
            });
        }
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } if is_power(inner) => *expr = minus_first(take(inner)),
        Expr::Between {
            expr: value,
            negated,
            low,
            high,
        } => {
            if !unmark(low) {
                return;
            }
            let between = |low: &Expr, high: &Expr| {
                Box::new(Expr::Between {
                    expr: value.clone(),
                    negated: *negated,
                    low: Box::new(low.clone()),
                    high: Box::new(high.clone()),
                })
            };
            *expr = Expr::Nested(Box::new(Expr::BinaryOp {
                left: between(low, high),
                op: if *negated {
                    BinaryOperator::And
                } else {
                    BinaryOperator::Or
                },
                right: between(high, low),
            }));
        }
        _ => {}
    }
}

fn is_logic(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryOp {
            op: BinaryOperator::And | BinaryOperator::Or,
            ..
        }
    )
}

fn is_power(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryOp {
            op: BinaryOperator::PGExp,
            ..
        }
    )
}

/// Puts `wrap` around the first operand of a chain of ANDs and ORs.
fn at_left_end(expr: Expr, wrap: &mut dyn FnMut(Expr) -> Expr) -> Expr {
    match expr {
        Expr::BinaryOp {
            left,
            op: op @ (BinaryOperator::And | BinaryOperator::Or),
            right,
        } => Expr::BinaryOp {
            left: Box::new(at_left_end(*left, wrap)),
            op,
            right,
        },
        leaf => wrap(leaf),
    }
}

fn minus_first(expr: Expr) -> Expr {
    match expr {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::PGExp,
            right,
        } => Expr::BinaryOp {
            left: Box::new(minus_first(*left)),
            op: BinaryOperator::PGExp,
            right,
        },
        leaf => Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(leaf),
        })),
    }
}

/// Takes the prefix that stands for SYMMETRIC off the first operand.
fn unmark(expr: &mut Expr) -> bool {
    match expr {
        Expr::UnaryOp {
            op: UnaryOperator::PGPrefixFactorial,
            expr: inner,
        } => {
            *expr = take(inner);
            true
        }
        Expr::BinaryOp { left, .. } => unmark(left),
        Expr::Cast { expr, .. } => unmark(expr),
        _ => false,
    }
}

/// `-2147483648` is an int4, though its digits alone are not.
pub(super) fn smallest_integer(expr: &Expr) -> bool {
    let Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: digits,
    } = expr
    else {
        return false;
    };
    matches!(digits.as_ref(), Expr::Value(value) if matches!(&value.value, Value::Number(digits, false) if digits == "2147483648"))
}
