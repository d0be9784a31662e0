//! Arrays made of other arrays.

use super::lists::{Builder, Lists, comparable, item_of};
use super::poly::{Param, Poly, Returns};
use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ScalarUDF;

pub(super) fn error(code: SqlState, message: impl Into<String>) -> DataFusionError {
    to_datafusion(SqlError::new(code, message))
}

pub(super) const ARRAY_SUBSCRIPT: SqlState = SqlState("2202E");

fn append(args: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef> {
    extend(&args[0], &args[1], false, rows, returns)
}

fn prepend(args: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef> {
    extend(&args[1], &args[0], true, rows, returns)
}

fn extend(array: &ArrayRef, element: &ArrayRef, first: bool, rows: usize, returns: &DataType) -> Result<ArrayRef> {
    let lists = Lists::of(array)?;
    let mut out = Builder::new(rows);
    for row in 0..rows {
        let span = lists.span(row);
        if lists.depth() > 1 && !span.is_empty() {
            let message = "argument must be empty or one-dimensional array";
            return Err(error(state::DATA_EXCEPTION, message));
        }
        if first {
            out.pick(1, row);
        }
        out.pick_all(0, span.clone());
        if !first {
            out.pick(1, row);
        }
        out.row(vec![span.len() + 1]);
    }
    out.finish(&[&lists.items, element], &item_of(returns), 1)
}

/// Two arrays, or an array and one of a dimension less as one more of its own.
fn cat(args: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef> {
    let (left, right) = (Lists::of(&args[0])?, Lists::of(&args[1])?);
    let depth = super::leaf(returns).1;
    let incompatible = |detail: String| {
        let error = SqlError::new(ARRAY_SUBSCRIPT, "cannot concatenate incompatible arrays");
        to_datafusion(error.detail(detail))
    };
    let mut out = Builder::new(rows);
    for row in 0..rows {
        let (a, b) = (left.sizes(row), right.sizes(row));
        if left.is_null(row) && right.is_null(row) {
            out.null();
            continue;
        }
        out.pick_all(0, left.span(row));
        out.pick_all(1, right.span(row));
        out.row(match (a.len(), b.len()) {
            (_, 0) if a.is_empty() || a.len() == depth => a,
            (0, _) if b.len() == depth => b,
            (n, m) if n == m && a[1..] == b[1..] => {
                let mut sizes = a;
                sizes[0] += b[0];
                sizes
            }
            (n, m) if n == m + 1 && a[1..] == b[..] => {
                let mut sizes = a;
                sizes[0] += 1;
                sizes
            }
            (n, m) if m == n + 1 && b[1..] == a[..] => {
                let mut sizes = b;
                sizes[0] += 1;
                sizes
            }
            (n, m) if n.abs_diff(m) > 1 || n == 0 || m == 0 => {
                let detail = format!("Arrays of {n} and {m} dimensions are not compatible for concatenation.");
                return Err(incompatible(detail));
            }
            _ => {
                let detail = "Arrays with differing element dimensions are not compatible for concatenation.";
                return Err(incompatible(detail.into()));
            }
        });
    }
    out.finish(&[&left.items, &right.items], &item_of(returns), depth)
}

/// For each item whether it is the row's element; NULL is found by NULL.
pub(super) fn matches(lists: &Lists, element: &ArrayRef) -> Result<Vec<bool>> {
    let mut found = vec![false; lists.items.len()];
    let (rows, items) = super::lists::repeated(lists);
    let items = datafusion::arrow::array::UInt32Array::from_iter_values(items.into_iter().map(|at| at as u32));
    let (own, wanted) = (take(&lists.items, &items, None)?, take(element, &rows, None)?);
    if own.is_empty() {
        return Ok(found);
    }
    let same = cmp::not_distinct(&comparable(&own), &comparable(&wanted))?;
    for (at, item) in items.values().iter().enumerate() {
        found[*item as usize] = same.value(at);
    }
    Ok(found)
}

fn remove(args: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef> {
    let lists = Lists::of(&args[0])?;
    let found = matches(&lists, &args[1])?;
    let mut out = Builder::new(rows);
    for row in 0..rows {
        if lists.is_null(row) {
            out.null();
            continue;
        }
        let span = lists.span(row);
        if lists.depth() > 1 && !span.is_empty() {
            let message = "removing elements from multidimensional arrays is not supported";
            return Err(error(state::FEATURE_NOT_SUPPORTED, message));
        }
        let kept: Vec<usize> = span.filter(|at| !found[*at]).collect();
        let size = kept.len();
        kept.into_iter().for_each(|at| out.pick(0, at));
        out.row(vec![size]);
    }
    out.finish(&[&lists.items], &item_of(returns), super::leaf(returns).1)
}

fn replace(args: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef> {
    let lists = Lists::of(&args[0])?;
    let found = matches(&lists, &args[1])?;
    let mut out = Builder::new(rows);
    for row in 0..rows {
        if lists.is_null(row) {
            out.null();
            continue;
        }
        for at in lists.span(row) {
            match found[at] {
                true => out.pick(1, row),
                false => out.pick(0, at),
            }
        }
        out.row(lists.sizes(row));
    }
    out.finish(&[&lists.items, &args[2]], &item_of(returns), lists.depth())
}

fn trim(args: &[ArrayRef], rows: usize, returns: &DataType) -> Result<ArrayRef> {
    let (lists, counts) = (Lists::of(&args[0])?, args[1].as_primitive::<Int32Type>());
    let mut out = Builder::new(rows);
    for row in 0..rows {
        if lists.is_null(row) || counts.is_null(row) {
            out.null();
            continue;
        }
        let (mut sizes, span) = (lists.sizes(row), lists.span(row));
        let size = sizes.first().copied().unwrap_or(0);
        let count = usize::try_from(counts.value(row)).ok().filter(|count| *count <= size);
        let Some(count) = count else {
            let message = format!("number of elements to trim must be between 0 and {size}");
            return Err(error(ARRAY_SUBSCRIPT, message));
        };
        if let Some(first) = sizes.first_mut() {
            let each = span.len() / size;
            *first -= count;
            out.pick_all(0, span.start..span.end - count * each);
        }
        out.row(sizes);
    }
    out.finish(&[&lists.items], &item_of(returns), lists.depth())
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    use Param::{Array, Element, Int};
    let poly = |name, params, body| {
        Poly {
            name,
            params,
            required: params.len(),
            returns: Returns::Array,
            body,
        }
        .udf()
    };
    vec![
        poly("array_append", &[Array, Element], append),
        poly("array_prepend", &[Element, Array], prepend),
        poly("array_cat", &[Array, Array], cat),
        poly("array_remove", &[Array, Element], remove),
        poly("array_replace", &[Array, Element, Element], replace),
        poly("trim_array", &[Array, Int], trim),
    ]
}
