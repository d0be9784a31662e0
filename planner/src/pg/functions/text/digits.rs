//! Numbers and bytes as digits: hexadecimal, base64, and bytea's escapes.

use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::row::{Out, Value, bytes, int, text};
use std::fmt::Write;

/// Digits in a line of base64.
const LINE: usize = 76;

pub(super) fn to_hex4(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(format!("{:x}", int(values, 0, 0) as i32)))
}

pub(super) fn to_hex8(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(format!("{:x}", int(values, 0, 0))))
}

fn invalid(message: String) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}

pub(super) fn encode(values: &[Value]) -> Result<Out> {
    let (all, format) = (bytes(values, 0), text(values, 1));
    Ok(Out::Text(match format.to_ascii_lowercase().as_str() {
        "hex" => all.iter().fold(String::new(), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        }),
        "base64" => base64(all),
        "escape" => escape(all),
        _ => return Err(invalid(format!("unrecognized encoding: \"{format}\""))),
    }))
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(all: &[u8]) -> String {
    let mut out = String::with_capacity(all.len() * 4 / 3 + 4);
    for (at, three) in all.chunks(3).enumerate() {
        if at > 0 && at * 4 % LINE == 0 {
            out.push('\n');
        }
        let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            match digit <= three.len() {
                true => out.push(char::from(BASE64[(word >> (18 - 6 * digit) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
    out
}

fn escape(all: &[u8]) -> String {
    all.iter().fold(String::new(), |mut out, byte| {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0 | 0x80.. => {
                let _ = write!(out, "\\{byte:03o}");
            }
            plain => out.push(char::from(*plain)),
        }
        out
    })
}

pub(super) fn decode(values: &[Value]) -> Result<Out> {
    let (digits, format) = (text(values, 0), text(values, 1));
    Ok(Out::Bytes(match format.to_ascii_lowercase().as_str() {
        "hex" => hex_bytes(digits)?,
        "base64" => base64_bytes(digits)?,
        "escape" => escape_bytes(digits)?,
        _ => return Err(invalid(format!("unrecognized encoding: \"{format}\""))),
    }))
}

fn hex_bytes(digits: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(digits.len() / 2);
    let mut high = None;
    for c in digits.chars() {
        if matches!(c, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit = c
            .to_digit(16)
            .ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(high) => out.push(high << 4 | digit),
        }
    }
    match high {
        Some(_) => Err(invalid("invalid hexadecimal data: odd number of digits".into())),
        None => Ok(out),
    }
}

fn base64_bytes(digits: &str) -> Result<Vec<u8>> {
    let (mut out, mut word, mut count, mut end) = (Vec::new(), 0u32, 0, 0);
    for c in digits.chars() {
        if matches!(c, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit = if c == '=' {
            if end == 0 {
                end = match count {
                    2 => 1,
                    3 => 2,
                    _ => return Err(invalid("unexpected \"=\" while decoding base64 sequence".into())),
                };
            }
            0
        } else {
            let digit = BASE64.iter().position(|own| char::from(*own) == c);
            digit.ok_or_else(|| invalid(format!("invalid symbol \"{c}\" found while decoding base64 sequence")))? as u32
        };
        word = word << 6 | digit;
        count += 1;
        if count == 4 {
            out.push((word >> 16) as u8);
            if end == 0 || end > 1 {
                out.push((word >> 8) as u8);
            }
            if end == 0 || end > 2 {
                out.push(word as u8);
            }
            (word, count) = (0, 0);
        }
    }
    if count != 0 {
        return Err(invalid("invalid base64 end sequence".into())
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

fn escape_bytes(digits: &str) -> Result<Vec<u8>> {
    let (mut out, mut rest) = (Vec::new(), digits.as_bytes());
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        match behind {
            [b'\\', after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                return Err(SqlError::new(
                    state::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
        }
    }
    Ok(out)
}
