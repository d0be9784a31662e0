//! Scans CSV records. A quote toggles quoting anywhere in a field, as in PostgreSQL.

use super::delimited::{self, Format};
use super::fields::Records;
use super::line_end::LineEnd;
use super::options::CopyOptions;
use crate::error::{ErrorKind, StorageError};

/// Scans a piece of whole records; the last may lack its newline.
pub fn scan<'a>(text: &'a str, options: &CopyOptions, names: &[String], line_end: Option<LineEnd>) -> Records<'a> {
    let format = Format {
        special: options.quote,
        is_csv: true,
    };
    let bytes = text.as_bytes();
    delimited::scan(text, options, names, format, line_end, |records, start, _| {
        quoted(records, bytes, start, options).map_err(|error| (bytes.len(), error))
    })
}

/// Adds the field from `start`, which has a quote in it, and gives the position of the byte that ends it.
fn quoted(records: &mut Records<'_>, bytes: &[u8], start: usize, options: &CopyOptions) -> Result<usize, StorageError> {
    let (delimiter, quote, escape) = (options.delimiter, options.quote, options.escape);
    let null = options.null.as_bytes();
    let ends = |at: usize| {
        bytes
            .get(at)
            .is_none_or(|byte| *byte == delimiter || matches!(byte, b'\n' | b'\r'))
    };
    // The common form: quoted from end to end with nothing to rewrite.
    if bytes[start] == quote {
        let close = match escape == quote {
            true => memchr::memchr(quote, &bytes[start + 1..]),
            false => memchr::memchr2(quote, escape, &bytes[start + 1..]),
        };
        if let Some(close) = close
            .map(|at| start + 1 + at)
            .filter(|at| bytes[*at] == quote && ends(at + 1))
        {
            records.push(start + 1, close, true, &bytes[start + 1..close] == null);
            return Ok(close + 1);
        }
    }
    let mut value = Vec::new();
    let mut at = start;
    let mut inside = false;
    loop {
        let Some(byte) = bytes.get(at).copied() else {
            if inside {
                return Err(StorageError::new(
                    ErrorKind::BadCopyFormat,
                    "unterminated CSV quoted field",
                ));
            }
            break;
        };
        if inside {
            if byte == escape && bytes.get(at + 1).is_some_and(|next| *next == quote || *next == escape) {
                value.push(bytes[at + 1]);
                at += 1;
            } else if byte == quote {
                inside = false;
            } else {
                value.push(byte);
            }
        } else if byte == quote {
            inside = true;
        } else if ends(at) {
            break;
        } else {
            value.push(byte);
        }
        at += 1;
    }
    let is_null = value == null;
    // Only ASCII bytes were removed, so the rest is UTF-8 still.
    let value = String::from_utf8(value).map_err(StorageError::internal)?;
    records.push_rewritten(&value, true, is_null);
    Ok(at)
}
