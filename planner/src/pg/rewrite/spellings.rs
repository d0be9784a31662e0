//! PostgreSQL spellings that DataFusion's planner does not know.
//!
//! More than 400 lines because it is a table of spellings, a few lines each.

use super::names::function_name;
use crate::pg::functions::array::quantified;
use crate::pg::functions::bits;
use crate::pg::functions::record::ITSELF_NULL;
use crate::pg::walk::{null, taken};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, LimitClause, ObjectName, ObjectNamePart, Query, UnaryOperator,
    Value, ValueWithSpan, WindowSpec, WindowType,
};

pub(super) fn respell(expr: &mut Expr) {
    if let Expr::Function(function) = expr
        && let Some(array) = super::arrays::of_subquery(function)
    {
        *expr = array;
        return;
    }
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
                if matches!(qualifier.as_deref(), Some("pg_catalog" | "information_schema"))
                    && let Some(last) = function.name.0.pop()
                {
                    function.name.0 = vec![last];
                }
            }
            if let Some(other) = super::calls::respelled(function) {
                *expr = other;
                return;
            }
            if let [ObjectNamePart::Identifier(name)] = function.name.0.as_mut_slice()
                && let Some(known) = synonym(&name.value)
            {
                *name = Ident::new(known);
            }
            if let Some(cast) = cast_call(function) {
                *expr = cast;
                return;
            }
            if matches!(function.args, FunctionArguments::None) && function.over.is_none() {
                function.args = empty_arguments();
            }
            super::intervals::place_named(function);
            if let Some(cast) = super::intervals::as_cast(function) {
                *expr = cast;
                return;
            }
            if let Some(limited) = super::intervals::current(function) {
                *expr = limited;
            }
        }
        Expr::Identifier(ident) if super::names::is_call(ident) => {
            *expr = Expr::Function(Function {
                name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(ident.value.to_lowercase()))]),
                uses_odbc_syntax: false,
                parameters: FunctionArguments::None,
                args: empty_arguments(),
                filter: None,
                null_treatment: None,
                over: None,
                within_group: Vec::new(),
            });
        }
        Expr::Case {
            operand: None,
            conditions,
            ..
        } => conditions.iter_mut().for_each(|when| as_bool(&mut when.condition)),
        // What AND, OR and NOT take is a boolean, also where it is written as a string.
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: inner,
        } => as_bool(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And | BinaryOperator::Or,
            right,
        } => {
            as_bool(left);
            as_bool(right);
        }
        Expr::UnaryOp {
            op: UnaryOperator::BitwiseNot,
            expr: inner,
        } => {
            *expr = call(bits::COMPLEMENT, vec![take(inner)]);
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
            // These operators are of floats alone.
            let float = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(take(inner)),
                data_type: DataType::Float8,
                array: false,
                format: None,
            };
            *expr = call(name, vec![float]);
        }
        // Checked, and known for numerics; of a literal it is part of the literal.
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } if !is_literal(inner) => *expr = call("tenon_negate", vec![take(inner)]),
        Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: inner,
        } => *expr = Expr::Nested(Box::new(take(inner))),
        Expr::UnaryOp {
            op: UnaryOperator::PGAbs,
            expr: inner,
        } => *expr = call("abs", vec![take(inner)]),
        // Read by the same parser as an interval in a table.
        Expr::Interval(interval) if matches!(&*interval.value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_))) => {
            if let Some((fields, precision)) = super::intervals::limits(interval) {
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: std::mem::replace(&mut interval.value, Box::new(null())),
                    data_type: DataType::Interval { fields, precision },
                    array: false,
                    format: None,
                };
            }
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            *expr = call("timezone", vec![take(time_zone), take(timestamp)]);
        }
        Expr::Like {
            pattern, escape_char, ..
        }
        | Expr::ILike {
            pattern, escape_char, ..
        } => {
            unescape(pattern, escape_char);
        }
        Expr::IsNormalized {
            expr: text,
            form,
            negated,
        } => {
            let mut told = vec![take(text)];
            told.extend(form.map(|form| Expr::Value(Value::SingleQuotedString(form.to_string()).into())));
            let normal = call("is_normalized", told);
            *expr = match negated {
                true => Expr::Nested(Box::new(Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr: Box::new(normal),
                })),
                false => normal,
            };
        }
        Expr::SimilarTo {
            negated,
            expr: text,
            pattern,
            escape_char,
        } => {
            let mut told = vec![take(pattern)];
            told.extend(escape_char.take().map(Expr::Value));
            let matched = call("tenon_regex_matches", vec![take(text), call("similar_to_escape", told)]);
            *expr = match negated {
                true => Expr::Nested(Box::new(Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr: Box::new(matched),
                })),
                false => matched,
            };
        }
        // Strings compare byte by byte whatever the collation says.
        Expr::Collate { expr: inner, .. } => *expr = take(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Overlaps,
            right,
        } if is_row(left) && is_row(right) => {
            if let Some(compared) = super::overlaps::overlaps(left, right) {
                *expr = compared;
            }
        }
        Expr::InList {
            expr: left,
            list,
            negated,
        } if is_row(left) => {
            let rows = list.iter().map(|row| compare_rows(left, &BinaryOperator::Eq, row));
            let any = rows.collect::<Option<Vec<_>>>().and_then(|rows| {
                rows.into_iter().reduce(|a, b| Expr::BinaryOp {
                    left: Box::new(a),
                    op: BinaryOperator::Or,
                    right: Box::new(b),
                })
            });
            if let Some(any) = any {
                let nested = Expr::Nested(Box::new(any));
                *expr = match negated {
                    true => Expr::UnaryOp {
                        op: UnaryOperator::Not,
                        expr: Box::new(nested),
                    },
                    false => nested,
                };
            }
        }
        Expr::Value(value) => {
            if let Value::DollarQuotedString(text) = &value.value {
                value.value = Value::SingleQuotedString(text.value.clone());
            }
        }
        // A row is NULL where all of it is, and is not where nothing of it is.
        Expr::IsNull(row) => {
            if let Some(all) = row_items(row).map(|items| all_of(items, true)) {
                *expr = all;
            }
        }
        Expr::IsNotNull(row) => {
            if let Some(all) = row_items(row).map(|items| all_of(items, false)) {
                *expr = all;
            }
        }
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
        // `x = ANY (array)`.
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } if is_array(right) => {
            if let Some(name) = quantified(compare_op, false) {
                *expr = call(name, vec![take(left), take(right)]);
            }
        }
        Expr::AllOp {
            left,
            compare_op,
            right,
        } if is_array(right) => {
            if let Some(name) = quantified(compare_op, true) {
                *expr = call(name, vec![take(left), take(right)]);
            }
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            if let Some(subscript) = super::nested::subscript(root, access_chain) {
                *expr = subscript;
            }
        }
        _ => {}
    }
}

