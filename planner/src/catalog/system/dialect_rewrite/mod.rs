//! Statements that read the system catalogs, spelled so that DataFusion can plan them: casts to regclass and its kin,
//! arrays in the columns of system tables, and subqueries of tables that have no rows here.

mod regcasts;
mod subqueries;

use crate::catalog::bind::fold;
use crate::pg::parse::select;
use crate::pg::walk::VisitMut;
use crate::pg::walk::{null, taken};
use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Statement, TableFactor, Value,
    VisitorMut,
};
use std::ops::ControlFlow;

pub(super) fn rewrite_dialect(statement: &mut Statement) {
    let _ = statement.visit(&mut Respeller);
    regcasts::show_outputs(statement);
}

/// The same of an expression that stands alone.
pub(super) fn rewrite_expression(expr: &mut Expr) {
    let _ = expr.visit(&mut Respeller);
}

struct Respeller;

impl VisitorMut for Respeller {
    type Break = ();

    /// `FROM pg_partition_tree(c.oid) AS p`: of what each row of another table is divided into.
    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            args: Some(args),
            alias: Some(alias),
            ..
        } = factor
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] = args.args.as_slice()
            && name
                .0
                .last()
                .and_then(|part| part.as_ident())
                .is_some_and(|own| fold(own) == "pg_partition_tree")
            && is_column(of)
        {
            let column = |(name, _): &(&str, &str)| ast::SelectItem::ExprWithAlias {
                expr: call(
                    "unnest",
                    vec![call(&super::functions::tree_list(name), vec![of.clone()])],
                ),
                alias: ast::Ident::new(*name),
            };
            let columns = super::partitions::TREE.iter().map(column).collect();
            *factor = TableFactor::Derived {
                lateral: true,
                subquery: select::query(columns, Vec::new(), None),
                alias: Some(alias.clone()),
                sample: None,
            };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if subqueries::is_empty_array(function) => {
                let empty = Value::SingleQuotedString("{}".into());
                *expr = cast(Expr::Value(empty.into()), ast::DataType::Text);
            }
            Expr::Subquery(query) if subqueries::is_null(query) => *expr = cast(null(), ast::DataType::Text),
            Expr::Subquery(query) => {
                if let Some(to) = subqueries::cast_outside(query) {
                    let value = taken(expr);
                    *expr = cast(value, to);
                }
            }
            Expr::Function(function) if is_named(function, "_pg_expandarray") => {
                let args = arguments(function);
                *expr = call("unnest", vec![call(super::functions::EXPANDED, args)]);
            }
            Expr::Function(function) if is_named(function, "pg_partition_ancestors") => {
                let args = arguments(function);
                *expr = call("unnest", vec![call(super::functions::ANCESTORS, args)]);
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                // A character of a name, from 0.
                if let (true, [AccessExpr::Subscript(ast::Subscript::Index { index })]) =
                    (is_name(root), access_chain.as_slice())
                {
                    let one = Expr::Value(Value::Number("1".into(), false).into());
                    let at = Expr::BinaryOp {
                        left: Box::new(index.clone()),
                        op: ast::BinaryOperator::Plus,
                        right: Box::new(one.clone()),
                    };
                    let root = taken(root.as_mut());
                    *expr = call("substr", vec![root, at, one]);
                    return ControlFlow::Continue(());
                }
                // `(record).field`.
                if let [AccessExpr::Dot(Expr::Identifier(field))] = access_chain.as_slice() {
                    let name = Value::SingleQuotedString(fold(field));
                    let root = taken(root.as_mut());
                    *expr = call("get_field", vec![root, Expr::Value(name.into())]);
                }
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
                let operands = [right, left].map(|operand| taken(operand.as_mut()));
                *expr = call(super::functions::TEXT_ARRAY_HAS, operands.into());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        regcasts::rewrite(expr);
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

fn arguments(function: &Function) -> Vec<Expr> {
    match &function.args {
        FunctionArguments::List(list) => expressions(&list.args),
        _ => Vec::new(),
    }
}

fn expressions(arguments: &[FunctionArg]) -> Vec<Expr> {
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    arguments.iter().filter_map(value).collect()
}

/// The array is a column: those of system tables are texts such as `{1,2}`.
fn of_column(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else {
        return false;
    };
    matches!(list.args.first(), Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(array))) if is_column(array))
}

/// The one name of a system table that pg_dump looks into.
fn is_name(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(name) => fold(name) == "typname",
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| fold(name) == "typname"),
        _ => false,
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn cast(expr: Expr, data_type: ast::DataType) -> Expr {
    Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    let list = ast::FunctionArgumentList {
        duplicate_treatment: None,
        args: args
            .into_iter()
            .map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)))
            .collect(),
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
