//! Arrays compared: item by item, NULL above all others and equal to itself, then by their sizes.

use super::lists::{Lists, comparable};
use super::poly::{Param, Poly, Returns};
use super::search::order_of_items;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

/// The orders of the rows' arrays; None where either is NULL.
fn orders(args: [&ArrayRef; 2], rows: usize) -> Result<Vec<Option<Ordering>>> {
    let (left, right) = (Lists::of(args[0])?, Lists::of(args[1])?);
    let (own, other) = (comparable(&left.items), comparable(&right.items));
    let items = order_of_items(&own, &other)?;
    let order = |row| {
        if left.is_null(row) || right.is_null(row) {
            return None;
        }
        let (a, b) = (left.span(row), right.span(row));
        let sizes = || {
            let (own, other) = (left.sizes(row), right.sizes(row));
            (a.len(), own.len(), own).cmp(&(b.len(), other.len(), other))
        };
        let mut pairs = a.clone().zip(b.clone());
        let first = pairs.find_map(|(a, b)| Some(items(a, b)).filter(|order| order.is_ne()));
        Some(first.unwrap_or_else(sizes))
    };
    Ok((0..rows).map(order).collect())
}

fn compared(args: &[ArrayRef], rows: usize, holds: fn(Ordering) -> bool) -> Result<ArrayRef> {
    let orders = orders([&args[0], &args[1]], rows)?;
    let out = orders.into_iter().map(|order| order.map(holds));
    Ok(Arc::new(BooleanArray::from_iter(out)))
}

/// `greatest` or `least`, NULLs left out.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Extreme {
    fn name(&self) -> &str {
        match self.greatest {
            true => "array_greatest",
            false => "array_least",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let mut arrays = args.args.iter().map(|value| value.to_array(rows));
        let mut best = match arrays.next() {
            Some(first) => first?,
            None => return plan_err!("{} needs an argument", self.name()),
        };
        for next in arrays {
            let next = next?;
            let orders = orders([&best, &next], rows)?.into_iter().enumerate();
            let stays = orders.map(|(row, order)| match order {
                Some(order) => Some(if self.greatest { order.is_ge() } else { order.is_le() }),
                None => Some(next.is_null(row)),
            });
            best = zip(&BooleanArray::from_iter(stays), &best, &next)?;
        }
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&best, 0)?)),
            false => Ok(ColumnarValue::Array(best)),
        }
    }
}

/// What `greatest` and `least` are of arrays.
pub(crate) fn extreme(name: &str) -> Option<Arc<ScalarUDF>> {
    let greatest = match name {
        "greatest" => true,
        "least" => false,
        _ => return None,
    };
    let signature = Signature::variadic_any(Volatility::Immutable);
    Some(Arc::new(ScalarUDF::new_from_impl(Extreme { greatest, signature })))
}

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 6]> = LazyLock::new(|| {
    let udf = |name, body| {
        Arc::new(
            Poly {
                name,
                params: &[Param::Array, Param::Array],
                required: 2,
                returns: Returns::Bool,
                body,
            }
            .udf(),
        )
    };
    [
        udf("array_eq", |args, rows, _: &DataType| {
            compared(args, rows, Ordering::is_eq)
        }),
        udf("array_ne", |args, rows, _| compared(args, rows, Ordering::is_ne)),
        udf("array_lt", |args, rows, _| compared(args, rows, Ordering::is_lt)),
        udf("array_le", |args, rows, _| compared(args, rows, Ordering::is_le)),
        udf("array_gt", |args, rows, _| compared(args, rows, Ordering::is_gt)),
        udf("array_ge", |args, rows, _| compared(args, rows, Ordering::is_ge)),
    ]
});

/// The function that compares arrays as an operator does.
pub(crate) fn operator(op: &BinaryOperator) -> Option<Arc<ScalarUDF>> {
    let at = match op {
        BinaryOperator::Eq => 0,
        BinaryOperator::NotEq => 1,
        BinaryOperator::Lt => 2,
        BinaryOperator::LtEq => 3,
        BinaryOperator::Gt => 4,
        BinaryOperator::GtEq => 5,
        _ => return None,
    };
    Some(FUNCTIONS[at].clone())
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    FUNCTIONS.iter().map(|function| function.as_ref().clone()).collect()
}
