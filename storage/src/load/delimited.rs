//! Scans records of fields that end at delimiters and newlines: what CSV and COPY's text format have in common.

use super::fields::Records;
use super::line_end::{self, LineEnd};
use super::options::CopyOptions;
use super::specials::Specials;
use crate::error::{ErrorKind, StorageError};

/// What a format has of its own.
pub(super) struct Format {
    /// The byte that makes a field one whose value is not its bytes: a quote or a backslash.
    pub special: u8,
    pub is_csv: bool,
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
    mut line_end: Option<LineEnd>,
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
            if bytes[start] == b'\\'
                && let Some(end) = end_marker(&bytes[start..])
            {
                match (line_end, end) {
                    (Some(wanted), Some(found)) if wanted != found => {
                        let message = "end-of-copy marker does not match previous newline style";
                        records.fail(start, StorageError::new(ErrorKind::BadCopyFormat, message));
                    }
                    _ => records.end(),
                }
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
            None => {}
            Some(_) => {
                let found = LineEnd::at(&bytes[end..]);
                if let Some((found, length)) = found {
                    let wanted = *line_end.get_or_insert(found);
                    records.newline = wanted.last();
                    if wanted != found {
                        records.fail(end, line_end::other(wanted, found, format.is_csv));
                        return records;
                    }
                    for _ in 1..length {
                        specials.next();
                        start += 1;
                    }
                }
            }
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

/// What ends a line that is `\.` alone, if anything does.
fn end_marker(line: &[u8]) -> Option<Option<LineEnd>> {
    let rest = line.strip_prefix(b"\\.")?;
    match LineEnd::at(rest) {
        Some((end, _)) => Some(Some(end)),
        None => rest.is_empty().then_some(None),
    }
}

/// A record with too few or too many fields.
fn wrong_count(found: usize, names: &[String]) -> StorageError {
    let message = match names.get(found) {
        Some(missing) => format!("missing data for column \"{missing}\""),
        None => "extra data after last expected column".to_string(),
    };
    StorageError::new(ErrorKind::BadCopyFormat, message)
}
