//! Scalar subqueries and arrays made of subqueries.

use super::{call, cast, is_named, null, null_text};
use crate::catalog::bind::fold;
use crate::pg::walk::{Visit, VisitMut};
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Function, FunctionArgumentClause, FunctionArguments, ObjectName, OrderByKind, Query,
    SelectItem, SetExpr, TableFactor, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// System tables without rows: there are no policies, publications, memberships and the like. A scalar
/// subquery that joins with one gives NULL.
const EMPTY_TABLES: &[&str] = &[
    "pg_auth_members",
    "pg_foreign_table",
    "pg_policy",
    "pg_publication",
    "pg_publication_rel",
    "pg_statistic_ext",
    "pg_trigger",
];

/// `ARRAY(SELECT ...)`.
pub(super) fn builds_array(function: &Function) -> bool {
    is_named(function, "array") && matches!(function.args, FunctionArguments::Subquery(_))
}

/// `ARRAY(SELECT ...)` over a system table without rows, or over the options and privileges that a column lists.
pub(super) fn is_empty_array(function: &Function) -> bool {
    let FunctionArguments::Subquery(query) = &function.args else {
        return false;
    };
    builds_array(function) && (reads_any(query, EMPTY_TABLES) || reads_function(query))
}

/// What a scalar subquery gives that DataFusion cannot plan and that has no rows here.
pub(super) fn known_null(query: &Query) -> Option<Expr> {
    if query.with.as_ref().is_some_and(|with| with.recursive) && reads_any(query, &["pg_type"]) {
        // The base type of a domain: there are no domains but those of information_schema.
        let oid = ast::DataType::Custom(ObjectName::from(vec![ast::Ident::new("oid")]), Vec::new());
        return Some(cast(null(), oid));
    }
    // No column has a collation other than its type's.
    let collation = reads_any(query, &["pg_collation"]);
    let empty = reads_any(query, EMPTY_TABLES) && !aggregates(query);
    // The columns of a publication, spread out with the subscripts of an array.
    let columns = reads_function(query);
    (collation || empty || columns).then(null_text)
}

fn aggregates(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => calls_aggregate(expr),
            _ => false,
        }),
        _ => false,
    }
}

/// Whether a query reads a function's rows: `FROM unnest(x)`, `FROM generate_series(1, n)`.
fn reads_function(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let tables = select.from.iter();
    let relations = tables.flat_map(|table| {
        let joined = table.joins.iter().map(|join| &join.relation);
        std::iter::once(&table.relation).chain(joined)
    });
    relations.into_iter().any(|relation| match relation {
        TableFactor::Table { args, .. } => args.is_some(),
        TableFactor::Function { .. } | TableFactor::UNNEST { .. } => true,
        _ => false,
    })
}

fn reads_any(query: &Query, tables: &[&str]) -> bool {
    struct Finder<'a>(&'a [&'a str]);
    impl Visitor for Finder<'_> {
        type Break = ();
        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            let last = relation.0.last().and_then(|part| part.as_ident()).map(fold);
            match last {
                Some(name) if self.0.contains(&name.as_str()) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    query.visit(&mut Finder(tables)).is_break()
}

/// `EXISTS (SELECT ...)` in a select item becomes `(SELECT count(*) ...) > 0`: DataFusion knows EXISTS in conditions only.
pub(super) fn count_existing(item: &mut SelectItem) {
    struct Counter;
    impl VisitorMut for Counter {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let number = |digits: &str| Expr::Value(ast::Value::Number(digits.into(), false).into());
            match std::mem::replace(expr, null()) {
                Expr::Exists { mut subquery, negated } if matches!(*subquery.body, SetExpr::Select(_)) => {
                    if let SetExpr::Select(select) = subquery.body.as_mut() {
                        select.projection = vec![SelectItem::UnnamedExpr(call("count", vec![number("1")]))];
                    }
                    *expr = Expr::Nested(Box::new(Expr::BinaryOp {
                        left: Box::new(Expr::Subquery(subquery)),
                        op: if negated {
                            BinaryOperator::Eq
                        } else {
                            BinaryOperator::Gt
                        },
                        right: Box::new(number("0")),
                    }));
                }
                other => *expr = other,
            }
            ControlFlow::Continue(())
        }
    }
    let _ = item.visit(&mut Counter);
}

/// `(SELECT x::regclass FROM ...)` becomes `(SELECT x FROM ...)::regclass`: a subquery's value keeps no type of PostgreSQL's.
pub(super) fn cast_outside(query: &mut Query) -> Option<ast::DataType> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_mut_slice()
    else {
        return None;
    };
    let Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr,
        data_type: data_type @ ast::DataType::Regclass,
        ..
    } = item
    else {
        return None;
    };
    let (inner, to) = (std::mem::replace(expr.as_mut(), null()), data_type.clone());
    *item = inner;
    Some(to)
}

/// `(SELECT x FROM ... ORDER BY y)` becomes `(SELECT first_value(x ORDER BY y) FROM ...)`: one row, and NULL where there
/// was none.
pub(super) fn first_row_only(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let grouped = matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if !keys.is_empty());
    if select.from.is_empty() || grouped || select.distinct.is_some() {
        return;
    }
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    if calls_aggregate(item) {
        return;
    }
    if let Some(condition) = &mut select.selection {
        drop_implied(condition);
    }
    query.limit_clause = None;
    let order = query.order_by.take().and_then(|order| match order.kind {
        OrderByKind::Expressions(keys) => Some(keys),
        OrderByKind::All(_) => None,
    });
    let argument = std::mem::replace(item, null());
    *item = call("first_value", vec![argument]);
    if let Expr::Function(function) = item {
        // Unquoted it is what clients write, who have no such aggregate.
        function.name = ast::ObjectName::from(vec![ast::Ident::with_quote('"', "first_value")]);
        if let (Some(keys), FunctionArguments::List(list)) = (order, &mut function.args) {
            list.clauses.push(FunctionArgumentClause::OrderBy(keys));
        }
    }
}

/// `atthasdef`, beside the columns of pg_attrdef that only such a column of a table has a row for: DataFusion cannot take
/// a condition on the outer query alone out of a subquery.
fn drop_implied(condition: &mut Expr) {
    let is_implied = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|part| fold(part) == "atthasdef"),
        _ => false,
    };
    if let Expr::BinaryOp {
        left,
        op: BinaryOperator::And,
        right,
    } = condition
    {
        drop_implied(left);
        drop_implied(right);
        let kept = match (is_implied(left), is_implied(right)) {
            (true, _) => right,
            (false, true) => left,
            (false, false) => return,
        };
        *condition = std::mem::replace(kept.as_mut(), null());
    }
}

fn calls_aggregate(expr: &Expr) -> bool {
    const AGGREGATES: [&str; 9] = [
        "count",
        "max",
        "min",
        "sum",
        "avg",
        "array_agg",
        "string_agg",
        "bool_or",
        "first_value",
    ];
    struct Finder;
    impl Visitor for Finder {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(function) if AGGREGATES.iter().any(|name| is_named(function, name)) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Finder).is_break()
}
