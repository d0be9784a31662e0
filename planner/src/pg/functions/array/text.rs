//! `array_to_string` and `string_to_array`.

use super::lists::{Builder, Lists};
use super::poly::{Param, Poly, Returns};
use crate::pg::semantics::to_text::output;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;
use tenon_storage::datetime::Conventions;

fn optional(array: Option<&ArrayRef>, row: usize) -> Option<&str> {
    let array = array?.as_string_view();
    array.is_valid(row).then(|| array.value(row))
}

fn to_string(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    let lists = Lists::of(&args[0])?;
    let items = output(&lists.items, &Conventions::default())?;
    let items = items.as_string_view();
    let out = (0..rows).map(|row| {
        let separator = optional(args.get(1), row)?;
        if lists.is_null(row) {
            return None;
        }
        let null = optional(args.get(2), row);
        let texts: Vec<&str> = lists
            .span(row)
            .filter_map(|at| {
                if items.is_valid(at) {
                    Some(items.value(at))
                } else {
                    null
                }
            })
            .collect();
        Some(texts.join(separator))
    });
    Ok(Arc::new(StringViewArray::from_iter(out)))
}

fn to_array(args: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef> {
    let mut items = StringViewBuilder::new();
    let (mut out, mut count) = (Builder::new(rows), 0_usize);
    for row in 0..rows {
        let Some(text) = optional(args.first(), row) else {
            out.null();
            continue;
        };
        let null = optional(args.get(2), row);
        let before = count;
        let mut add = |item: &str| {
            items.append_option(Some(item).filter(|item| Some(*item) != null));
            count += 1;
        };
        match optional(args.get(1), row) {
            _ if text.is_empty() => {}
            None => text.chars().for_each(|c| add(c.encode_utf8(&mut [0; 4]))),
            Some("") => add(text),
            Some(separator) => text.split(separator).for_each(add),
        }
        out.pick_all(0, before..count);
        out.row(vec![count - before]);
    }
    let items: ArrayRef = Arc::new(items.finish());
    out.finish(&[&items], &DataType::Utf8View, 1)
}

/// `string_to_table`, as an array.
pub(super) fn table() -> ScalarUDF {
    use Param::Text;
    Poly {
        name: "string_to_table",
        params: &[Text, Text, Text],
        required: 2,
        returns: Returns::Texts,
        body: to_array,
    }
    .udf()
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    use Param::{Text, Texts};
    vec![
        Poly {
            name: "array_to_string",
            params: &[Texts, Text, Text],
            required: 2,
            returns: Returns::Text,
            body: to_string,
        }
        .udf(),
        Poly {
            name: "string_to_array",
            params: &[Text, Text, Text],
            required: 2,
            returns: Returns::Texts,
            body: to_array,
        }
        .udf(),
    ]
}
