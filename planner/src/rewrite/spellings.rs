//! PostgreSQL spellings that DataFusion's planner does not know.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, JoinConstraint, JoinOperator, LimitClause, ObjectName, ObjectNamePart, Query, Select,
    SelectItem, Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, UnaryOperator, Value,
    ValueWithSpan,
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
            if let [ObjectNamePart::Identifier(name)] = function.name.0.as_mut_slice()
                && let Some(known) = synonym(&name.value)
            {
                *name = Ident::new(known);
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
        Expr::UnaryOp {
            op: UnaryOperator::BitwiseNot,
            expr: inner,
        } => {
            let negated = Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: Box::new(Expr::Nested(Box::new(take(inner)))),
            };
            let one = Expr::Value(Value::Number("1".into(), false).into());
            *expr = Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(negated),
                op: BinaryOperator::Minus,
                right: Box::new(one),
            }));
        }
        Expr::UnaryOp {
            op: op @ (UnaryOperator::PGSquareRoot | UnaryOperator::PGCubeRoot),
            expr: inner,
        } => {
            let name = if *op == UnaryOperator::PGSquareRoot {
                "sqrt"
            } else {
                "cbrt"
            };
            *expr = call(name, vec![take(inner)]);
        }
        Expr::UnaryOp {
            op: UnaryOperator::PGAbs,
            expr: inner,
        } => *expr = call("abs", vec![take(inner)]),
        // Read by the same parser as an interval in a table.
        Expr::Interval(interval)
            if interval.leading_field.is_none()
                && matches!(&*interval.value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_))) =>
        {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: std::mem::replace(&mut interval.value, Box::new(Expr::Value(Value::Null.into()))),
                data_type: DataType::Interval {
                    fields: None,
                    precision: None,
                },
                array: false,
                format: None,
            };
        }
        Expr::Like {
            pattern, escape_char, ..
        }
        | Expr::ILike {
            pattern, escape_char, ..
        } => {
            unescape(pattern, escape_char);
        }
        // Strings compare byte by byte whatever the collation says.
        Expr::Collate { expr: inner, .. } => *expr = take(inner),
        Expr::BinaryOp { left, op, right } if is_row(left) && is_row(right) => {
            if let Some(compared) = compare_rows(left, op, right) {
                *expr = compared;
            }
        }
        Expr::BinaryOp { op, .. } => {
            if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                && let Some(known) = parts.last().and_then(|name| operator(name))
            {
                *op = known;
            }
        }
        Expr::AnyOp {
            left,
            compare_op: BinaryOperator::Eq,
            right,
            ..
        } if !is_array(right) => *expr = in_subquery(left, right, false),
        Expr::AllOp {
            left,
            compare_op: BinaryOperator::NotEq,
            right,
        } if !is_array(right) => *expr = in_subquery(left, right, true),
        // Anything else over a subquery is known only as a condition of WHERE: see `conditions`.
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if !is_array(right) => {
            *expr = call("unsupported: ANY or ALL of a subquery in this place", Vec::new());
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
                op: UnaryOperator::Not,
                expr: Box::new(Expr::Nested(Box::new(member))),
            };
        }
        _ => {}
    }
}

fn take(expr: &mut Box<Expr>) -> Expr {
    std::mem::replace(expr.as_mut(), Expr::Value(Value::Null.into()))
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

fn in_subquery(left: &mut Box<Expr>, right: &mut Box<Expr>, negated: bool) -> Expr {
    match take(right) {
        Expr::Subquery(subquery) => Expr::InSubquery {
            expr: Box::new(take(left)),
            subquery,
            negated,
        },
        other => other,
    }
}

fn is_row(expr: &Expr) -> bool {
    matches!(expr, Expr::Tuple(values) if values.len() > 1)
}

/// Rows compared column by column, with NULL as SQL has it. None for other operators, or rows of different lengths.
fn compare_rows(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) else {
        return None;
    };
    if left.len() != right.len() {
        return None;
    }
    let pair = |at: usize, op: &BinaryOperator| Expr::BinaryOp {
        left: Box::new(left[at].clone()),
        op: op.clone(),
        right: Box::new(right[at].clone()),
    };
    let join = |a: Expr, op: BinaryOperator, b: Expr| {
        Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(a),
            op,
            right: Box::new(b),
        }))
    };
    let last = left.len() - 1;
    match op {
        BinaryOperator::Eq => (0..=last)
            .map(|at| pair(at, op))
            .reduce(|a, b| join(a, BinaryOperator::And, b)),
        BinaryOperator::NotEq => (0..=last)
            .map(|at| pair(at, op))
            .reduce(|a, b| join(a, BinaryOperator::Or, b)),
        BinaryOperator::Lt | BinaryOperator::Gt | BinaryOperator::LtEq | BinaryOperator::GtEq => {
            let strict = match op {
                BinaryOperator::LtEq => BinaryOperator::Lt,
                BinaryOperator::GtEq => BinaryOperator::Gt,
                other => other.clone(),
            };
            let mut out = pair(last, op);
            for at in (0..last).rev() {
                let tied = join(pair(at, &BinaryOperator::Eq), BinaryOperator::And, out);
                out = join(pair(at, &strict), BinaryOperator::Or, tied);
            }
            Some(out)
        }
        _ => None,
    }
}

