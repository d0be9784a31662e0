//! Integer literals: `int4` where they fit, as in PostgreSQL. DataFusion reads each as `int8`.
//!
//! More than 400 lines because it lists the places that want a bare literal.
//!
//! A literal becomes a cast, which the optimizer folds. Places where DataFusion wants a bare literal (positions in
//! ORDER BY and GROUP BY, LIMIT, arguments of functions that look at them while planning) get it back.

use super::value_types;
use crate::pg::functions::bits::COMPLEMENT;
use crate::pg::walk::taken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, LimitClause, OrderByKind, Query, Select, SetExpr, UnaryOperator, Value, ValueWithSpan, WindowType,
};
use tenon_storage::SqlType;
use tenon_storage::numeric::Numeric;

/// Functions whose result type follows their argument's, so that the literal's type matters.
const TYPED_BY_ARGUMENTS: [&str; 25] = [
    "array_agg",
    "generate_series",
    "row",
    "to_json",
    "to_jsonb",
    "json_build_array",
    "jsonb_build_array",
    "json_build_object",
    "jsonb_build_object",
    "gcd",
    "lcm",
    "tenon_negate",
    COMPLEMENT,
    "to_hex",
    "pg_typeof",
    "coalesce",
    "greatest",
    "least",
    "nullif",
    "abs",
    "sum",
    "avg",
    "min",
    "max",
    "mod",
];

fn typed_by_arguments(name: &str) -> bool {
    let of_arrays = ["array_", "\u{1}array_", "any_", "all_"];
    TYPED_BY_ARGUMENTS.contains(&name) || of_arrays.iter().any(|prefix| name.starts_with(prefix))
}

pub(super) fn type_literal(expr: &mut Expr) {
    match expr {
        Expr::Value(value) => {
            if let Value::SingleQuotedByteStringLiteral(bits) = &value.value {
                *expr = bit_string(bits);
            } else if let Value::Number(digits, false) = &value.value
                && is_uncommon(digits)
            {
                *expr = numeric(digits, numeric_type(digits));
            } else if let Value::Number(digits, false) = &value.value
                && digits.parse::<i32>().is_ok()
            {
                let bare = Box::new(Expr::Value(value.clone()));
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: bare,
                    data_type: DataType::Int4(None),
                    array: false,
                    format: None,
                };
            }
        }
        Expr::UnaryOp { op, expr: digits } if *op == UnaryOperator::Minus && is_past_bigints(digits) => {
            *expr = numeric("-9223372036854775808", DataType::Int8(None));
        }
        Expr::UnaryOp { .. } if super::precedence::smallest_integer(expr) => {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(expr.clone()),
                data_type: DataType::Int4(None),
                array: false,
                format: None,
            };
        }
        Expr::Function(function) => {
            let keeps = function.over.is_none() && typed_by_arguments(&super::function_name(function));
            if !keeps && let FunctionArguments::List(list) = &mut function.args {
                for argument in &mut list.args {
                    let (FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))
                    | FunctionArg::Named {
                        arg: FunctionArgExpr::Expr(inner),
                        ..
                    }
                    | FunctionArg::ExprNamed {
                        arg: FunctionArgExpr::Expr(inner),
                        ..
                    }) = argument
                    else {
                        continue;
                    };
                    restore(inner);
                }
            }
            if let Some(WindowType::WindowSpec(window)) = &mut function.over {
                if let Some(frame) = &mut window.window_frame {
                    restore_bound(&mut frame.start_bound);
                    if let Some(end) = &mut frame.end_bound {
                        restore_bound(end);
                    }
                }
                window.partition_by.iter_mut().for_each(restore);
            }
        }
        // A cast decides the type anyway.
        Expr::Cast { expr, data_type, .. } => {
            restore(expr);
            exact_literal(expr, data_type);
        }
        Expr::Substring {
            substring_from,
            substring_for,
            ..
        } => {
            substring_from
                .iter_mut()
                .chain(substring_for)
                .for_each(|bound| restore(bound));
        }
        Expr::Interval(interval) => restore(&mut interval.value),
        Expr::CompoundFieldAccess { access_chain, .. } => {
            use datafusion::sql::sqlparser::ast::{AccessExpr, Subscript};
            for access in access_chain {
                if let AccessExpr::Subscript(Subscript::Index { index }) = access {
                    restore(index);
                }
            }
        }
        _ => {}
    }
}

