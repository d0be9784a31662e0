//! `(a,"b c",)`: records as text, and in their binary form.

use super::column::{FieldError, parse_column_by};
use super::wire::{decode_column, malformed, next_value, next_word};
use crate::composite_type::CompositeType;
use crate::datetime::Conventions;
use crate::error::{ErrorKind, Result, StorageError};
use arrow::array::{ArrayRef, StructArray};
use arrow::buffer::NullBuffer;
use std::fmt::Write;
use std::sync::Arc;

/// The values in a record's text; None for NULL.
///
/// # Errors
/// 22P02 for what is none, or has another number of columns.
pub fn parse_record(text: &str, columns: usize) -> Result<Vec<Option<String>>> {
    let bad = |detail: &str| {
        let message = format!("malformed record literal: \"{text}\"");
        StorageError::new(ErrorKind::InvalidText, message).detail(detail.to_string())
    };
    let blank = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
    let body = text.trim_start_matches(blank);
    let body = body.strip_prefix('(').ok_or_else(|| bad("Missing left parenthesis."))?;
    let mut values = Vec::with_capacity(columns);
    let mut rest = body.chars();
    let end = 'values: loop {
        if columns == 0 && rest.as_str().starts_with(')') {
            rest.next();
            break rest.as_str();
        }
        if values.len() == columns {
            return Err(bad("Too many columns."));
        }
        let (mut value, mut quoted, mut some) = (String::new(), false, false);
        loop {
            let Some(c) = rest.next() else {
                return Err(bad("Unexpected end of input."));
            };
            match c {
                ',' | ')' if !quoted => {
                    values.push(some.then_some(value));
                    if c == ')' {
                        break 'values rest.as_str();
                    }
                    break;
                }
                '\\' => match rest.next() {
                    Some(escaped) => value.push(escaped),
                    None => return Err(bad("Unexpected end of input.")),
                },
                '"' if quoted && rest.as_str().starts_with('"') => {
                    rest.next();
                    value.push('"');
                }
                '"' => quoted = !quoted,
                other => value.push(other),
            }
            some = true;
        }
    };
    if !end.trim_start_matches(blank).is_empty() {
        return Err(bad("Junk after right parenthesis."));
    }
    if values.len() < columns {
        return Err(bad("Too few columns."));
    }
    Ok(values)
}

/// A column that may be wrong in many rows tells the first.
fn columns_of(
    of: &CompositeType,
    valid: Vec<bool>,
    mut column: impl FnMut(usize) -> Result<ArrayRef, FieldError>,
) -> Result<ArrayRef, FieldError> {
    let mut first: Option<FieldError> = None;
    let mut columns = Vec::with_capacity(of.attributes().len());
    for at in 0..of.attributes().len() {
        match column(at) {
            Ok(values) => columns.push(values),
            Err((row, error)) if first.as_ref().is_none_or(|(first, _)| row < *first) => first = Some((row, error)),
            Err(_) => {}
        }
    }
    if let Some(first) = first {
        return Err(first);
    }
    let rows = valid.len();
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    Ok(Arc::new(match columns.is_empty() {
        true => StructArray::new_empty_fields(rows, nulls),
        false => StructArray::try_new(of.fields().clone(), columns, nulls).map_err(|error| (0, error.into()))?,
    }))
}

pub(super) fn parse_records<'a>(
    of: &CompositeType,
    fields: impl ExactSizeIterator<Item = Option<&'a str>>,
    conventions: &Conventions,
) -> Result<ArrayRef, FieldError> {
    let mut values: Vec<Vec<Option<String>>> = vec![Vec::with_capacity(fields.len()); of.attributes().len()];
    let mut valid = Vec::with_capacity(fields.len());
    for (row, field) in fields.enumerate() {
        valid.push(field.is_some());
        let own = field.map(|text| parse_record(text, values.len()));
        let own = own.transpose().map_err(|error| (row, error))?;
        let mut own = own.unwrap_or_default().into_iter();
        values.iter_mut().for_each(|column| column.push(own.next().flatten()));
    }
    columns_of(of, valid, |at| {
        parse_column_by(
            of.attributes()[at].sql_type,
            values[at].iter().map(Option::as_deref),
            conventions,
        )
    })
}

/// `record_recv`: how many columns; of each its type's oid, and its value.
pub(super) fn decode_records<'a>(
    of: &CompositeType,
    fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
) -> Result<ArrayRef, FieldError> {
    let mut values: Vec<Vec<Option<&[u8]>>> = vec![Vec::with_capacity(fields.len()); of.attributes().len()];
    let mut valid = Vec::with_capacity(fields.len());
    for (row, field) in fields.enumerate() {
        valid.push(field.is_some());
        let own = field.map(|bytes| binary_columns(of, bytes));
        let own = own.transpose().map_err(|error| (row, error))?;
        let mut own = own.unwrap_or_default().into_iter();
        values.iter_mut().for_each(|column| column.push(own.next().flatten()));
    }
    columns_of(of, valid, |at| {
        decode_column(of.attributes()[at].sql_type, values[at].iter().copied())
    })
}

fn binary_columns<'a>(of: &CompositeType, bytes: &'a [u8]) -> Result<Vec<Option<&'a [u8]>>> {
    let mut rest = bytes;
    let (count, wanted) = (next_word(&mut rest)?, of.attributes().len());
    if usize::try_from(count).ok() != Some(wanted) {
        let message = format!("wrong number of columns: {count}, expected {wanted}");
        return Err(StorageError::new(ErrorKind::DatatypeMismatch, message));
    }
    let mut values = Vec::with_capacity(wanted);
    for (own, column) in of.attributes().iter().zip(1..) {
        let (oid, wanted) = (
            next_word(&mut rest)? as u32,
            own.domain.unwrap_or_else(|| own.sql_type.oid()),
        );
        if oid != wanted {
            let message = format!(
                "binary data has type {oid} instead of expected type {wanted} ({}) in record column {column}",
                own.sql_type
            );
            return Err(StorageError::new(ErrorKind::DatatypeMismatch, message));
        }
        values.push(next_value(&mut rest)?);
    }
    match rest.is_empty() {
        true => Ok(values),
        false => Err(malformed()),
    }
}

/// Fields of a record: NULL is empty, and quotes are doubled.
pub fn write_record<'a>(fields: impl Iterator<Item = Option<&'a str>>, out: &mut String) {
    out.push('(');
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(',');
        }
        let Some(field) = field else { continue };
        let special = |c: char| c.is_ascii_whitespace() || c == '\u{b}' || "(),\"\\".contains(c);
        if field.is_empty() || field.contains(special) {
            let _ = write!(out, "\"{}\"", field.replace('\\', "\\\\").replace('"', "\"\""));
        } else {
            out.push_str(field);
        }
    }
    out.push(')');
}
