//! IS DISTINCT FROM as an operator: DataFusion's planner asks about operators, whose operands' types are known then, and about
//! this test it does not.

use crate::pg::walk::{VisitMut, taken};
use datafusion::logical_expr::Operator;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, VisitorMut};
use std::ops::ControlFlow;

const DISTINCT: &str = "\u{1}IS DISTINCT FROM";
const NOT_DISTINCT: &str = "\u{1}IS NOT DISTINCT FROM";

/// The tree with operators in the places of the tests.
pub(crate) fn with_operators<T: VisitMut>(mut tree: T) -> T {
    struct Operators;
    impl VisitorMut for Operators {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let (left, op, right) = match expr {
                Expr::IsDistinctFrom(left, right) => (left, DISTINCT, right),
                Expr::IsNotDistinctFrom(left, right) => (left, NOT_DISTINCT, right),
                _ => return ControlFlow::Continue(()),
            };
            *expr = Expr::BinaryOp {
                left: Box::new(taken(left)),
                op: BinaryOperator::Custom(op.into()),
                right: Box::new(taken(right)),
            };
            ControlFlow::Continue(())
        }
    }
    let _ = VisitMut::visit(&mut tree, &mut Operators);
    tree
}

/// Which test an operator stands for.
pub(crate) fn test_of(op: &BinaryOperator) -> Option<Operator> {
    match op {
        BinaryOperator::Custom(op) if op == DISTINCT => Some(Operator::IsDistinctFrom),
        BinaryOperator::Custom(op) if op == NOT_DISTINCT => Some(Operator::IsNotDistinctFrom),
        _ => None,
    }
}
