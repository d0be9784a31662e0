//! Scans COPY's text format: delimiters and newlines, with backslash escapes.

use super::delimited::{self, Format};
use super::fields::Records;
use super::line_end::LineEnd;
use super::options::CopyOptions;
use crate::error::StorageError;
use crate::parse::invalid_utf8;

/// Scans a piece of whole records; the last may lack its newline.
pub fn scan<'a>(text: &'a str, options: &CopyOptions, names: &[String], line_end: Option<LineEnd>) -> Records<'a> {
    let format = Format {
        special: b'\\',
        is_csv: false,
    };
    let (bytes, null) = (text.as_bytes(), options.null.as_bytes());
    delimited::scan(text, options, names, format, line_end, |records, start, backslash| {
        let end = escaped_end(bytes, backslash, options.delimiter);
        if &bytes[start..end] == null {
            records.push(start, end, false, true);
        } else {
            let value = unescape(&bytes[start..end]).map_err(|error| (end, error))?;
            records.push_rewritten(&value, false, false);
        }
        Ok(end)
    })
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
