//! Scans COPY's text format: delimiters and newlines, with backslash escapes.

use super::csv::{is_end_marker, wrong_count};
use super::fields::Records;
use super::options::CopyOptions;
use super::specials::Specials;
use crate::error::{ErrorKind, StorageError};
use crate::parse::invalid_utf8;

/// Scans a piece of whole records; the last may lack its newline.
pub fn scan<'a>(text: &'a str, options: &CopyOptions, names: &[String]) -> Records<'a> {
    let bytes = text.as_bytes();
    let mut records = Records::new(text, names.len());
    let (delimiter, null) = (options.delimiter, options.null.as_bytes());
    let mut specials = Specials::new(bytes, [delimiter, b'\\', b'\n', b'\r']);
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
        if bytes.get(end) == Some(&b'\\') {
            end = escaped_end(bytes, end, delimiter);
            if &bytes[start..end] == null {
                records.push(start, end, false, true);
            } else {
                match unescape(&bytes[start..end]) {
                    Ok(value) => records.push_rewritten(&value, false, false),
                    Err(error) => {
                        records.fail(end, error);
                        return records;
                    }
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
                    let error = StorageError::new(ErrorKind::BadCopyFormat, "literal carriage return found in data")
                        .hint("Use \"\\r\" to represent carriage return.");
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

/// The end of a field whose first backslash is at `at`: the next delimiter, newline or return that is not escaped.
fn escaped_end(bytes: &[u8], mut at: usize, delimiter: u8) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' | b'\r' => break,
            byte if *byte == delimiter => break,
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

/// The field that an escaped spelling means.
fn unescape(spelling: &[u8]) -> Result<String, StorageError> {
    let mut value = Vec::with_capacity(spelling.len());
    let mut rest = spelling;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            value.push(*byte);
            continue;
        }
        let Some((escaped, after)) = rest.split_first() else {
            value.push(b'\\');
            break;
        };
        rest = after;
        value.push(match escaped {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'0'..=b'7' => {
                let mut code = u32::from(escaped - b'0');
                for _ in 0..2 {
                    let [digit @ b'0'..=b'7', after @ ..] = rest else { break };
                    code = code * 8 + u32::from(digit - b'0');
                    rest = after;
                }
                code as u8
            }
            b'x' => {
                let digits = rest.iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
                let (code, after) = rest.split_at(digits);
                rest = after;
                let digit = |value: u32, byte: &u8| value * 16 + (*byte as char).to_digit(16).unwrap_or(0);
                if digits == 0 {
                    b'x'
                } else {
                    code.iter().fold(0, digit) as u8
                }
            }
            other => *other,
        });
    }
    if value.contains(&0) {
        return Err(invalid_utf8(
            &value[value.iter().position(|byte| *byte == 0).unwrap_or(0)..],
        ));
    }
    String::from_utf8(value).map_err(|error| invalid_utf8(error.as_bytes()))
}
