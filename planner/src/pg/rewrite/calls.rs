//! Calls of functions that are something else here: casts, operators, lists of arguments, forms of Unicode.

use super::spellings::call;
use crate::pg::functions::notify::CHANNELS;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, Value,
};
use tenon_storage::SqlType;

/// The function that returns what the session listens to, one a row.
pub(super) const LISTENING: &str = "pg_listening_channels";

/// What a call means, where it is not the function of its name.
pub(super) fn respelled(function: &mut Function) -> Option<Expr> {
    let name = super::function_name(function);
    if function.over.is_some() || function.filter.is_some() {
        return None;
    }
    if name == "normalize" {
        name_form(function);
        return None;
    }
    if name == "pg_typeof" && matches!(arguments(function)?.as_slice(), [only] if is_string(only)) {
        return Some(Expr::Value(Value::SingleQuotedString("unknown".into()).into()));
    }
    if name == LISTENING && arguments(function)?.is_empty() {
        return Some(call("unnest", vec![call(CHANNELS, Vec::new())]));
    }
    number_strings(&name, function);
    if name == "parse_ident" {
        unname(function);
        return None;
    }
    if let Some(op) = operator_of(&name) {
        let [left, right] = <[Expr; 2]>::try_from(arguments(function)?).ok()?;
        let (left, right) = (Box::new(left), Box::new(right));
        return Some(Expr::Nested(Box::new(Expr::BinaryOp { left, op, right })));
    }
    if let Some(called) = with_list(&name, function) {
        return Some(called);
    }
    let data_type = type_of(&name)?;
    let mut arguments = arguments(function)?;
    // Functions of their names take bounds.
    if SqlType::range_of_name(&name).is_some() && !matches!(arguments.as_slice(), [only] if is_string(only)) {
        return None;
    }
    let expr = Box::new(arguments.pop().filter(|_| arguments.is_empty())?);
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr,
        data_type,
        array: false,
        format: None,
    })
}

/// The operator that a function is behind in PostgreSQL: `int4eq`.
fn operator_of(name: &str) -> Option<BinaryOperator> {
    const TYPES: [&str; 8] = ["bool", "int2", "int4", "int8", "text", "float4", "float8", "date"];
    if let Some(op) = operator_of_ranges(name) {
        return Some(op);
    }
    let of = TYPES.iter().find_map(|of| name.strip_prefix(of))?;
    Some(match of {
        "eq" => BinaryOperator::Eq,
        "ne" => BinaryOperator::NotEq,
        "lt" => BinaryOperator::Lt,
        "le" => BinaryOperator::LtEq,
        "gt" => BinaryOperator::Gt,
        "ge" => BinaryOperator::GtEq,
        _ => return None,
    })
}

/// The same of ranges and multiranges: `range_adjacent`, `multirange_overlaps_range`.
fn operator_of_ranges(name: &str) -> Option<BinaryOperator> {
    let custom = |op: &str| BinaryOperator::Custom(op.into());
    let (name, beside) = match name {
        "elem_contained_by_range" | "elem_contained_by_multirange" => return Some(BinaryOperator::ArrowAt),
        name => match name.strip_prefix("multirange_") {
            Some(rest) => (rest, true),
            None => (name.strip_prefix("range_")?, false),
        },
    };
    // What is of the same sort on both sides has no name of it, but for multiranges of what ranges have too.
    let bare = name.strip_suffix("_multirange").or_else(|| name.strip_suffix("_range"));
    let is_pair = bare.is_some() || !beside;
    Some(match (bare.unwrap_or(name), bare.is_some()) {
        ("contains", _) if is_pair => BinaryOperator::AtArrow,
        ("contains_elem", false) => BinaryOperator::AtArrow,
        ("contained_by", _) if is_pair => BinaryOperator::ArrowAt,
        ("overlaps", _) if is_pair => BinaryOperator::PGOverlap,
        ("before", _) if is_pair => BinaryOperator::PGBitwiseShiftLeft,
        ("after", _) if is_pair => BinaryOperator::PGBitwiseShiftRight,
        ("overleft", _) if is_pair => custom("&<"),
        ("overright", _) if is_pair => custom("&>"),
        ("adjacent", _) if is_pair => custom("-|-"),
        ("union", false) => BinaryOperator::Plus,
        ("intersect", false) => BinaryOperator::Multiply,
        ("minus", false) => BinaryOperator::Minus,
        ("eq", false) => BinaryOperator::Eq,
        ("ne", false) => BinaryOperator::NotEq,
        ("lt", false) => BinaryOperator::Lt,
        ("le", false) => BinaryOperator::LtEq,
        ("gt", false) => BinaryOperator::Gt,
        ("ge", false) => BinaryOperator::GtEq,
        _ => return None,
    })
}

