//! `x op ANY (array)` and `x op ALL (array)`.

use super::lists::{Lists, comparable, repeated};
use super::poly::{Param, Poly, Returns};
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, make_comparator};
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::compute::{SortOptions, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::cmp::Ordering;
use std::sync::Arc;

type Compare =
    fn(&dyn datafusion::arrow::array::Datum, &dyn datafusion::arrow::array::Datum) -> Result<BooleanArray, ArrowError>;

/// NULL where no item decides and one is NULL, or an operand is.
fn quantified(
    args: &[ArrayRef],
    rows: usize,
    all: bool,
    compare: Compare,
    decides: fn(Ordering) -> bool,
) -> Result<ArrayRef> {
    let lists = Lists::of(&args[1])?;
    let element = &args[0];
    let (of, items) = repeated(&lists);
    let items = UInt32Array::from_iter_values(items.into_iter().map(|at| at as u32));
    let (left, right) = (take(element, &of, None)?, take(&lists.items, &items, None)?);
    let (left, right) = (comparable(&left), comparable(&right));
    let holds = match left.data_type().is_nested() {
        true => records(&left, &right, decides)?,
        false => compare(&left, &right)?,
    };
    let mut next = 0;
    let out = (0..rows).map(|row| {
        let own = next..next + lists.span(row).len();
        next = own.end;
        if lists.is_null(row) {
            return None;
        }
        let mut unknown = false;
        for at in own {
            match holds.is_valid(at) {
                true if holds.value(at) != all => return Some(!all),
                true => {}
                false => unknown = true,
            }
        }
        if unknown { None } else { Some(all) }
    });
    Ok(Arc::new(BooleanArray::from_iter(out)))
}

/// Comparisons of records, whose fields are equal where both are NULL.
fn records(left: &ArrayRef, right: &ArrayRef, decides: fn(Ordering) -> bool) -> Result<BooleanArray> {
    let order = make_comparator(left, right, SortOptions::default())?;
    let known = |at: usize| left.is_valid(at) && right.is_valid(at);
    let holds = (0..left.len()).map(|at| known(at).then(|| decides(order(at, at))));
    Ok(BooleanArray::from_iter(holds))
}

macro_rules! function {
    ($name:literal, $all:literal, $compare:path, $decides:path) => {
        Poly {
            name: $name,
            params: &[Param::Element, Param::Array],
            required: 2,
            returns: Returns::Bool,
            body: |args, rows, _: &DataType| quantified(args, rows, $all, |a, b| $compare(a, b), $decides),
        }
        .udf()
    };
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        function!("any_eq", false, cmp::eq, Ordering::is_eq),
        function!("any_ne", false, cmp::neq, Ordering::is_ne),
        function!("any_lt", false, cmp::lt, Ordering::is_lt),
        function!("any_le", false, cmp::lt_eq, Ordering::is_le),
        function!("any_gt", false, cmp::gt, Ordering::is_gt),
        function!("any_ge", false, cmp::gt_eq, Ordering::is_ge),
        function!("all_eq", true, cmp::eq, Ordering::is_eq),
        function!("all_ne", true, cmp::neq, Ordering::is_ne),
        function!("all_lt", true, cmp::lt, Ordering::is_lt),
        function!("all_le", true, cmp::lt_eq, Ordering::is_le),
        function!("all_gt", true, cmp::gt, Ordering::is_gt),
        function!("all_ge", true, cmp::gt_eq, Ordering::is_ge),
    ]
}

/// The items of a constant array that a function asks to have, or with true not to have, the value: `x = ANY (array)` is
/// `x IN (items)`, for which scans, indexes and filters have their ways. None of other functions, and of types that lists compare
/// by other rules.
pub(crate) fn listed(function: &str, array: &ScalarValue) -> Option<(ArrayRef, bool)> {
    let negated = match function {
        "any_eq" => false,
        "all_ne" => true,
        _ => return None,
    };
    let ScalarValue::List(list) = array else { return None };
    if list.len() != 1 || list.is_null(0) {
        return None;
    }
    let items = list.value(0);
    let plain = matches!(
        items.data_type(),
        DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Utf8View
            | DataType::Date32
            | DataType::Boolean
            | DataType::FixedSizeBinary(16)
    );
    plain.then_some((items, negated))
}

/// The function for an operator.
pub(crate) fn name(op: &BinaryOperator, all: bool) -> Option<&'static str> {
    Some(match (op, all) {
        (BinaryOperator::Eq, false) => "any_eq",
        (BinaryOperator::NotEq, false) => "any_ne",
        (BinaryOperator::Lt, false) => "any_lt",
        (BinaryOperator::LtEq, false) => "any_le",
        (BinaryOperator::Gt, false) => "any_gt",
        (BinaryOperator::GtEq, false) => "any_ge",
        (BinaryOperator::Eq, true) => "all_eq",
        (BinaryOperator::NotEq, true) => "all_ne",
        (BinaryOperator::Lt, true) => "all_lt",
        (BinaryOperator::LtEq, true) => "all_le",
        (BinaryOperator::Gt, true) => "all_gt",
        (BinaryOperator::GtEq, true) => "all_ge",
        _ => return None,
    })
}
