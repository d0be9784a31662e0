//! Elements of arrays: `a[1].x` is an attribute of one, as `(a[1]).x`; in `ARRAY['a', 1]::text[]` each is cast.

use super::nested::{dimensions_of, element_of};
use super::spellings::take;
use crate::pg::walk::taken;
use datafusion::sql::sqlparser::ast::{AccessExpr, CastKind, DataType, Expr, Value};
use std::mem::discriminant;

/// Casts the elements of a constructor that is cast itself, where they are not all of one kind: they need no type in common.
pub(super) fn cast(expr: &mut Expr) {
    let Expr::Cast {
        expr: inner, data_type, ..
    } = expr
    else {
        return;
    };
    let (element, depth) = element_of(data_type);
    let mut array = inner.as_mut();
    while let Expr::Nested(inner) = array {
        array = inner;
    }
    if depth > 0 && is_mixed(array) {
        cast_within(array, &element.clone());
    }
}

fn cast_within(expr: &mut Expr, to: &DataType) {
    match expr {
        Expr::Array(array) => array.elem.iter_mut().for_each(|item| cast_within(item, to)),
        item => {
            *item = Expr::Cast {
                kind: CastKind::DoubleColon,
                expr: Box::new(Expr::Nested(Box::new(taken(item)))),
                data_type: to.clone(),
                array: false,
                format: None,
            }
        }
    }
}

fn is_mixed(array: &Expr) -> bool {
    fn collect<'a>(expr: &'a Expr, items: &mut Vec<&'a Expr>) {
        match expr {
            Expr::Array(array) => array.elem.iter().for_each(|item| collect(item, items)),
            Expr::Value(value) if value.value == Value::Null => {}
            item => items.push(item),
        }
    }
    let mut items = Vec::new();
    if let Expr::Array(_) = array {
        collect(array, &mut items);
    }
    // Arrays as elements are of the array's type.
    let nests = items
        .iter()
        .any(|item| !matches!(item, Expr::Value(_)) && dimensions_of(item).is_some());
    !nests && items.windows(2).any(|two| !are_alike(two[0], two[1]))
}

/// Whether two elements are sure to have one type.
fn are_alike(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Value(a), Expr::Value(b)) => discriminant(&a.value) == discriminant(&b.value),
        (Expr::Cast { data_type: a, .. }, Expr::Cast { data_type: b, .. }) => a == b,
        (Expr::UnaryOp { expr, .. }, other) | (other, Expr::UnaryOp { expr, .. }) => are_alike(expr, other),
        (a, b) => a == b,
    }
}

pub(super) fn apart(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else {
        return;
    };
    let is_subscript = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(_));
    let pairs = access_chain.windows(2);
    let Some(last) = pairs
        .into_iter()
        .position(|two| is_subscript(&two[0]) && !is_subscript(&two[1]))
    else {
        return;
    };
    let attributes = access_chain.split_off(last + 1);
    let element = Expr::CompoundFieldAccess {
        root: Box::new(take(root)),
        access_chain: std::mem::take(access_chain),
    };
    *expr = Expr::CompoundFieldAccess {
        root: Box::new(Expr::Nested(Box::new(element))),
        access_chain: attributes,
    };
}
