//! Comparisons of numerics: by their keys; against constants by bounds of the column's own type, which leave a plain
//! column on one side for indexes and zone maps.

use super::convert::to_numeric;
use super::operators::{is_constant, plain};
use crate::pg::functions::simple::function;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Decimal128Array, LargeBinaryArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};
use tenon_storage::numeric::{Numeric, above, below, compare_key, is_bound};
use tenon_storage::types::NUMERIC;

/// What keys are: of another type than the values, which tells what is compared by keys already.
const KEY: DataType = DataType::Binary;

static OF_VALUE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(function("numeric_key", signature, KEY, |args, _| {
        let values = args[0].as_binary::<i64>().iter();
        Ok(Arc::new(BinaryArray::from_iter(
            values.map(|value| value.map(compare_key)),
        )))
    }))
});

fn bounds(args: &[ArrayRef], of: fn(&[u8]) -> Vec<u8>) -> ArrayRef {
    let values = args[0].as_binary::<i64>().iter();
    Arc::new(LargeBinaryArray::from_iter(values.map(|value| value.map(of))))
}

static BELOW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(function("numeric_below", signature, NUMERIC, |args, _| {
        Ok(bounds(args, below))
    }))
});

static ABOVE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(function("numeric_above", signature, NUMERIC, |args, _| {
        Ok(bounds(args, above))
    }))
});

/// The key in letters: DataFusion orders window frames by no bytes.
static LETTERS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(function("numeric_order", signature, DataType::Utf8, |args, _| {
        let letters = |value: &[u8]| {
            let digit = |half: u8| char::from(b'a' + half);
            let halves = compare_key(value).iter().flat_map(|byte| [byte >> 4, byte & 15]);
            halves.map(digit).collect::<String>()
        };
        let values = args[0].as_binary::<i64>().iter();
        Ok(Arc::new(StringArray::from_iter(values.map(|value| value.map(letters)))))
    }))
});

/// One display scale for equal values: as few digits as show them.
static TRIMMED: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(function("numeric_trimmed", signature, NUMERIC, |args, _| {
        super::operators::map1(args, |value| Ok(value.trim_scale()))
    }))
});

/// `greatest` and `least`: of equal values the first, with its digits.
static EXTREMES: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
    let signature = || Signature::variadic_any(Volatility::Immutable);
    let greatest = function("numeric_greatest", signature(), NUMERIC, |args, rows| {
        Ok(extreme(args, rows, |next, best| next > best))
    });
    let least = function("numeric_least", signature(), NUMERIC, |args, rows| {
        Ok(extreme(args, rows, |next, best| next < best))
    });
    [Arc::new(greatest), Arc::new(least)]
});

fn extreme(args: &[ArrayRef], rows: usize, is_better: fn(&[u8], &[u8]) -> bool) -> ArrayRef {
    let columns: Vec<&LargeBinaryArray> = args.iter().map(|column| column.as_binary::<i64>()).collect();
    let found = (0..rows).map(|row| {
        let there = columns.iter().filter(|column| column.is_valid(row));
        let values = there.map(|column| column.value(row));
        values.reduce(|best, next| match is_better(compare_key(next), compare_key(best)) {
            true => next,
            false => best,
        })
    });
    Arc::new(LargeBinaryArray::from_iter(found))
}

/// The same of numerics as `greatest` or `least` is of other values.
pub(super) fn extreme_of(name: &str) -> Option<Arc<ScalarUDF>> {
    match name {
        "greatest" => Some(EXTREMES[0].clone()),
        "least" => Some(EXTREMES[1].clone()),
        _ => None,
    }
}

/// What a window orders a numeric by.
pub(super) fn letters(expr: Expr) -> Expr {
    LETTERS.call(vec![expr])
}

/// A numeric whose bytes are those of all values equal to it.
pub(super) fn trimmed(expr: Expr) -> Expr {
    TRIMMED.call(vec![expr])
}

/// The key of a numeric.
pub(crate) fn key(expr: Expr) -> Expr {
    OF_VALUE.call(vec![expr])
}

