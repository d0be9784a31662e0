//! Small functions of PostgreSQL's that DataFusion lacks.

use super::simple::{TypeOf, function};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, Int32Array, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::Arc;

fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(array, &DataType::Utf8View)?)
}

/// How many of the arguments are NULL in each row.
fn nulls(args: &[ArrayRef], rows: usize) -> Vec<i32> {
    (0..rows)
        .map(|row| {
            args.iter()
                .filter(|array| array.logical_nulls().is_some_and(|nulls| nulls.is_null(row)))
                .count() as i32
        })
        .collect()
}

fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if text.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// A name as it must be written in SQL.
pub(crate) fn quote_ident(text: &str) -> String {
    let plain = text.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let reserved = [
        "select", "from", "where", "table", "order", "group", "user", "all", "and", "or", "not", "in", "as",
    ];
    if plain && !reserved.contains(&text) {
        text.to_string()
    } else {
        format!("\"{}\"", text.replace('"', "\"\""))
    }
}

/// `format('%s %I %L', ...)`.
fn format_text(pattern: &str, values: &[Option<&str>]) -> String {
    let (mut out, mut next) = (String::new(), 0);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let kind = chars.next();
        if kind == Some('%') {
            out.push('%');
            continue;
        }
        let value = values.get(next).copied().flatten();
        next += 1;
        match (kind, value) {
            (Some('I'), Some(value)) => out.push_str(&quote_ident(value)),
            (Some('L'), Some(value)) => out.push_str(&quote_literal(value)),
            (Some('L'), None) => out.push_str("NULL"),
            (_, Some(value)) => out.push_str(value),
            (_, None) => {}
        }
    }
    out
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let immutable = Volatility::Immutable;
    let text = || Signature::exact(vec![DataType::Utf8View], Volatility::Immutable);
    vec![
        TypeOf::udf(),
        function(
            "num_nulls",
            Signature::variadic_any(immutable),
            DataType::Int32,
            |args, rows| Ok(Arc::new(Int32Array::from(nulls(args, rows)))),
        ),
        function(
            "num_nonnulls",
            Signature::variadic_any(immutable),
            DataType::Int32,
            |args, rows| {
                let count = args.len() as i32;
                Ok(Arc::new(Int32Array::from_iter_values(
                    nulls(args, rows).into_iter().map(|nulls| count - nulls),
                )))
            },
        ),
        function("quote_literal", text(), DataType::Utf8View, |args, _| {
            let out = args[0].as_string_view().iter().map(|text| text.map(quote_literal));
            Ok(Arc::new(StringViewArray::from_iter(out)))
        }),
        function("quote_ident", text(), DataType::Utf8View, |args, _| {
            let out = args[0].as_string_view().iter().map(|text| text.map(quote_ident));
            Ok(Arc::new(StringViewArray::from_iter(out)))
        }),
        function(
            "format",
            Signature::variadic_any(immutable),
            DataType::Utf8View,
            |args, rows| {
                let columns = args.iter().map(texts).collect::<Result<Vec<_>>>()?;
                let value = |column: &ArrayRef, row: usize| {
                    let column = column.as_string_view();
                    column.is_valid(row).then(|| column.value(row).to_string())
                };
                let out = (0..rows).map(|row| {
                    let pattern = value(&columns[0], row)?;
                    let values: Vec<Option<String>> = columns[1..].iter().map(|column| value(column, row)).collect();
                    let values: Vec<Option<&str>> = values.iter().map(|value| value.as_deref()).collect();
                    Some(format_text(&pattern, &values))
                });
                Ok(Arc::new(StringViewArray::from_iter(out)))
            },
        ),
        function(
            "like_escape",
            Signature::exact(vec![DataType::Utf8View, DataType::Utf8View], immutable),
            DataType::Utf8View,
            |args, _| {
                let rows = args[0].as_string_view().iter().zip(args[1].as_string_view());
                let out = rows.map(|row| match row {
                    (Some(pattern), Some(escape)) => {
                        Some(crate::rewrite::escape_by_backslash(pattern, escape.chars().next()))
                    }
                    _ => None,
                });
                Ok(Arc::new(StringViewArray::from_iter(out)))
            },
        ),
        function(
            "gen_random_uuid",
            Signature::nullary(Volatility::Volatile),
            DataType::FixedSizeBinary(16),
            |_, rows| {
                let ids: Vec<[u8; 16]> = (0..rows).map(|_| *uuid::Uuid::new_v4().as_bytes()).collect();
                Ok(Arc::new(FixedSizeBinaryArray::try_from_iter(ids.into_iter())?))
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        assert_eq!(quote_ident("plain_1"), "plain_1");
        assert_eq!(quote_ident("Mixed"), "\"Mixed\"");
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(
            format_text("%s-%I %L%%", &[Some("a"), Some("B"), None]),
            "a-\"B\" NULL%"
        );
    }
}
