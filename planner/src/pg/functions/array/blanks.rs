//! The items of arrays of `char(n)`, with their blanks and without.

use super::poly::{Param, Poly, Returns};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarUDF, lit};
use std::sync::{Arc, LazyLock};

static BARE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let function = Poly {
        name: "tenon_bare_items",
        params: &[Param::Array],
        required: 1,
        returns: Returns::Array,
        body: |args, _, to| with_items(&args[0], to, &|item| item.trim_end_matches(' ').to_string()),
    };
    Arc::new(function.udf())
});

static PADDED: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let function = Poly {
        name: "tenon_padded_items",
        params: &[Param::Array, Param::Int],
        required: 2,
        returns: Returns::Array,
        body: |args, rows, to| {
            let width = match rows {
                0 => 0,
                _ => args[1].as_primitive::<Int32Type>().value(0) as usize,
            };
            with_items(&args[0], to, &|item| format!("{item:<width$}"))
        },
    };
    Arc::new(function.udf())
});

/// The array whose items, which are strings, have no blanks at their ends.
pub(crate) fn bare_items(array: Expr) -> Expr {
    BARE.call(vec![array])
}

/// The array with the blanks that its items have as `char(width)`.
pub(crate) fn padded_items(array: Expr, width: u32) -> Expr {
    PADDED.call(vec![array, lit(width as i32)])
}

fn with_items(array: &ArrayRef, to: &DataType, of: &dyn Fn(&str) -> String) -> Result<ArrayRef> {
    let array = match array.data_type() == to {
        true => Arc::clone(array),
        false => cast(array, to)?,
    };
    with_texts(&array, of)
}

fn with_texts(array: &ArrayRef, of: &dyn Fn(&str) -> String) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let values = with_texts(lists.values(), of)?;
            let offsets = lists.offsets().clone();
            Arc::new(ListArray::try_new(
                item.clone(),
                offsets,
                values,
                lists.nulls().cloned(),
            )?)
        }
        DataType::Utf8View => {
            let texts = array.as_string_view().iter();
            Arc::new(StringViewArray::from_iter(texts.map(|text| text.map(of))))
        }
        _ => Arc::clone(array),
    })
}
