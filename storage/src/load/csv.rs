//! Scans CSV records. A quote toggles quoting anywhere in a field, as in PostgreSQL.

use super::fields::Records;
use super::options::CopyOptions;
use super::specials::Specials;
use crate::error::{ErrorKind, StorageError};

/// Scans a piece of whole records; the last may lack its newline.
pub fn scan<'a>(text: &'a str, options: &CopyOptions, names: &[String]) -> Records<'a> {
    let bytes = text.as_bytes();
    let mut records = Records::new(text, names.len());
    let (delimiter, quote, null) = (options.delimiter, options.quote, options.null.as_bytes());
    let mut specials = Specials::new(bytes, [delimiter, quote, b'\n', b'\r']);
    let mut start = 0;
    let mut in_record = false;
    while start < bytes.len() || in_record {
        if !in_record {
            if bytes[start] == b'\\' && is_end_marker(&bytes[start..]) {
                records.begin(start);
                records.end();
                return records;
            }
            records.begin(start);
            in_record = true;
        }
        let mut end = specials.next().unwrap_or(bytes.len());
        let special = bytes.get(end).copied();
        if special == Some(quote) {
            match quoted(&mut records, bytes, start, options) {
                Ok(after) => end = after,
                Err(error) => {
                    records.fail(bytes.len(), error);
                    return records;
                }
            }
            specials.seek(end);
            specials.next();
        } else {
            records.push(
                start,
                end,
                false,
                end - start == null.len() && &bytes[start..end] == null,
            );
        }
        start = end + 1;
        match bytes.get(end) {
            Some(byte) if *byte == delimiter => continue,
            Some(b'\r') => match bytes.get(start) {
                None => {}
                Some(b'\n') => {
                    specials.next();
                    start += 1;
                }
                Some(_) => {
                    let error = StorageError::new(ErrorKind::BadCopyFormat, "unquoted carriage return found in data")
                        .hint("Use quoted CSV field to represent carriage return.");
                    records.fail(end, error);
                    return records;
                }
            },
            _ => {}
        }
        in_record = false;
        if records.in_record() != names.len() {
            let error = wrong_count(records.in_record(), names);
            records.fail(start.min(bytes.len()), error);
            return records;
        }
    }
    records.finish(bytes.len());
    records
}

/// Whether the line is `\.` alone.
pub fn is_end_marker(line: &[u8]) -> bool {
    line.strip_prefix(b"\\.")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"\n") || rest.starts_with(b"\r\n"))
}

/// A record with too few or too many fields.
pub fn wrong_count(found: usize, names: &[String]) -> StorageError {
    let message = match names.get(found) {
        Some(missing) => format!("missing data for column \"{missing}\""),
        None => "extra data after last expected column".to_string(),
    };
    StorageError::new(ErrorKind::BadCopyFormat, message)
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
