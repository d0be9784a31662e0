//! Two lists of constants about one expression that no value can satisfy, or that every value satisfies: what a null makes
//! of them. DataFusion's simplifier takes `a NOT IN (1) OR a NOT IN (2)` to be true for a null as well, and
//! `a IN (1) AND a IN (2)` to be false; both are null there, which matters beyond a plain WHERE. It joins lists as sets whose
//! items may be nulls, so that these stand beside the lists: `a IN (1, NULL)` is `a IN (1) OR NULL`.
//!
//! A column compared with itself is such a condition too: beside a row from outside, the simplifier may find it true of a null.
//!
//! And lists that read the row: each such item is compared by itself, as PostgreSQL does. DataFusion takes a list for
//! constant whose items need no rows to give one value (CASE), and simplifies lists as if all their items were constants.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use std::collections::HashSet;

/// Whether an item of the list depends on the row, is null, or is the zero that lists tell apart from the other.
pub(super) fn is_mixed(list: &InList) -> bool {
    list.list
        .iter()
        .any(|item| is_of_row(item) || is_null(item) || is_negative_zero(item))
}

fn is_negative_zero(item: &Expr) -> bool {
    match item {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value == 0.0 && value.is_sign_negative(),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value == 0.0 && value.is_sign_negative(),
        _ => false,
    }
}

fn with_one_zero(item: Expr) -> Expr {
    match item {
        Expr::Literal(ScalarValue::Float64(Some(value)), of) => {
            Expr::Literal(ScalarValue::Float64(Some(value + 0.0)), of)
        }
        Expr::Literal(ScalarValue::Float32(Some(value)), of) => {
            Expr::Literal(ScalarValue::Float32(Some(value + 0.0)), of)
        }
        item => item,
    }
}

fn is_null(item: &Expr) -> bool {
    match item {
        Expr::Cast(cast) => is_null(&cast.expr),
        Expr::Literal(value, _) => value.is_null(),
        _ => false,
    }
}

/// Whether an item may have another value for each row, or is a subquery's: alone in a list it would be taken for the subquery's rows.
fn is_of_row(item: &Expr) -> bool {
    let reads = |expr: &Expr| {
        let of_row = matches!(expr, Expr::Column(_) | Expr::OuterReferenceColumn(..));
        Ok(of_row || matches!(expr, Expr::ScalarSubquery(_)))
    };
    item.exists(reads).unwrap_or(true)
}

/// `a IN (1, 2, b, NULL)` as `a IN (1, 2) OR a = b OR NULL`.
pub(super) fn apart(list: InList) -> Transformed<Expr> {
    if !is_mixed(&list) {
        return Transformed::no(Expr::InList(list));
    }
    let InList { expr, list, negated } = list;
    let (nulls, values): (Vec<Expr>, Vec<Expr>) = list.into_iter().map(with_one_zero).partition(is_null);
    let (of_row, constant): (Vec<Expr>, Vec<Expr>) = values.into_iter().partition(is_of_row);
    let null = (!nulls.is_empty()).then(|| Expr::Literal(ScalarValue::Boolean(None), None));
    let constants = (!constant.is_empty()).then(|| Expr::InList(InList::new(expr.clone(), constant, negated)));
    let compared = of_row.into_iter().map(|item| match negated {
        true => Expr::not_eq(expr.as_ref().clone(), item),
        false => Expr::eq(expr.as_ref().clone(), item),
    });
    let all = constants.into_iter().chain(compared).chain(null);
    let joined = all.reduce(|left, right| if negated { left.and(right) } else { left.or(right) });
    Transformed::yes(joined.unwrap_or_default())
}

pub(super) fn is_candidate(binary: &BinaryExpr) -> bool {
    decided(binary).is_some()
}

/// The same by the expression's nullness alone, where the lists decide for all its values.
pub(super) fn rewrite(binary: BinaryExpr) -> Transformed<Expr> {
    let Some((expr, always)) = decided(&binary) else {
        return Transformed::no(Expr::BinaryExpr(binary));
    };
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    Transformed::yes(match always {
        true => expr.clone().is_not_null().or(null),
        false => expr.clone().is_null().and(null),
    })
}

/// The expression, and what its values make of the condition, if that is one thing for all of them.
fn decided(binary: &BinaryExpr) -> Option<(&Expr, bool)> {
    if let Some(always) = of_itself(binary) {
        return Some((&binary.left, always));
    }
    let (Expr::InList(left), Expr::InList(right)) = (binary.left.as_ref(), binary.right.as_ref()) else {
        return None;
    };
    if left.expr != right.expr || left.expr.is_volatile() || ![left, right].into_iter().all(is_constant) {
        return None;
    }
    match (binary.op, left.negated, right.negated) {
        (Operator::Or, true, true) if are_disjoint(left, right) => Some((&left.expr, true)),
        (Operator::And, false, false) if are_disjoint(left, right) => Some((&left.expr, false)),
        (Operator::And, false, true) if is_within(left, right) => Some((&left.expr, false)),
        (Operator::And, true, false) if is_within(right, left) => Some((&left.expr, false)),
        _ => None,
    }
}

/// A column compared with itself.
fn of_itself(binary: &BinaryExpr) -> Option<bool> {
    let is_column = matches!(*binary.left, Expr::Column(_) | Expr::OuterReferenceColumn(..));
    if !is_column || binary.left != binary.right {
        return None;
    }
    match binary.op {
        Operator::Eq | Operator::LtEq | Operator::GtEq => Some(true),
        Operator::NotEq | Operator::Lt | Operator::Gt => Some(false),
        _ => None,
    }
}

/// Whether the list is of constants, none of them null, as coercion to one type leaves them.
fn is_constant(list: &InList) -> bool {
    let constant = |expr: &Expr| match expr {
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Literal(value, _) if !value.is_null()),
        Expr::Literal(value, _) => !value.is_null(),
        _ => false,
    };
    !list.list.is_empty() && list.list.iter().all(constant)
}

fn are_disjoint(left: &InList, right: &InList) -> bool {
    let left: HashSet<String> = left.list.iter().map(ToString::to_string).collect();
    right.list.iter().all(|item| !left.contains(&item.to_string()))
}

fn is_within(part: &InList, whole: &InList) -> bool {
    let whole: HashSet<String> = whole.list.iter().map(ToString::to_string).collect();
    part.list.iter().all(|item| whole.contains(&item.to_string()))
}