fn restore_bound(bound: &mut datafusion::sql::sqlparser::ast::WindowFrameBound) {
    use datafusion::sql::sqlparser::ast::WindowFrameBound;
    if let WindowFrameBound::Preceding(Some(count)) | WindowFrameBound::Following(Some(count)) = bound {
        restore(count);
    }
}

/// A number cast to a float is read from its digits.
fn exact_literal(expr: &mut Expr, data_type: &DataType) {
    let digits = match &*expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) | Value::SingleQuotedString(digits) => digits.clone(),
            _ => return,
        },
        _ => return,
    };
    if is_float(data_type) {
        *expr = Expr::Value(Value::SingleQuotedString(digits).into());
    }
}

/// A column of VALUES that a cast makes a float is one in all its rows: bare numbers in it are floats. So are strings beside a
/// value of another type.
pub(super) fn type_values(query: &mut Query) {
    type_values_of(&mut query.body);
}

fn type_values_of(body: &mut SetExpr) {
    if let SetExpr::SetOperation { left, right, .. } = body {
        type_values_of(left);
        type_values_of(right);
    }
    let SetExpr::Values(values) = body else {
        return;
    };
    // The columns of others get their types where names are bound: see `combined`.
    let of_insert = values.explicit_row;
    let width = values.rows.iter().map(|row| row.content.len()).max().unwrap_or(0);
    for at in 0..width {
        let mut column: Vec<&mut Expr> = values
            .rows
            .iter_mut()
            .filter_map(|row| row.content.get_mut(at))
            .collect();
        let floats: Vec<DataType> = column.iter().filter_map(|expr| float_type(expr)).collect();
        let float = !floats.is_empty();
        let of_float = match floats.contains(&DataType::Float8) {
            true => DataType::Float8,
            false => DataType::Real,
        };
        if !of_insert {
            // Numbers are read as floats from their own digits.
            for expr in column.iter_mut().filter(|expr| float && is_number(expr)) {
                cast_to_float(expr, of_float == DataType::Real);
            }
            continue;
        }
        let nested = column.iter().find_map(|expr| match &**expr {
            Expr::Cast { data_type, .. } => {
                matches!(data_type, DataType::Array(_) | DataType::JSON | DataType::JSONB).then(|| data_type.clone())
            }
            _ => None,
        });
        if let Some(nested) = nested {
            // A literal beside a value of that type is one too.
            for expr in &mut column {
                if matches!(&**expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_) | Value::Null))
                {
                    let literal = taken(expr);
                    **expr = Expr::Cast {
                        kind: CastKind::Cast,
                        expr: Box::new(literal),
                        data_type: nested.clone(),
                        array: false,
                        format: None,
                    };
                }
            }
            continue;
        }
        let mut types = Vec::new();
        for expr in &column {
            let mut found = Vec::new();
            match number_type(expr) {
                Some(own) => types.push(own),
                None if types_of_numbers(expr, &mut found) => types.append(&mut found),
                None => {}
            }
        }
        // Numbers of different types: each keeps its own digits.
        let mixed = !float && types.iter().any(|own| Some(own) != types.first());
        for expr in column.iter_mut().filter(|_| mixed) {
            if is_number(expr) {
                let digits = expr.to_string();
                **expr = numeric(&digits, DataType::Decimal(ExactNumberInfo::None));
            } else if types_of_numbers(expr, &mut Vec::new()) {
                value_types::cast(expr, DataType::Decimal(ExactNumberInfo::None));
            }
        }
        for expr in column.iter_mut().filter(|_| float) {
            if is_number(expr) {
                cast_to_float(expr, of_float == DataType::Real);
            } else if number_type(expr).is_some() || types_of_numbers(expr, &mut Vec::new()) {
                value_types::cast(expr, of_float.clone());
            }
        }
        // What stands beside a value cast to numeric is numeric, too.
        if !float && column.iter_mut().any(|expr| declared_numeric(expr).is_some()) {
            for expr in &mut column {
                if let Some(data_type) = declared_numeric(expr) {
                    *data_type = DataType::Decimal(ExactNumberInfo::None);
                } else if let Expr::Value(ValueWithSpan {
                    value: Value::SingleQuotedString(_) | Value::Number(..),
                    ..
                }) = &**expr
                {
                    cast_to_numeric(expr, SqlType::Numeric);
                }
            }
        }
        if value_types::typed_by_casts(&mut column) {
            continue;
        }
        let Some(of) = column.iter().find_map(|expr| evident(expr)) else {
            continue;
        };
        for expr in column {
            if matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_))) {
                let text = taken(expr);
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(text),
                    data_type: of.clone(),
                    array: false,
                    format: None,
                };
            }
        }
    }
}

