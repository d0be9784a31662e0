//! Arrays compared: item by item, NULL above all others and equal to itself, then by their sizes.

use super::lists::{Lists, comparable};
use super::poly::{Param, Poly, Returns};
use super::search::order_of_items;
use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

fn compared(args: &[ArrayRef], rows: usize, holds: fn(Ordering) -> bool) -> Result<ArrayRef> {
    let (left, right) = (Lists::of(&args[0])?, Lists::of(&args[1])?);
    let (own, other) = (comparable(&left.items), comparable(&right.items));
    let items = order_of_items(&own, &other)?;
    let out = (0..rows).map(|row| {
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
        Some(holds(first.unwrap_or_else(sizes)))
    });
    Ok(Arc::new(BooleanArray::from_iter(out)))
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
