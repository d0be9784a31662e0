//! A row compared with that of a subquery: `(a, b) = (SELECT c, d ...)` is `(SELECT (a, b) = (s.c, s.d) FROM (SELECT ...) s)`, NULL
//! where the subquery has no row, and refused where it has several.

use super::comparison::named;
use super::spellings::{compare_rows, row_items};
use crate::pg::parse::select::of as select_of;
use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Statement};

pub(super) fn compared(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else {
        return;
    };
    let Some(width) = row_items(left).map(|items| items.len()).filter(|width| *width > 1) else {
        return;
    };
    let mut subquery = right.as_ref();
    while let Expr::Nested(inner) = subquery {
        subquery = inner;
    }
    // One of another width is refused as a value.
    let Expr::Subquery(query) = subquery else {
        return;
    };
    if items(query).is_some_and(|items| items != width) {
        return;
    }
    let (from, row) = named(query.clone(), width);
    let Some(comparison) = compare_rows(left, op, &row) else {
        return;
    };
    let item = SelectItem::UnnamedExpr(comparison);
    if let Statement::Query(query) = select_of(vec![item], vec![from], None) {
        *expr = Expr::Subquery(query);
    }
}

/// The columns of a query, where the text says how many there are.
pub(super) fn items(query: &Query) -> Option<usize> {
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            SetExpr::SetOperation { left, .. } => left,
            SetExpr::Query(query) => &query.body,
            SetExpr::Values(values) => return values.rows.first().map(|row| row.content.len()),
            SetExpr::Select(select) => {
                let plain =
                    |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
                return select.projection.iter().all(plain).then_some(select.projection.len());
            }
            _ => return None,
        }
    }
}