/// The type of a cast to `numeric` without a precision, also below a sign.
fn declared_numeric(expr: &mut Expr) -> Option<&mut DataType> {
    match expr {
        Expr::Cast { data_type, .. }
            if matches!(
                data_type,
                DataType::Numeric(ExactNumberInfo::None) | DataType::Decimal(ExactNumberInfo::None)
            ) =>
        {
            Some(data_type)
        }
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => declared_numeric(expr),
        _ => None,
    }
}

/// The type that an expression says it has, where a string beside it is one of that type.
fn evident(expr: &Expr) -> Option<DataType> {
    let of = match expr {
        Expr::Cast { data_type, .. } => data_type,
        Expr::TypedString(typed) => &typed.data_type,
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => return Some(DataType::Boolean),
        Expr::Interval(_) => {
            return Some(DataType::Interval {
                fields: None,
                precision: None,
            });
        }
        _ => return None,
    };
    let takes_strings = matches!(
        of,
        DataType::Bytea
            | DataType::Boolean
            | DataType::Bool
            | DataType::Date
            | DataType::Time(..)
            | DataType::Timestamp(..)
            | DataType::Interval { .. }
            | DataType::Uuid
    ) || is_address(of);
    takes_strings.then(|| of.clone())
}

fn is_address(of: &DataType) -> bool {
    matches!(of, DataType::Custom(name, _) if matches!(name.to_string().as_str(), "inet" | "cidr" | "macaddr" | "macaddr8" | "tid")
        || SqlType::range_of_name(&name.to_string()).is_some())
}

/// A literal as a float, read from its own digits.
pub(crate) fn cast_to_float(expr: &mut Expr, real: bool) {
    let text = match &*expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        // A numeric has no negative zero.
        other => match other.to_string() {
            zero if zero.starts_with('-') && zero.parse() == Ok(0.0) => "0".to_string(),
            digits => digits,
        },
    };
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(text).into())),
        data_type: if real { DataType::Float4 } else { DataType::Float8 },
        array: false,
        format: None,
    };
}

/// A literal as a numeric of a declared type, read from its own digits.
pub(crate) fn cast_to_numeric(expr: &mut Expr, sql_type: SqlType) {
    let text = match &*expr {
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        }) => text.clone(),
        other => other.to_string(),
    };
    let info = match sql_type {
        SqlType::NumericOf(precision, scale) => ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into()),
        // Fitted when it is stored.
        _ => ExactNumberInfo::None,
    };
    *expr = numeric(&text, DataType::Decimal(info));
}

fn is_float(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Float8 | DataType::DoublePrecision | DataType::Float4 | DataType::Real | DataType::Float(_)
    )
}

/// The float that casts within a number make it; arithmetic makes doubles of `real` and anything else.
fn float_type(expr: &Expr) -> Option<DataType> {
    match expr {
        Expr::Cast { data_type, .. } if is_float(data_type) => Some(match data_type {
            DataType::Float4 | DataType::Real => DataType::Real,
            DataType::Float(ExactNumberInfo::Precision(bits)) if *bits < 25 => DataType::Real,
            _ => DataType::Float8,
        }),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => float_type(inner),
        Expr::BinaryOp { left, op, right } if is_arithmetic(op) => match (float_type(left), float_type(right)) {
            (Some(left), Some(right)) if left == right => Some(left),
            (None, None) => None,
            _ => Some(DataType::Float8),
        },
        _ => None,
    }
}

/// A number as it stands, with or without a sign.
pub(crate) fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        Expr::UnaryOp {
            op: UnaryOperator::Minus | UnaryOperator::Plus,
            expr,
        } => matches!(expr.as_ref(), Expr::Value(value) if matches!(value.value, Value::Number(..))),
        _ => false,
    }
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// The types of the number literals in an expression that is an integer or a numeric, whatever they are. Whether it is such.
fn types_of_numbers(expr: &Expr, found: &mut Vec<DataType>) -> bool {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            is_arithmetic(op) && types_of_numbers(left, found) && types_of_numbers(right, found)
        }
        Expr::Nested(inner) => types_of_numbers(inner, found),
        Expr::UnaryOp { expr: inner, .. } if !is_number(expr) => types_of_numbers(inner, found),
        expr => {
            found.extend(number_type(expr));
            is_number(expr)
        }
    }
}

