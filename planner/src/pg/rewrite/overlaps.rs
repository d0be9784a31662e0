//! `(start, end) OVERLAPS (start, end)`, by the SQL standard's definition.

use super::spellings::call;
use crate::pg::walk::null;
use datafusion::sql::sqlparser::ast::{BinaryOperator, CaseWhen, DataType, Expr, UnaryOperator};

pub(super) fn overlaps(left: &Expr, right: &Expr) -> Option<Expr> {
    let (first, second) = (period(left)?, period(right)?);
    let either = |a: Expr, b: Expr| nested(a, BinaryOperator::Or, b);
    // One begins after the other, and not after its end; or both begin together.
    let inside = |(start, end): &(Expr, Expr), (other, until): &(Expr, Expr)| {
        let past = nested(
            nested(start.clone(), BinaryOperator::GtEq, until.clone()),
            BinaryOperator::And,
            nested(end.clone(), BinaryOperator::GtEq, until.clone()),
        );
        let not_past = Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(past),
        };
        nested(
            nested(start.clone(), BinaryOperator::Gt, other.clone()),
            BinaryOperator::And,
            not_past,
        )
    };
    let ends = either(
        nested(first.1.clone(), BinaryOperator::NotEq, second.1.clone()),
        nested(first.1.clone(), BinaryOperator::Eq, second.1.clone()),
    );
    let together = nested(
        nested(first.0.clone(), BinaryOperator::Eq, second.0.clone()),
        BinaryOperator::And,
        ends,
    );
    Some(either(
        either(inside(&first, &second), inside(&second, &first)),
        together,
    ))
}

fn nested(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }))
}

/// A period's start and end in order; the end is NULL where one of them is.
fn period(row: &Expr) -> Option<(Expr, Expr)> {
    let Expr::Tuple(ends) = row else { return None };
    let [start, end] = ends.as_slice() else { return None };
    let end = match end {
        Expr::Interval(_)
        | Expr::Cast {
            data_type: DataType::Interval { .. },
            ..
        } => nested(start.clone(), BinaryOperator::Plus, end.clone()),
        _ => end.clone(),
    };
    let both = vec![start.clone(), end.clone()];
    let unknown = nested(
        Expr::IsNull(Box::new(start.clone())),
        BinaryOperator::Or,
        Expr::IsNull(Box::new(end)),
    );
    let last = Expr::Case {
        case_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        end_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition: unknown,
            result: null(),
        }],
        else_result: Some(Box::new(call("greatest", both.clone()))),
    };
    Some((call("least", both), last))
}
