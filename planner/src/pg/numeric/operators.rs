//! `+`, `-`, `*`, `/`, `%` and minus of numerics, and the operations on decimals that decimals do not hold.

use super::convert::{self, to_numeric};
use super::{Class, compare, digits, failed};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::simple::function;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, ScalarUDF, Signature, Volatility, cast};
use std::sync::{Arc, LazyLock};
use tenon_storage::SqlType;
use tenon_storage::numeric::Numeric;
use tenon_storage::numeric::column::{Builder, Values};
use tenon_storage::types::NUMERIC;

/// Most digits after the point of a product in 128 bits.
const PRODUCT_SCALE_MAX: i32 = 24;
/// Literals of more digits are not taken to fit, whatever they are added to or multiplied by.
const LITERAL_PRECISION: i32 = 20;

/// Two columns of numbers to one of numerics; NULL where either is.
pub(crate) fn map2(
    args: &[ArrayRef],
    rows: usize,
    of: impl Fn(&Numeric, &Numeric) -> tenon_storage::numeric::Result<Numeric>,
) -> Result<ArrayRef> {
    let (Some(left), Some(right)) = (Values::of(&args[0]), Values::of(&args[1])) else {
        return plan_err!("{} and {} are no numbers", args[0].data_type(), args[1].data_type());
    };
    let mut out = Builder::with_capacity(rows);
    for row in 0..rows {
        match (left.get(row), right.get(row)) {
            (Some(left), Some(right)) => out.append(Some(&of(&left, &right).map_err(failed)?)),
            _ => out.append(None),
        }
    }
    Ok(out.finish())
}

/// One column of numbers to one of numerics.
pub(crate) fn map1(
    args: &[ArrayRef],
    of: impl Fn(&Numeric) -> tenon_storage::numeric::Result<Numeric>,
) -> Result<ArrayRef> {
    let Some(values) = Values::of(&args[0]) else {
        return plan_err!("{} is no number", args[0].data_type());
    };
    let mut out = Builder::with_capacity(values.len());
    for value in values.iter() {
        let result = value.map(|value| of(&value)).transpose().map_err(failed)?;
        out.append(result.as_ref());
    }
    Ok(out.finish())
}

macro_rules! operator {
    ($name:ident, $sql:literal, $method:ident) => {
        static $name: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
            let signature = Signature::any(2, Volatility::Immutable);
            Arc::new(function($sql, signature, NUMERIC, |args, rows| {
                map2(args, rows, Numeric::$method)
            }))
        });
    };
}

operator!(ADD, "numeric_add", add);
operator!(SUBTRACT, "numeric_sub", sub);
operator!(MULTIPLY, "numeric_mul", mul);
operator!(DIVIDE, "numeric_div", div);
operator!(MODULO, "numeric_mod", rem);

static NEGATE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(function("numeric_uminus", signature, NUMERIC, |args, _| {
        map1(args, |value| Ok(value.neg()))
    }))
});

pub(crate) fn negated(expr: Expr) -> Expr {
    NEGATE.call(vec![expr])
}

/// A numeric as a double precision.
pub(crate) fn as_float(expr: Expr) -> Expr {
    convert::call(expr, SqlType::Float8)
}

/// `left op right` where a numeric is among them, or where decimals do not hold the result. None: DataFusion plans it.
pub(crate) fn binary(op: Operator, left: &Expr, right: &Expr, types: (&DataType, &DataType)) -> Result<Option<Expr>> {
    let classes = (Class::of(types.0), Class::of(types.1));
    let literal = |class: Class, expr: &Expr| class == Class::Text && is_constant(expr);
    let read = (classes.0 == Class::Decimal && literal(classes.1, right))
        || (classes.1 == Class::Decimal && literal(classes.0, left));
    if let Some(doubles) = real_beside_exact(op, left, right, types) {
        return Ok(Some(doubles));
    }
    if is_comparison(op) && no_decimal(&[(types.0, is_constant(left)), (types.1, is_constant(right))]) {
        return compare::comparison(op, left, right, types).map(Some);
    }
    if classes.0 != Class::Numeric && classes.1 != Class::Numeric && !read {
        return Ok(match too_wide(op, left, right, types) {
            true => arithmetic(op).map(|function| function.call(vec![left.clone(), right.clone()])),
            false => None,
        });
    }
    // A literal of unknown type beside a numeric is one.
    let other = match classes {
        _ if read => Class::Text,
        (Class::Numeric, other) | (other, _) => other,
    };
    let own = |expr: &Expr, class: Class| match class {
        Class::Numeric => as_float(expr.clone()),
        _ => expr.clone(),
    };
    if op == Operator::StringConcat && read {
        return Ok(None);
    }
    if op == Operator::StringConcat && other != Class::Numeric {
        let text = |expr: &Expr, class: Class| match class {
            Class::Numeric => convert::call(expr.clone(), SqlType::Text),
            _ => expr.clone(),
        };
        return Ok(Some(plain(op, text(left, classes.0), text(right, classes.1))));
    }
    if !is_comparison(op) && arithmetic(op).is_none() {
        return Ok(None);
    }
    match other {
        Class::Float => Ok(Some(plain(op, own(left, classes.0), own(right, classes.1)))),
        Class::Other => Ok(None),
        Class::Text if !is_constant(left) && !is_constant(right) => {
            let name = |class: Class| if class == Class::Numeric { "numeric" } else { "text" };
            let message = format!("operator does not exist: {} {op} {}", name(classes.0), name(classes.1));
            Err(to_datafusion(SqlError::new(state::UNDEFINED_FUNCTION, message).hint(
                "No operator matches the given name and argument types. You might need to add explicit type casts.",
            )))
        }
        _ => {
            if is_comparison(op) {
                return compare::comparison(op, left, right, types).map(Some);
            }
            let operands = vec![operand(left, types.0)?, operand(right, types.1)?];
            Ok(arithmetic(op).map(|function| function.call(operands)))
        }
    }
}

