//! INTERSECT and EXCEPT of queries without columns, and EXISTS of them: a column that all rows have alike stands in for them.

use crate::pg::parse::select;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr, SetOperator, Value};

pub(super) fn in_body(body: &mut SetExpr) {
    let SetExpr::SetOperation { op, left, right, .. } = body else {
        return;
    };
    in_body(left);
    in_body(right);
    if *op == SetOperator::Union || !is_empty(left) || !is_empty(right) {
        return;
    }
    fill(left);
    fill(right);
    let rows = select::derived(select::of_body(body.clone()), "\u{1}rows", &[]);
    *body = *select::query(vec![], vec![select::alone(rows)], None).body;
}

/// What tells whether EXISTS found a row is named by the query's columns.
pub(super) fn in_exists(query: &mut Query) {
    if is_empty(&query.body) {
        fill(&mut query.body);
    }
}

/// Whether a SELECT, or each of a union's, lists nothing.
fn is_empty(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.projection.is_empty(),
        SetExpr::SetOperation { left, right, .. } => is_empty(left) && is_empty(right),
        _ => false,
    }
}

fn fill(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let one = Expr::Value(Value::Number("1".into(), false).into());
            select.projection = vec![SelectItem::ExprWithAlias {
                expr: one,
                alias: Ident::with_quote('"', "\u{1}one"),
            }];
        }
        SetExpr::SetOperation { left, right, .. } => {
            fill(left);
            fill(right);
        }
        _ => {}
    }
}
