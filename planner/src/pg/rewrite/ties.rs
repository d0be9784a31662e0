//! `FETCH FIRST n ROWS WITH TIES`: rows by their rank, which those that tie share.

use super::spellings::call;
use crate::pg::parse::select;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExcludeSelectItem, Expr, Ident, LimitClause, ObjectName, ObjectNamePart,
    OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Value, WildcardAdditionalOptions, WindowSpec,
    WindowType,
};

fn name(text: &str) -> Ident {
    Ident::with_quote('"', text)
}

const RANK: &str = "\u{1}rank";
const NUMBER: &str = "\u{1}number";

pub(super) fn with_ties(query: &mut Query) {
    let wanted = query
        .fetch
        .as_ref()
        .is_some_and(|fetch| fetch.with_ties && !fetch.percent);
    let Some(OrderBy {
        kind: OrderByKind::Expressions(keys),
        ..
    }) = &query.order_by
    else {
        return;
    };
    if !wanted {
        return;
    }
    let mut keys = keys.clone();
    let fetch = query.fetch.take().and_then(|fetch| fetch.quantity);
    let offset = match query.limit_clause.take() {
        Some(LimitClause::LimitOffset { offset, .. }) => offset.map(|offset| offset.value),
        _ => None,
    };
    query.order_by = None;
    let with = query.with.take();
    // The ranks of what has no select list of its own, or one whose rows are not those of FROM, come a query further out.
    let own_list = matches!(query.body.as_ref(), SetExpr::Select(select) if select.distinct.is_none());
    if !own_list {
        let inner = select::derived(Box::new(query.clone()), "\u{1}body", &[]);
        let all = SelectItem::Wildcard(Default::default());
        query.body = select::query(vec![all], vec![select::alone(inner)], None).body;
    }
    let SetExpr::Select(inner) = query.body.as_mut() else {
        return;
    };
    keys.iter_mut().for_each(|key| resolve(key, &inner.projection));
    for (function, alias) in [("rank", RANK), ("row_number", NUMBER)] {
        inner.projection.push(SelectItem::ExprWithAlias {
            expr: over(function, keys.clone()),
            alias: name(alias),
        });
    }
    let number = |text: &str| Expr::Value(Value::Number(text.into(), false).into());
    let bigint = |expr: Expr| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Nested(Box::new(expr))),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    };
    let skipped = bigint(call(
        "coalesce",
        vec![offset.unwrap_or_else(|| number("0")), number("0")],
    ));
    let most = bigint(fetch.unwrap_or_else(|| number("1")));
    let at = |text: &str| Expr::Identifier(name(text));
    let binary = |left: Expr, op: BinaryOperator, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    };
    let last = binary(most.clone(), BinaryOperator::Plus, skipped.clone());
    // FETCH FIRST NULL ROWS: all.
    let within = Expr::Nested(Box::new(binary(
        Expr::IsNull(Box::new(most)),
        BinaryOperator::Or,
        binary(at(RANK), BinaryOperator::LtEq, last),
    )));
    let condition = binary(
        binary(at(NUMBER), BinaryOperator::Gt, skipped),
        BinaryOperator::And,
        within,
    );
    let hidden = |text: &str| ObjectName(vec![ObjectNamePart::Identifier(name(text))]);
    let all = SelectItem::Wildcard(WildcardAdditionalOptions {
        opt_exclude: Some(ExcludeSelectItem::Multiple(vec![hidden(RANK), hidden(NUMBER)])),
        ..Default::default()
    });
    let inner = select::derived(Box::new(query.clone()), "\u{1}ranked", &[]);
    let mut outer = select::query(vec![all], vec![select::alone(inner)], Some(condition));
    let mut key = keys[0].clone();
    key.expr = at(NUMBER);
    key.options = Default::default();
    outer.order_by = Some(OrderBy {
        kind: OrderByKind::Expressions(vec![key]),
        interpolate: None,
    });
    outer.with = with;
    outer.locks = std::mem::take(&mut query.locks);
    *query = *outer;
}

/// A key as an expression: a position or an output's name becomes the output.
fn resolve(key: &mut OrderByExpr, items: &[SelectItem]) {
    let found = match &key.expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<usize>().ok().and_then(|at| items.get(at.checked_sub(1)?)),
            _ => None,
        },
        Expr::Identifier(wanted) => items.iter().find(
            |item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if crate::pg::names::fold(alias) == crate::pg::names::fold(wanted)),
        ),
        _ => None,
    };
    if let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = found {
        key.expr = expr.clone();
    }
}

fn over(function: &str, keys: Vec<OrderByExpr>) -> Expr {
    let mut made = call(function, Vec::new());
    if let Expr::Function(function) = &mut made {
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: Vec::new(),
            order_by: keys,
            window_frame: None,
        }));
    }
    made
}