/// Digits after the point beyond which those before it may have no room in 128 bits.
const COMPARED_SCALE_MAX: i32 = 18;

/// Whether exact numbers that are compared, a decimal among them, have no decimal in common that holds them all: one has so
/// many digits after the point that those of another before it have no room. Each with whether it is a constant, whose digits are
/// as many as its type's; those of columns are rarely.
pub(super) fn no_decimal(types: &[(&DataType, bool)]) -> bool {
    let all = || types.iter().filter(|(own, _)| !own.is_null());
    if !all().any(|(own, _)| own.is_decimal()) {
        return false;
    }
    let mut found: Vec<(i32, i32, bool)> = Vec::with_capacity(types.len());
    for (own, constant) in all() {
        match digits(own) {
            Some((precision, scale)) => found.push((precision.into(), scale.into(), *constant)),
            None => return false,
        }
    }
    let scale = found.iter().map(|(_, scale, _)| *scale).max().unwrap_or(0);
    let no_room = |(precision, own, constant): &(i32, i32, bool)| {
        *own < scale && precision - own > 38 - scale && (*constant || scale > COMPARED_SCALE_MAX)
    };
    found.iter().any(no_room)
}

/// `real` beside an integer or a decimal: both are doubles, the preferred type. Where the integers are all floats of 32 bits
/// as well, comparing those says the same.
fn real_beside_exact(op: Operator, left: &Expr, right: &Expr, types: (&DataType, &DataType)) -> Option<Expr> {
    let (exact, own) = match types {
        (DataType::Float32, own) => (right, own),
        (own, DataType::Float32) => (left, own),
        _ => return None,
    };
    let applies = match Class::of(own) {
        Class::Integer if is_comparison(op) => !fits_real(exact, own),
        Class::Integer | Class::Decimal => is_comparison(op) || arithmetic(op).is_some(),
        _ => false,
    };
    let double = |expr: &Expr| cast(expr.clone(), DataType::Float64);
    applies.then(|| plain(op, double(left), double(right)))
}

/// Whether floats of 32 bits hold all integers that this is.
pub(super) fn fits_real(exact: &Expr, own: &DataType) -> bool {
    matches!(own, DataType::Int8 | DataType::Int16) || is_small_integer(exact)
}

/// An integer literal, also below casts and a sign, that floats of 32 bits hold.
fn is_small_integer(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => match value {
            ScalarValue::Int32(Some(value)) => value.unsigned_abs() <= 1 << f32::MANTISSA_DIGITS,
            ScalarValue::Int64(Some(value)) => value.unsigned_abs() <= 1 << f32::MANTISSA_DIGITS,
            _ => false,
        },
        Expr::Cast(cast) => cast.field.data_type().is_integer() && is_small_integer(&cast.expr),
        Expr::Negative(inner) => is_small_integer(inner),
        _ => false,
    }
}

/// What an arithmetic function takes: numbers as they are, the text of constants and open parameters as numerics.
fn operand(expr: &Expr, own: &DataType) -> Result<Expr> {
    match Class::of(own) {
        Class::Text | Class::Null => to_numeric(expr.clone(), own),
        _ => Ok(expr.clone()),
    }
}

pub(super) fn plain(op: Operator, left: Expr, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

pub(super) fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn arithmetic(op: Operator) -> Option<&'static Arc<ScalarUDF>> {
    Some(match op {
        Operator::Plus => &ADD,
        Operator::Minus => &SUBTRACT,
        Operator::Multiply => &MULTIPLY,
        Operator::Divide => &DIVIDE,
        Operator::Modulo => &MODULO,
        _ => return None,
    })
}

/// A literal, also below casts and a sign.
pub(super) fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => *value != ScalarValue::Null,
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::Negative(inner) => is_constant(inner),
        _ => false,
    }
}

/// Whether exact numbers, a decimal among them, are to be operated on as numerics: quotients, whose digits are each
/// value's own, and what may have more digits than 128 bits hold. Of columns that is told by the scale alone: the digits
/// before the point are rarely as many as their type allows.
fn too_wide(op: Operator, left: &Expr, right: &Expr, types: (&DataType, &DataType)) -> bool {
    let (Some((precision, scale)), Some((other, other_scale))) = (digits(types.0), digits(types.1)) else {
        return false;
    };
    if !types.0.is_decimal() && !types.1.is_decimal() {
        return false;
    }
    let [precision, scale, other, other_scale]: [i32; 4] =
        [precision.into(), scale.into(), other.into(), other_scale.into()];
    // Of columns and functions the digits before the point are rarely as many as their types allow; of literals they are.
    let literal =
        (is_constant(left) && precision > LITERAL_PRECISION) || (is_constant(right) && other > LITERAL_PRECISION);
    match op {
        Operator::Divide => true,
        Operator::Multiply => {
            let after = scale + other_scale;
            let digits = precision + other;
            let columns = [left, right].iter().all(|expr| matches!(expr, Expr::Column(_)));
            digits > 38 && (after > PRODUCT_SCALE_MAX || literal || columns)
        }
        Operator::Plus | Operator::Minus => {
            let whole = (precision - scale).max(other - other_scale) + 1;
            literal && whole + scale.max(other_scale) > 38
        }
        _ => false,
    }
}
