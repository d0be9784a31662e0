//! The sizes and bounds of arrays. Every dimension begins at 1.

use super::lists::Lists;
use super::poly::{Param, Poly, Returns};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// Of each row, what its sizes and the argument beside it give.
fn measured(args: &[ArrayRef], rows: usize, of: impl Fn(&[usize], Option<i32>) -> Option<i32>) -> Result<ArrayRef> {
    let lists = Lists::of(&args[0])?;
    let number = args.get(1).map(|array| array.as_primitive::<Int32Type>());
    let values = (0..rows).map(|row| {
        let number = number.and_then(|array| array.is_valid(row).then(|| array.value(row)));
        if lists.is_null(row) {
            return None;
        }
        of(&lists.sizes(row), number)
    });
    Ok(Arc::new(Int32Array::from_iter(values)))
}

/// The size of a dimension that is counted from 1.
fn dimension(sizes: &[usize], number: Option<i32>) -> Option<i32> {
    let at = usize::try_from(number?.checked_sub(1)?).ok()?;
    sizes.get(at).map(|size| *size as i32)
}

fn length(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    measured(args, rows, dimension)
}

fn lower(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    measured(args, rows, |sizes, number| dimension(sizes, number).map(|_| 1))
}

fn dimensions(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    measured(args, rows, |sizes, _| {
        Some(sizes.len() as i32).filter(|count| *count > 0)
    })
}

fn cardinality(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    measured(args, rows, |sizes, _| match sizes.is_empty() {
        true => Some(0),
        false => Some(sizes.iter().product::<usize>() as i32),
    })
}

fn bounds(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    let lists = Lists::of(&args[0])?;
    let texts = (0..rows).map(|row| {
        let sizes = lists.sizes(row);
        let bounds: String = sizes.iter().map(|size| format!("[1:{size}]")).collect();
        Some(bounds).filter(|bounds| !bounds.is_empty())
    });
    Ok(Arc::new(StringViewArray::from_iter(texts)))
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    use Param::{Array, Int};
    let poly = |name, params: &'static [Param], required, returns, body| {
        Poly {
            name,
            params,
            required,
            returns,
            body,
        }
        .udf()
    };
    vec![
        poly("array_length", &[Array, Int], 2, Returns::Int, length),
        poly("array_upper", &[Array, Int], 2, Returns::Int, length),
        poly("array_lower", &[Array, Int], 2, Returns::Int, lower),
        poly("array_ndims", &[Array], 1, Returns::Int, dimensions),
        poly("array_dims", &[Array], 1, Returns::Text, bounds),
        poly("cardinality", &[Array], 1, Returns::Int, cardinality),
    ]
}