/// FULL JOIN ... USING is refused: its merged column would be the left table's alone.
pub(super) fn refuse_full_using(select: &mut Select) {
    for join in select.from.iter_mut().flat_map(|table| &mut table.joins) {
        if let JoinOperator::FullOuter(constraint @ (JoinConstraint::Using(_) | JoinConstraint::Natural)) =
            &mut join.join_operator
        {
            *constraint = JoinConstraint::On(call("unsupported: FULL JOIN with USING", Vec::new()));
        }
    }
}

/// DataFusion's name of a function that PostgreSQL names otherwise.
fn synonym(name: &str) -> Option<&'static str> {
    Some(match name.to_lowercase().as_str() {
        "every" => "bool_and",
        "sign" => "signum",
        "variance" => "var_samp",
        "ceiling" => "ceil",
        "pow" => "power",
        _ => return None,
    })
}

/// A pattern with an escape character of its own becomes one with the backslash.
fn unescape(pattern: &mut Expr, escape_char: &mut Option<ValueWithSpan>) {
    let Some(escape) = escape_char.as_ref().and_then(|value| match &value.value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    }) else {
        return;
    };
    if escape == "\\" || escape.chars().count() > 1 {
        return;
    }
    let Expr::Value(ValueWithSpan {
        value: Value::SingleQuotedString(text),
        ..
    }) = pattern
    else {
        let made = std::mem::replace(pattern, Expr::Value(Value::Null.into()));
        let escape = Expr::Value(Value::SingleQuotedString(escape).into());
        *pattern = call("like_escape", vec![made, escape]);
        *escape_char = None;
        return;
    };
    *pattern = Expr::Value(Value::SingleQuotedString(escape_by_backslash(text, escape.chars().next())).into());
    *escape_char = None;
}

/// A LIKE pattern whose escape character is `escape`, none where that is None, as one whose escape is the backslash.
pub(crate) fn escape_by_backslash(pattern: &str, escape: Option<char>) -> String {
    let (mut out, mut chars) = (String::new(), pattern.chars());
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                out.push('\\');
                out.extend(chars.next());
            }
            '\\' => out.push_str("\\\\"),
            other => out.push(other),
        }
    }
    out
}

/// `x > ANY (SELECT ...)` and `x > ALL (SELECT ...)` where they are conditions of WHERE: there, NULL is as good as false,
/// and EXISTS says the same.
pub(super) fn conditions(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            conditions(left);
            conditions(right);
        }
        Expr::Nested(inner) => conditions(inner),
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } if *compare_op != BinaryOperator::Eq => {
            if let Expr::Subquery(_) = right.as_ref() {
                *condition = exists(left, compare_op.clone(), right, false);
            }
        }
        Expr::AllOp {
            left,
            compare_op,
            right,
        } if *compare_op != BinaryOperator::NotEq => {
            if let Expr::Subquery(_) = right.as_ref() {
                *condition = exists(left, compare_op.clone(), right, true);
            }
        }
        _ => {}
    }
}

/// `EXISTS (SELECT FROM (subquery) AS s(v) WHERE left op v)`, or with `all` its counterpart: no row without it.
fn exists(left: &mut Box<Expr>, op: BinaryOperator, right: &mut Box<Expr>, all: bool) -> Expr {
    let Expr::Subquery(subquery) = take(right) else {
        return take(left);
    };
    let name = |text: &str| Ident::with_quote('"', text);
    let value = Expr::CompoundIdentifier(vec![name("\u{1}any"), name("\u{1}value")]);
    let compared = Expr::BinaryOp {
        left: Box::new(take(left)),
        op,
        right: Box::new(value),
    };
    let condition = if all {
        Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(compared))))
    } else {
        compared
    };
    let from = TableWithJoins {
        relation: TableFactor::Derived {
            lateral: false,
            subquery,
            alias: Some(TableAlias {
                explicit: true,
                name: name("\u{1}any"),
                columns: vec![TableAliasColumnDef {
                    name: name("\u{1}value"),
                    data_type: None,
                }],
                at: None,
            }),
            sample: None,
        },
        joins: Vec::new(),
    };
    let item = SelectItem::UnnamedExpr(Expr::Value(Value::Boolean(true).into()));
    match crate::statements::select_of(vec![item], vec![from], Some(condition)) {
        Statement::Query(subquery) => Expr::Exists { subquery, negated: all },
        _ => Expr::Value(Value::Null.into()),
    }
}

fn contains(array: Expr, element: Expr) -> Expr {
    call("tenon_any_equal", vec![element, array])
}

fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let arguments = arguments
        .into_iter()
        .map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// `FETCH FIRST n ROWS ONLY` is LIMIT.
pub(super) fn fetch_as_limit(query: &mut Query) {
    let plain = query
        .fetch
        .as_ref()
        .is_some_and(|fetch| !fetch.percent && !fetch.with_ties);
    if !plain {
        return;
    }
    let quantity = query.fetch.take().and_then(|fetch| fetch.quantity);
    let quantity = quantity.unwrap_or_else(|| Expr::Value(Value::Number("1".into(), false).into()));
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, .. }) => *limit = Some(quantity),
        _ => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(quantity),
                offset: None,
                limit_by: Vec::new(),
            });
        }
    }
}
