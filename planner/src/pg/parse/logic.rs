//! Long chains of AND and of OR as trees of small depth: parsed, they are as deep as they are long.
//!
//! `a AND b AND c AND d` is `(a AND b) AND (c AND d)`, for NULLs too. The right halves stand in parentheses, so what puts
//! operands of a bare AND elsewhere (`rewrite::precedence`) finds the leftmost ones where they were.

use crate::pg::walk::taken;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, VisitorMut};
use std::ops::ControlFlow;

/// Operands that a chain may have as it is.
const CHAIN_MAX: usize = 128;

pub(super) struct Halved;

impl VisitorMut for Halved {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(op) = logic(expr)
            && is_long(expr, &op)
        {
            let mut operands = Vec::new();
            let mut rest = taken(expr);
            loop {
                match rest {
                    Expr::BinaryOp { left, op: own, right } if own == op => {
                        operands.push(*right);
                        rest = *left;
                    }
                    first => {
                        operands.push(first);
                        break;
                    }
                }
            }
            let count = operands.len();
            if let Some(tree) = halved(&mut operands.into_iter().rev(), count, &op) {
                *expr = tree;
            }
        }
        ControlFlow::Continue(())
    }
}

fn logic(expr: &Expr) -> Option<BinaryOperator> {
    match expr {
        Expr::BinaryOp {
            op: op @ (BinaryOperator::And | BinaryOperator::Or),
            ..
        } => Some(op.clone()),
        _ => None,
    }
}

fn is_long(expr: &Expr, wanted: &BinaryOperator) -> bool {
    let (mut at, mut length) = (expr, 0);
    while let Expr::BinaryOp { left, op, .. } = at
        && op == wanted
        && length < CHAIN_MAX
    {
        length += 1;
        at = left;
    }
    length >= CHAIN_MAX
}

/// One tree of so many operands.
fn halved(operands: &mut impl Iterator<Item = Expr>, count: usize, op: &BinaryOperator) -> Option<Expr> {
    if count <= 1 {
        return operands.next();
    }
    let half = count.div_ceil(2);
    let left = halved(operands, half, op)?;
    let right = halved(operands, count - half, op)?;
    Some(Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(match count - half {
            1 => right,
            _ => Expr::Nested(Box::new(right)),
        }),
    })
}