/// A call whose last argument is a list of arguments: `concat(VARIADIC array)`.
fn with_list(name: &str, function: &Function) -> Option<Expr> {
    let mut arguments = arguments(function)?;
    match arguments.last_mut() {
        Some(Expr::Function(marked)) if super::function_name(marked) == VARIADIC => {
            let list = self::arguments(marked)?.pop()?;
            arguments.pop();
            arguments.push(list);
        }
        _ => return None,
    }
    match name {
        "concat" | "concat_ws" | "format" | "num_nulls" | "num_nonnulls" => {
            Some(call(&format!("tenon_variadic_{name}"), arguments))
        }
        name if matches!(SqlType::range_of_name(name), Some(SqlType::Multirange(_))) => Some(call(name, arguments)),
        _ => None,
    }
}

fn is_string(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

/// Strings are numbers where a function of numbers takes them.
fn number_strings(name: &str, function: &mut Function) {
    let (from, to) = match name {
        "abs" | "acos" | "asin" | "atan" | "cbrt" | "ceil" | "ceiling" | "cos" | "cot" | "degrees" | "exp"
        | "floor" | "ln" | "log" | "power" | "pow" | "radians" | "round" | "sign" | "sin" | "sqrt" | "tan"
        | "trunc" => (0, DataType::Float8),
        "repeat" | "lpad" | "rpad" => (1, DataType::Int4(None)),
        _ => return,
    };
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    // Of two numbers these are numerics', or are where one of the two is.
    let numeric = |argument: &FunctionArg| {
        matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Cast { data_type, .. }))
            if matches!(data_type, DataType::Numeric(_) | DataType::Decimal(_)))
    };
    let (from, to) = match (name, list.args.len()) {
        ("round" | "trunc", 2) => (0, DataType::Numeric(ExactNumberInfo::None)),
        ("log", 2) => (0, DataType::Numeric(ExactNumberInfo::None)),
        ("power" | "pow", 2) if list.args.iter().any(numeric) => (0, DataType::Numeric(ExactNumberInfo::None)),
        _ => (from, to),
    };
    // A third argument of a padding is text, and a second of a rounding is digits.
    let last = if matches!(name, "power" | "pow") || name == "log" && list.args.len() == 2 {
        2
    } else {
        from + 1
    };
    for argument in list.args.iter_mut().take(last).skip(from) {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
            && is_string(expr)
        {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(expr.clone()),
                data_type: to.clone(),
                array: false,
                format: None,
            };
        }
    }
}

/// What the parser puts around an argument behind VARIADIC.
pub(crate) const VARIADIC: &str = "tenon_variadic";

/// Takes the names off arguments that stand in order.
fn unname(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args {
        for argument in &mut list.args {
            if let FunctionArg::Named { arg, .. } | FunctionArg::ExprNamed { arg, .. } = argument {
                *argument = FunctionArg::Unnamed(arg.clone());
            }
        }
    }
}

/// The type that a call of its name casts to.
fn type_of(name: &str) -> Option<DataType> {
    Some(match name {
        "text" => DataType::Text,
        "int2" => DataType::Int2(None),
        "int4" => DataType::Int4(None),
        "int8" => DataType::Int8(None),
        "float4" => DataType::Float4,
        "float8" => DataType::Float8,
        "bool" => DataType::Bool,
        "bytea" => DataType::Bytea,
        "uuid" => DataType::Uuid,
        "varchar" => DataType::Varchar(None),
        "name" | "bpchar" | "inet" | "cidr" | "macaddr" | "macaddr8" | "tid" | "int4range" | "int8range"
        | "numrange" | "daterange" | "tsrange" | "tstzrange" => {
            DataType::Custom(ObjectName::from(vec![Ident::new(name)]), Vec::new())
        }
        _ => return None,
    })
}

/// The arguments, where all of them are plain.
fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let plain = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}

/// `normalize(text, NFC)`: the form is a word.
fn name_form(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args
        && let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(form))] = list.args.as_mut_slice()
        && let Expr::Identifier(word) = &*form
    {
        *form = Expr::Value(Value::SingleQuotedString(word.value.clone()).into());
    }
}
