//! Integer literals: `int4` where they fit, as in PostgreSQL. DataFusion reads each as `int8`.
//!
//! A literal becomes a cast, which the optimizer folds. Places where DataFusion wants a bare literal (positions in
//! ORDER BY and GROUP BY, LIMIT, arguments of functions that look at them while planning) get it back.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    LimitClause, OrderByKind, Query, Select, SetExpr, UnaryOperator, Value, WindowType,
};

/// Functions whose result type follows their argument's, so that the literal's type matters.
const TYPED_BY_ARGUMENTS: [&str; 12] = [
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

pub(super) fn type_literal(expr: &mut Expr) {
    match expr {
        Expr::Value(value) => {
            if let Value::Number(digits, false) = &value.value
                && far_literal(digits)
            {
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(Expr::Value(Value::SingleQuotedString(digits.clone()).into())),
                    data_type: DataType::Float8,
                    array: false,
                    format: None,
                };
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
            let keeps =
                function.over.is_none() && TYPED_BY_ARGUMENTS.contains(&super::function_name(function).as_str());
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

/// A number cast to a float is read from its digits; text or a number cast to `numeric` keeps the scale it is written
/// with.
fn exact_literal(expr: &mut Expr, data_type: &mut DataType) {
    let digits = match &*expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) | Value::SingleQuotedString(digits) => digits.clone(),
            _ => return,
        },
        _ => return,
    };
    match data_type {
        DataType::Float8 | DataType::DoublePrecision | DataType::Float4 | DataType::Real | DataType::Float(_) => {
            *expr = Expr::Value(Value::SingleQuotedString(digits).into());
        }
        DataType::Numeric(info @ ExactNumberInfo::None) | DataType::Decimal(info @ ExactNumberInfo::None) => {
            let plain = digits.trim().trim_start_matches(['+', '-']);
            let whole = plain.find('.').unwrap_or(plain.len());
            let scale = plain.len().saturating_sub(whole + 1);
            if plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && plain.len() <= 38 {
                *info = ExactNumberInfo::PrecisionAndScale(38, scale as i64);
            }
        }
        _ => {}
    }
}

/// A column of VALUES that a cast makes a float is one in all its rows: bare numbers in it are floats. So are strings beside a
/// value of another type.
pub(super) fn type_values(query: &mut Query) {
    let SetExpr::Values(values) = query.body.as_mut() else {
        return;
    };
    let width = values.rows.iter().map(|row| row.content.len()).max().unwrap_or(0);
    for at in 0..width {
        let mut column: Vec<&mut Expr> = values
            .rows
            .iter_mut()
            .filter_map(|row| row.content.get_mut(at))
            .collect();
        let float = column.iter().any(|expr| match &**expr {
            Expr::Cast { data_type, .. } => is_float(data_type),
            Expr::Value(value) => matches!(&value.value, Value::Number(digits, false) if far_literal(digits)),
            _ => false,
        });
        for expr in column.iter_mut().filter(|expr| float && is_number(expr)) {
            cast_to_float(expr);
        }
        let Some(of) = column.iter().find_map(|expr| evident(expr)) else {
            continue;
        };
        for expr in column {
            if matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_))) {
                let text = std::mem::replace(expr, Expr::Value(Value::Null.into()));
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

/// The type that an expression says it has, where a string beside it is one of that type.
fn evident(expr: &Expr) -> Option<DataType> {
    let of = match expr {
        Expr::Cast { data_type, .. } => data_type,
        Expr::TypedString(typed) => &typed.data_type,
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => return Some(DataType::Boolean),
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
    );
    takes_strings.then(|| of.clone())
}

/// A literal as a float, read from its own digits.
pub(crate) fn cast_to_float(expr: &mut Expr) {
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
        data_type: DataType::Float8,
        array: false,
        format: None,
    };
}

fn is_float(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Float8 | DataType::DoublePrecision | DataType::Float4 | DataType::Real | DataType::Float(_)
    )
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

/// A literal too large or too small for the decimals here: a float, as its digits say.
fn far_literal(digits: &str) -> bool {
    let Some((_, exponent)) = digits.split_once(['e', 'E']) else {
        return false;
    };
    exponent.parse::<i32>().is_ok_and(|exponent| exponent.abs() > 18)
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
            limit.iter_mut().for_each(restore);
            offset.iter_mut().for_each(|offset| restore(&mut offset.value));
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            restore(offset);
            restore(limit);
        }
        None => {}
    }
    if let Some(fetch) = &mut query.fetch {
        fetch.quantity.iter_mut().for_each(restore);
    }
}
