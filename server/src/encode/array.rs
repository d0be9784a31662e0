//! Arrays and records: `{1,NULL,"a b"}` and `(1,,"a b")` as text, and their binary forms.

use super::Style;
use super::cell::{Column, Values};
use super::row::patch_length;
use arrow::array::*;
use arrow::datatypes::DataType;
use tenon_planner::error::{Result, SqlError};

/// Where each row's items lie among all items of a list column.
pub enum Spans<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
    Fixed(usize),
}

impl<'a> Spans<'a> {
    pub fn of(array: &'a dyn Array) -> Result<(Self, &'a dyn Array)> {
        Ok(match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Spans::Small(list.value_offsets()), list.values().as_ref())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Spans::Large(list.value_offsets()), list.values().as_ref())
            }
            DataType::FixedSizeList(_, size) => (
                Spans::Fixed(*size as usize),
                array.as_fixed_size_list().values().as_ref(),
            ),
            other => return Err(SqlError::internal(format!("{other} is no list"))),
        })
    }

    fn get(&self, row: usize) -> std::ops::Range<usize> {
        match self {
            Spans::Small(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Spans::Large(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Spans::Fixed(size) => row * size..(row + 1) * size,
        }
    }
}

pub fn write_text(spans: &Spans, items: &Column, row: usize, style: &Style, out: &mut Vec<u8>) {
    out.push(b'{');
    let plain = items.is_plain() || matches!(items.values, Values::List(..));
    for (i, item) in spans.get(row).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if items.is_null(item) {
            out.extend_from_slice(b"NULL");
        } else {
            let start = out.len();
            items.write_text(item, style, out);
            let special = |b: &u8| matches!(b, b'{' | b'}' | b',' | b'"' | b'\\' | b' ' | b'\t'..=b'\r');
            if !plain {
                let text = &out[start..];
                if text.is_empty() || text.eq_ignore_ascii_case(b"null") || text.iter().any(special) {
                    quote_from(start, b'\\', out);
                }
            }
        }
    }
    out.push(b'}');
}

/// `int2vector` and `oidvector` of system tables: `1 2`.
pub fn write_vector_text(spans: &Spans, items: &Column, row: usize, style: &Style, out: &mut Vec<u8>) {
    for (i, item) in spans.get(row).enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        items.write_text(item, style, out);
    }
}

/// Record fields: NULL is empty, and quotes are doubled.
pub fn write_record_text(fields: &[Column], row: usize, style: &Style, out: &mut Vec<u8>) {
    out.push(b'(');
    for (i, field) in fields.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if !field.is_null(row) {
            let start = out.len();
            field.write_text(row, style, out);
            let special = |b: &u8| matches!(b, b'(' | b')' | b',' | b'"' | b'\\' | b' ' | b'\t'..=b'\r');
            if out.len() == start || out[start..].iter().any(special) {
                quote_from(start, 0, out);
            }
        }
    }
    out.push(b')');
}

/// Puts what was written from `start` on between double quotes; `"` and `\` inside get `escape` before them, or
/// themselves where that is 0.
fn quote_from(start: usize, escape: u8, out: &mut Vec<u8>) {
    let text = out.split_off(start);
    out.push(b'"');
    for byte in text {
        if byte == b'"' || byte == b'\\' {
            out.push(if escape == 0 { byte } else { escape });
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// `array_send`: i32 dimensions, i32 has-nulls, u32 element type, then per dimension i32 size and i32 lower bound,
/// then the items with an i32 length each (-1: NULL).
pub fn write_binary(spans: &Spans, items: &Column, row: usize, out: &mut Vec<u8>) -> Result<()> {
    let mut sizes = Vec::new();
    measure(spans, items, row, 0, &mut sizes)?;
    if sizes.contains(&0) {
        sizes.clear();
    }
    let mut leaf = items;
    while let Values::List(_, inner) = &leaf.values {
        leaf = inner;
    }
    out.extend_from_slice(&(sizes.len() as i32).to_be_bytes());
    let flags_at = out.len();
    out.extend_from_slice(&0i32.to_be_bytes());
    out.extend_from_slice(&leaf.oid.to_be_bytes());
    for size in &sizes {
        out.extend_from_slice(&(*size as i32).to_be_bytes());
        out.extend_from_slice(&1i32.to_be_bytes());
    }
    if !sizes.is_empty() && write_items(spans, items, row, out)? {
        out[flags_at + 3] = 1;
    }
    Ok(())
}

/// Finds the size of every dimension, and refuses what is no rectangle.
fn measure(spans: &Spans, items: &Column, row: usize, depth: usize, sizes: &mut Vec<usize>) -> Result<()> {
    let span = spans.get(row);
    match sizes.get(depth) {
        None => sizes.push(span.len()),
        Some(size) if *size == span.len() => {}
        Some(_) => {
            return Err(SqlError::unsupported(
                "a nested array of uneven sizes in the binary format",
            ));
        }
    }
    if let Values::List(inner_spans, inner) = &items.values {
        for item in span {
            if items.is_null(item) {
                return Err(SqlError::unsupported(
                    "a NULL among the arrays of a nested array in the binary format",
                ));
            }
            measure(inner_spans, inner, item, depth + 1, sizes)?;
        }
    }
    Ok(())
}

/// The items in order; tells whether one is NULL.
fn write_items(spans: &Spans, items: &Column, row: usize, out: &mut Vec<u8>) -> Result<bool> {
    let mut nulls = false;
    for item in spans.get(row) {
        if let Values::List(inner_spans, inner) = &items.values {
            nulls |= write_items(inner_spans, inner, item, out)?;
        } else {
            nulls |= items.is_null(item);
            write_field(items, item, out)?;
        }
    }
    Ok(nulls)
}

/// `record_send`: i32 fields, then u32 type, i32 length and the value of each.
pub fn write_record_binary(fields: &[Column], row: usize, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(&(fields.len() as i32).to_be_bytes());
    for field in fields {
        out.extend_from_slice(&field.oid.to_be_bytes());
        write_field(field, row, out)?;
    }
    Ok(())
}

/// A value with its i32 length before it, -1 for NULL.
pub fn write_field(column: &Column, row: usize, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&(-1i32).to_be_bytes());
    if !column.is_null(row) {
        column.write_binary(row, out)?;
        patch_length(start, 4, out);
    }
    Ok(())
}
