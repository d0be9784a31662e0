//! What the crate's rewrite leaves, in statements that read the system catalogs: psql's arrays made of subqueries, and
//! scalar subqueries that DataFusion cannot tell to give one row.

use datafusion::sql::sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, SelectItem, SetExpr, Statement,
    Value, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

pub(super) fn respell(statement: &mut Statement) {
    let _ = statement.visit(&mut Respeller);
}

struct Respeller;

impl VisitorMut for Respeller {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            // Options, privileges and memberships: there are none of them here.
            Expr::Function(function) if builds_array(function) => *expr = null_text(),
            Expr::Function(function) if is_named(function, "array_to_string") && !of_literal(function) => {
                *expr = null_text();
            }
            Expr::Function(function)
                if of_column(function) && (is_named(function, "array_contains") || is_named(function, "array_has")) =>
            {
                function.name = ast::ObjectName::from(vec![ast::Ident::new(super::functions::TEXT_ARRAY_HAS)]);
            }
            Expr::AnyOp {
                left,
                compare_op: ast::BinaryOperator::Eq,
                right,
                ..
            } if is_column(right) => {
                let args =
                    [right.as_ref(), left.as_ref()].map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg.clone())));
                *expr = call(super::functions::TEXT_ARRAY_HAS, args.into());
            }
            // Deferrable constraints: there are none.
            Expr::Exists { subquery, negated } if subquery.to_string().contains("condeferr") => {
                *expr = Expr::Value(Value::Boolean(*negated).into());
            }
            // The columns of a publication: there are no publications.
            Expr::Subquery(query) if query.to_string().contains("array_upper(") => *expr = null_text(),
            Expr::Subquery(query) => first_row_only(query),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_named(function: &Function, name: &str) -> bool {
    function
        .name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .is_some_and(|ident| ident.value.eq_ignore_ascii_case(name))
}

/// `ARRAY(SELECT ...)`.
fn builds_array(function: &Function) -> bool {
    is_named(function, "array") && matches!(function.args, FunctionArguments::Subquery(_))
}

fn of_literal(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else {
        return false;
    };
    matches!(
        list.args.first(),
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(_))))
    )
}

/// The array is a column: those of system tables are texts such as `{1,2}`.
fn of_column(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else {
        return false;
    };
    matches!(list.args.first(), Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(array))) if is_column(array))
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn null_text() -> Expr {
    Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(Expr::Value(Value::Null.into())),
        data_type: ast::DataType::Text,
        array: false,
        format: None,
    }
}

/// `(SELECT x FROM ...)` becomes `(SELECT first_value(x) FROM ...)`: one row, and NULL where there was none.
fn first_row_only(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let aggregates = matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if !keys.is_empty());
    if select.from.is_empty() || aggregates || select.distinct.is_some() {
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
    query.limit_clause = None;
    query.order_by = None;
    let argument = std::mem::replace(item, Expr::Value(Value::Null.into()));
    *item = call(
        "first_value",
        vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))],
    );
}

fn call(name: &str, args: Vec<FunctionArg>) -> Expr {
    let list = ast::FunctionArgumentList {
        duplicate_treatment: None,
        args,
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ast::ObjectName::from(vec![ast::Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
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
    impl ast::Visitor for Finder {
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
    ast::Visit::visit(expr, &mut Finder).is_break()
}
