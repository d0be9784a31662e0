//! Scans records of fields that end at delimiters and newlines: what CSV and COPY's text format have in common.

use super::fields::Records;
use super::options::CopyOptions;
use super::specials::Specials;
use crate::error::{ErrorKind, StorageError};

/// What a format has of its own.
pub(super) struct Format {
    /// The byte that makes a field one whose value is not its bytes: a quote or a backslash.
    pub special: u8,
    /// Message and hint where a carriage return stands alone.
    pub lone_return: [&'static str; 2],
}

/// Scans a piece of whole records; the last may lack its newline.
///
/// `rewritten` is asked for each field with the format's special byte: given where the field starts and where that byte
/// is, it adds the field and gives where it ends, or the place up to which its error's record reaches.
pub(super) fn scan<'a>(
    text: &'a str,
    options: &CopyOptions,
    names: &[String],
    format: Format,
    rewritten: impl Fn(&mut Records<'a>, usize, usize) -> Result<usize, (usize, StorageError)>,
) -> Records<'a> {
    let bytes = text.as_bytes();
    let mut records = Records::new(text, names.len());
    let (delimiter, null) = (options.delimiter, options.null.as_bytes());
    let mut specials = Specials::new(bytes, [delimiter, format.special, b'\n', b'\r']);
    let mut start = 0;
    let mut in_record = false;
    while start < bytes.len() || in_record {
        if !in_record {
            records.begin(start);
            if bytes[start] == b'\\' && is_end_marker(&bytes[start..]) {
                records.end();
                return records;
            }
            in_record = true;
        }
        let mut end = specials.next().unwrap_or(bytes.len());
        if bytes.get(end) == Some(&format.special) {
            match rewritten(&mut records, start, end) {
                Ok(after) => end = after,
                Err((at, error)) => {
                    records.fail(at, error);
                    return records;
                }
            }
            specials.seek(end);
            specials.next();
        } else {
            let is_null = end - start == null.len() && &bytes[start..end] == null;
            records.push(start, end, false, is_null);
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
                    let [message, hint] = format.lone_return;
                    records.fail(end, StorageError::new(ErrorKind::BadCopyFormat, message).hint(hint));
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
fn is_end_marker(line: &[u8]) -> bool {
    line.strip_prefix(b"\\.")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"\n") || rest.starts_with(b"\r\n"))
}

/// A record with too few or too many fields.
fn wrong_count(found: usize, names: &[String]) -> StorageError {
    let message = match names.get(found) {
        Some(missing) => format!("missing data for column \"{missing}\""),
        None => "extra data after last expected column".to_string(),
    };
    StorageError::new(ErrorKind::BadCopyFormat, message)
}