pub(super) fn take(expr: &mut Box<Expr>) -> Expr {
    taken(expr.as_mut())
}

/// A number or an interval as it stands, which may have got a type.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::Interval(_) => true,
        Expr::Cast {
            kind: CastKind::Cast,
            expr,
            ..
        } => matches!(&**expr, Expr::Value(_)),
        _ => false,
    }
}

pub(super) fn as_bool(expr: &mut Expr) {
    if matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_))) {
        let text = taken(expr);
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(text),
            data_type: DataType::Boolean,
            array: false,
            format: None,
        };
    }
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
        "^" => BinaryOperator::PGExp,
        "^@" => BinaryOperator::PGStartsWith,
        "&" => BinaryOperator::BitwiseAnd,
        "|" => BinaryOperator::BitwiseOr,
        "#" => BinaryOperator::PGBitwiseXor,
        "<<" => BinaryOperator::PGBitwiseShiftLeft,
        ">>" => BinaryOperator::PGBitwiseShiftRight,
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

fn is_row(expr: &Expr) -> bool {
    row_items(expr).is_some_and(|items| items.len() > 1 || !matches!(expr, Expr::Tuple(_)))
}

/// What stands in `(a, b)` or `ROW(a, b)`.
pub(super) fn row_items(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Tuple(items) => Some(items.iter().collect()),
        Expr::Function(call) if function_name(call) == "row" && call.over.is_none() => {
            let FunctionArguments::List(list) = &call.args else {
                return None;
            };
            let items = list.args.iter().map(|item| match item {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(item)) => Some(item),
                _ => None,
            });
            items.collect()
        }
        _ => None,
    }
}

/// Whether an item of a row is NULL, or is not: one that is a record itself is not asked for its columns.
pub(crate) fn itself_null(item: Expr, null: bool) -> Expr {
    match item {
        Expr::Value(_) if null => Expr::IsNull(Box::new(item)),
        Expr::Value(_) => Expr::IsNotNull(Box::new(item)),
        _ => call(ITSELF_NULL, vec![item, Expr::Value(Value::Boolean(null).into())]),
    }
}

fn all_of(items: Vec<&Expr>, null: bool) -> Expr {
    let tests = items.into_iter().map(|item| itself_null(item.clone(), null));
    let all = tests.reduce(|a, b| Expr::BinaryOp {
        left: Box::new(a),
        op: BinaryOperator::And,
        right: Box::new(b),
    });
    match all {
        Some(all) => Expr::Nested(Box::new(all)),
        None => Expr::Value(Value::Boolean(true).into()),
    }
}

/// Rows compared column by column, with NULL as SQL has it. None for other operators, or rows of different lengths.
pub(super) fn compare_rows(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let (left, right) = (row_items(left)?, row_items(right)?);
    if left.len() != right.len() || left.is_empty() {
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

/// A type's name as a function is a cast: `float8(x)`.
fn cast_call(function: &mut Function) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
        return None;
    };
    let data_type = match name.value.to_lowercase().as_str() {
        "int2" => DataType::Int2(None),
        "int4" => DataType::Int4(None),
        "int8" => DataType::Int8(None),
        "float4" => DataType::Float4,
        "float8" => DataType::Float8,
        "numeric" => DataType::Numeric(ExactNumberInfo::None),
        _ => return None,
    };
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))] = list.args.as_mut_slice() else {
        return None;
    };
    let expr = Box::new(taken(inner));
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr,
        data_type,
        array: false,
        format: None,
    })
}

/// DataFusion's name of a function that PostgreSQL names otherwise.
fn synonym(name: &str) -> Option<&'static str> {
    Some(match name.to_lowercase().as_str() {
        "every" => "bool_and",
        "sign" => "signum",
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
    if escape == "\\" {
        return;
    }
    let several = escape.chars().nth(1).is_some();
    *escape_char = None;
    if let Expr::Value(ValueWithSpan {
        value: Value::SingleQuotedString(text),
        ..
    }) = pattern
        && !several
    {
        *text = escape_by_backslash(text, escape.chars().next());
        return;
    }
    let made = taken(pattern);
    let escape = Expr::Value(Value::SingleQuotedString(escape).into());
    *pattern = call("like_escape", vec![made, escape]);
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

pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
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

/// `row_number() OVER (PARTITION BY keys)`.
pub(crate) fn row_number(keys: Vec<Expr>) -> Expr {
    let mut number = call("row_number", Vec::new());
    if let Expr::Function(function) = &mut number {
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: keys,
            order_by: Vec::new(),
            window_frame: None,
        }));
    }
    number
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
