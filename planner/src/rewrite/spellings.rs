//! PostgreSQL spellings that DataFusion's planner does not know.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, ObjectNamePart,
};

pub(super) fn respell(expr: &mut Expr) {
    match expr {
        // The functions are one flat space here: `pg_catalog.version()` is `version()`.
        Expr::Function(function) => {
            if function.name.0.len() > 1 {
                let qualifier = function
                    .name
                    .0
                    .first()
                    .and_then(|part| part.as_ident())
                    .map(|i| i.value.to_lowercase());
                if matches!(
                    qualifier.as_deref(),
                    Some("pg_catalog" | "information_schema" | "public")
                ) && let Some(last) = function.name.0.pop()
                {
                    function.name.0 = vec![last];
                }
            }
            if matches!(function.args, FunctionArguments::None) && function.over.is_none() {
                function.args = empty_arguments();
            }
        }
        Expr::Identifier(ident) if ident.quote_style.is_none() => {
            let lower = ident.value.to_lowercase();
            if matches!(
                lower.as_str(),
                "current_schema" | "current_catalog" | "current_role" | "user" | "session_user"
            ) {
                *expr = Expr::Function(Function {
                    name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(lower))]),
                    uses_odbc_syntax: false,
                    parameters: FunctionArguments::None,
                    args: empty_arguments(),
                    filter: None,
                    null_treatment: None,
                    over: None,
                    within_group: Vec::new(),
                });
            }
        }
        // Strings compare byte by byte whatever the collation says.
        Expr::Collate { expr: inner, .. } => *expr = take(inner),
        Expr::BinaryOp { op, .. } => {
            if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                && let Some(known) = parts.last().and_then(|name| operator(name))
            {
                *op = known;
            }
        }
        // `x = ANY (array)`: membership.
        Expr::AnyOp {
            left,
            compare_op: BinaryOperator::Eq,
            right,
            ..
        } if is_array(right) => {
            *expr = contains(take(right), take(left));
        }
        Expr::AllOp {
            left,
            compare_op: BinaryOperator::NotEq,
            right,
        } if is_array(right) => {
            let member = contains(take(right), take(left));
            *expr = Expr::UnaryOp {
                op: datafusion::sql::sqlparser::ast::UnaryOperator::Not,
                expr: Box::new(Expr::Nested(Box::new(member))),
            };
        }
        _ => {}
    }
}

fn take(expr: &mut Box<Expr>) -> Expr {
    std::mem::replace(
        expr.as_mut(),
        Expr::Value(datafusion::sql::sqlparser::ast::Value::Null.into()),
    )
}

fn is_array(expr: &Expr) -> bool {
    !matches!(expr, Expr::Subquery(_))
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "<=" => BinaryOperator::LtEq,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

fn empty_arguments() -> FunctionArguments {
    FunctionArguments::List(FunctionArgumentList {
        duplicate_treatment: None,
        args: Vec::new(),
        clauses: Vec::new(),
    })
}

fn contains(array: Expr, element: Expr) -> Expr {
    let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new("tenon_any_equal"))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument(element), argument(array)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
