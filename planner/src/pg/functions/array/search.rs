//! Elements looked for in arrays, and arrays in arrays.

use super::build::{error, matches};
use super::lists::{Builder, Lists, comparable};
use super::poly::{Param, Poly, Returns};
use crate::pg::error::{SqlState, state};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, make_comparator};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarUDF};
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

fn refuse_dimensions(lists: &Lists) -> Result<()> {
    let nested = lists.depth() > 1 && (0..lists.len()).any(|row| !lists.span(row).is_empty());
    match nested {
        true => Err(error(
            state::FEATURE_NOT_SUPPORTED,
            "searching for elements in multidimensional arrays is not supported",
        )),
        false => Ok(()),
    }
}

fn position(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    let lists = Lists::of(&args[0])?;
    refuse_dimensions(&lists)?;
    let found = matches(&lists, &args[1])?;
    let starts = args.get(2).map(|array| array.as_primitive::<Int32Type>());
    let mut out = Vec::with_capacity(rows);
    for row in 0..rows {
        let start = match starts {
            Some(starts) if starts.is_null(row) && !lists.is_null(row) => {
                return Err(error(SqlState("22004"), "initial position must not be null"));
            }
            Some(starts) => usize::try_from(starts.value(row)).unwrap_or(1).max(1),
            None => 1,
        };
        let span = lists.span(row);
        let at = span.clone().skip(start - 1).find(|at| found[*at]);
        out.push(at.map(|at| (at - span.start) as i32 + 1));
    }
    Ok(Arc::new(Int32Array::from(out)))
}

fn positions(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    let lists = Lists::of(&args[0])?;
    refuse_dimensions(&lists)?;
    let found = matches(&lists, &args[1])?;
    let mut numbers: Vec<i32> = Vec::new();
    let mut out = Builder::new(rows);
    for row in 0..rows {
        if lists.is_null(row) {
            out.null();
            continue;
        }
        let span = lists.span(row);
        let before = numbers.len();
        numbers.extend(
            span.clone()
                .filter(|at| found[*at])
                .map(|at| (at - span.start) as i32 + 1),
        );
        out.pick_all(0, before..numbers.len());
        out.row(vec![numbers.len() - before]);
    }
    let numbers: ArrayRef = Arc::new(Int32Array::from(numbers));
    out.finish(&[&numbers], &DataType::Int32, 1)
}

/// Whether the right array's items are all, or some of them, among the left one's. NULL is nowhere.
fn compared(args: &[ArrayRef], rows: usize, all: bool) -> Result<ArrayRef> {
    let (left, right) = (Lists::of(&args[0])?, Lists::of(&args[1])?);
    let options = SortOptions {
        descending: false,
        nulls_first: false,
    };
    let (own_items, other_items) = (comparable(&left.items), comparable(&right.items));
    let within = make_comparator(&own_items, &own_items, options)?;
    let across = make_comparator(&own_items, &other_items, options)?;
    let out = (0..rows).map(|row| {
        if left.is_null(row) || right.is_null(row) {
            return None;
        }
        let mut own: Vec<usize> = left.span(row).filter(|at| left.items.is_valid(*at)).collect();
        own.sort_unstable_by(|a, b| within(*a, *b));
        let mut wanted = right.span(row);
        let is_in = |at: usize| right.items.is_valid(at) && own.binary_search_by(|own| across(*own, at)).is_ok();
        Some(match all {
            true => wanted.all(is_in),
            false => wanted.any(is_in),
        })
    });
    Ok(Arc::new(BooleanArray::from_iter(out)))
}

fn contains_all(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    compared(args, rows, true)
}

fn contains_any(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    compared(args, rows, false)
}

static CONTAINS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(binary("arraycontains", contains_all)));
static OVERLAPS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(binary("arrayoverlap", contains_any)));

fn binary(name: &'static str, body: fn(&[ArrayRef], usize, &DataType) -> Result<ArrayRef>) -> ScalarUDF {
    Poly {
        name,
        params: &[Param::Array, Param::Array],
        required: 2,
        returns: Returns::Bool,
        body,
    }
    .udf()
}

/// `left @> right`.
pub(crate) fn contains(left: Expr, right: Expr) -> Expr {
    CONTAINS.call(vec![left, right])
}

/// `left && right`.
pub(crate) fn overlaps(left: Expr, right: Expr) -> Expr {
    OVERLAPS.call(vec![left, right])
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    use Param::{Array, Element, Int};
    vec![
        Poly {
            name: "array_position",
            params: &[Array, Element, Int],
            required: 2,
            returns: Returns::Int,
            body: position,
        }
        .udf(),
        Poly {
            name: "array_positions",
            params: &[Array, Element],
            required: 2,
            returns: Returns::Ints,
            body: positions,
        }
        .udf(),
        CONTAINS.as_ref().clone(),
        OVERLAPS.as_ref().clone(),
    ]
}

/// The order of two items, NULL after all others.
pub(super) fn order_of_items(left: &dyn Array, right: &dyn Array) -> Result<impl Fn(usize, usize) -> Ordering> {
    let options = SortOptions {
        descending: false,
        nulls_first: false,
    };
    Ok(make_comparator(left, right, options)?)
}