/// The digits cast to a numeric.
fn numeric(digits: &str, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(digits.to_string()).into())),
        data_type,
        array: false,
        format: None,
    }
}

/// What the digits of the smallest `int8` alone have become.
fn is_past_bigints(expr: &Expr) -> bool {
    let digits = "9223372036854775808";
    *expr == numeric(digits, numeric_type(digits))
}

/// The `bit` of any length that `B'...'` is.
fn bit_string(bits: &str) -> Expr {
    let mut literal = Expr::Value(Value::SingleQuotedString(bits.to_string()).into());
    value_types::cast(&mut literal, value_types::any_bits());
    literal
}

/// A numeric that DataFusion would read as something else: an integer beyond 64 bits, one with an exponent, one of more
/// digits than its decimals have.
fn is_uncommon(digits: &str) -> bool {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    (plain && digits.parse::<i64>().is_err()) || digits.len() > 38 || digits.contains(['e', 'E'])
}

/// The type of a number's digits: a decimal that holds exactly them, where there is one. Only `Numeric` is declared so; a
/// `Decimal` is any numeric.
fn numeric_type(digits: &str) -> DataType {
    match Numeric::parse(digits.as_bytes()) {
        Ok(Numeric::Finite(value)) => {
            let precision = value.unscaled.digit_count().max(value.scale as usize).max(1);
            match precision <= 38 {
                true => DataType::Numeric(ExactNumberInfo::PrecisionAndScale(precision as u64, value.scale.into())),
                false => DataType::Decimal(ExactNumberInfo::None),
            }
        }
        _ => DataType::Decimal(ExactNumberInfo::None),
    }
}

/// What type a bare number has, as far as it matters beside others; whether a cast makes it a numeric.
fn number_type(expr: &Expr) -> Option<DataType> {
    match expr {
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Numeric(_) | DataType::Decimal(_))
            .then_some(DataType::Decimal(ExactNumberInfo::None)),
        _ if !is_number(expr) => None,
        _ => match numeric_type(expr.to_string().trim_start_matches(['-', '+', ' '])) {
            DataType::Numeric(ExactNumberInfo::PrecisionAndScale(_, 0)) => Some(DataType::BigInt(None)),
            DataType::Numeric(ExactNumberInfo::PrecisionAndScale(_, scale)) => {
                Some(DataType::Numeric(ExactNumberInfo::PrecisionAndScale(38, scale)))
            }
            other => Some(other),
        },
    }
}

/// Takes the cast off a literal again, also behind a sign.
fn restore(expr: &mut Expr) {
    match expr {
        Expr::Cast {
            kind: CastKind::Cast,
            expr: inner,
            data_type: DataType::Int4(None),
            ..
        } => {
            if let Expr::Value(value) = inner.as_ref()
                && matches!(value.value, Value::Number(..))
            {
                *expr = Expr::Value(value.clone());
            }
        }
        Expr::UnaryOp { expr: inner, .. } => restore(inner),
        _ => {}
    }
}

/// The same of a number of rows, which is rounded.
fn restore_count(expr: &mut Expr) {
    restore(expr);
    let mut number = &*expr;
    while let Expr::Nested(inner) = number {
        number = inner;
    }
    let is_read = matches!(number, Expr::Cast { data_type, .. } if value_types::is_decimal(data_type));
    if is_number(number) && number.to_string().contains('.') {
        let digits = number.to_string();
        *expr = numeric(&digits, DataType::Decimal(ExactNumberInfo::None));
        value_types::cast(expr, DataType::Int8(None));
    } else if is_read {
        value_types::cast(expr, DataType::Int8(None));
    }
}

pub(super) fn restore_positions_in_select(select: &mut Select) {
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        for key in keys {
            restore(key);
            if let Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) = key {
                sets.iter_mut().flatten().for_each(restore);
            }
        }
    }
    if let Some(datafusion::sql::sqlparser::ast::Distinct::On(keys)) = &mut select.distinct {
        keys.iter_mut().for_each(restore);
    }
}

pub(super) fn restore_positions_in_query(query: &mut Query) {
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        keys.iter_mut().for_each(|key| restore(&mut key.expr));
    }
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.iter_mut().for_each(restore_count);
            offset.iter_mut().for_each(|offset| restore_count(&mut offset.value));
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            restore_count(offset);
            restore_count(limit);
        }
        None => {}
    }
    if let Some(fetch) = &mut query.fetch {
        fetch.quantity.iter_mut().for_each(restore_count);
    }
}
