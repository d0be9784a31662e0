//! `a[1].x`: an attribute of an array's element, as `(a[1]).x`.

use super::spellings::take;
use datafusion::sql::sqlparser::ast::{AccessExpr, Expr};

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
