//! INTERSECT and EXCEPT of queries without columns: a column that all rows have alike stands in for them.

use crate::pg::parse::select::of as select_of;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, SetOperator, Statement, TableAlias, TableFactor, TableWithJoins,
    Value,
};

pub(super) fn in_body(body: &mut SetExpr) {
    let SetExpr::SetOperation { op, left, right, .. } = body else {
        return;
    };
    in_body(left);
    in_body(right);
    if *op == SetOperator::Union {
        return;
    }
    if !is_empty(left) || !is_empty(right) {
        return;
    }
    fill(left);
    fill(right);
    let Statement::Query(mut query) = select_of(vec![], vec![], None) else {
        return;
    };
    let inner = Query {
        body: Box::new(body.clone()),
        ..query.as_ref().clone()
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![derived(inner)];
        *body = *query.body;
    }
}

fn derived(query: Query) -> TableWithJoins {
    TableWithJoins {
        relation: TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query),
            alias: Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', "\u{1}rows"),
                columns: Vec::new(),
                at: None,
            }),
            sample: None,
        },
        joins: Vec::new(),
    }
}

fn own(select: &Select) -> bool {
    select.projection.is_empty()
}

/// Whether a SELECT, or each of a union's, lists nothing.
fn is_empty(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => own(select),
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