/// Whether the expression is what a comparison by bounds has on its one side.
fn is_made_bound(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::LargeBinary(Some(value)), _) => is_bound(value),
        Expr::ScalarFunction(call) => matches!(call.name(), "numeric_below" | "numeric_above"),
        _ => false,
    }
}

/// `left op right` of exact numbers, a numeric among them.
pub(super) fn comparison(op: Operator, left: &Expr, right: &Expr, types: (&DataType, &DataType)) -> Result<Expr> {
    if is_made_bound(left) || is_made_bound(right) {
        return Ok(plain(op, left.clone(), right.clone()));
    }
    let bounded = |column: &Expr, own: &DataType, constant: &Expr, other: &DataType, op: Operator| {
        let open = is_constant(constant) || matches!(constant, Expr::Placeholder(_));
        match (column, own) {
            (Expr::Column(_), DataType::LargeBinary) if open => {
                let constant = to_numeric(constant.clone(), other)?;
                let (low, high) = (BELOW.call(vec![constant.clone()]), ABOVE.call(vec![constant]));
                Ok::<_, DataFusionError>(between(op, column, low, high))
            }
            (_, DataType::Decimal128(precision, scale)) if open => {
                let constant = to_numeric(constant.clone(), other)?;
                let bound = |up: bool| decimal_bound(constant.clone(), *precision, *scale, up);
                Ok(between(op, column, bound(true), bound(false)))
            }
            _ => Ok(None),
        }
    };
    if let Some(expr) = bounded(left, types.0, right, types.1, op)? {
        return Ok(expr);
    }
    if let Some(swapped) = op.swap()
        && let Some(expr) = bounded(right, types.1, left, types.0, swapped)?
    {
        return Ok(expr);
    }
    let side = |expr: &Expr, own: &DataType| Ok::<_, DataFusionError>(key(to_numeric(expr.clone(), own)?));
    Ok(plain(op, side(left, types.0)?, side(right, types.1)?))
}

/// `column op constant`, where the values equal to the constant are those from `low` to `high`: bounds that are no values
/// of a numeric column; of a decimal one the next value at or above the constant, and that at or below it.
fn between(op: Operator, column: &Expr, low: Expr, high: Expr) -> Option<Expr> {
    let column = || column.clone();
    Some(match op {
        Operator::Eq => column().gt_eq(low).and(column().lt_eq(high)),
        Operator::NotEq => column().lt(low).or(column().gt(high)),
        Operator::Lt => column().lt(low),
        Operator::GtEq => column().gt_eq(low),
        Operator::LtEq => column().lt_eq(high),
        Operator::Gt => column().gt(high),
        _ => return None,
    })
}

fn decimal_bound(value: Expr, precision: u8, scale: i8, up: bool) -> Expr {
    let function = DecimalBound {
        precision,
        scale,
        up,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![value])
}

/// The next decimal of a type at or above a numeric, or at or below it. What is beyond all of the type's values is the
/// first number that has one digit more.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DecimalBound {
    precision: u8,
    scale: i8,
    up: bool,
    signature: Signature,
}

impl DecimalBound {
    fn of(&self, value: &Numeric) -> i128 {
        let limit = 10_i128.pow(self.precision.into());
        let shifted = value.mul(&Numeric::of_i128(1, -self.scale));
        let whole = match (shifted, self.up) {
            (Ok(shifted), true) => shifted.ceil(),
            (Ok(shifted), false) => shifted.floor(),
            (Err(_), _) => value.clone(),
        };
        match whole.to_i128() {
            Ok(Some(whole)) => whole.clamp(-limit, limit),
            _ if whole.signum() < 0 => -limit,
            _ => limit,
        }
    }
}

impl ScalarUDFImpl for DecimalBound {
    fn name(&self) -> &str {
        if self.up { "decimal_from" } else { "decimal_to" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(self.precision, self.scale))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let values = args.args[0].to_array(rows)?;
        let values = values.as_binary::<i64>().iter();
        let bounds = values.map(|value| value.map(|bytes| self.of(&Numeric::from_bytes(bytes))));
        let bounds: Decimal128Array = bounds.collect();
        let bounds: ArrayRef = Arc::new(bounds.with_data_type(args.return_type().clone()));
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&bounds, 0)?));
        }
        Ok(ColumnarValue::Array(bounds))
    }
}
