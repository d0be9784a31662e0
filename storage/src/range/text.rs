//! `[1,10)`, `empty` and `{[1,3),[7,9)}`: what PostgreSQL's input functions read, and what its output functions write.

use super::keys::{bound_array, bounds};
use super::{Bound, RangeType, Span, make, of_bytes, of_ranges, ranges_of_bytes, to_bytes, write_ranges};
use crate::datetime::{Conventions, shown, write_date, write_timestamp, write_timestamptz};
use crate::error::{ErrorKind, Result, StorageError};
use crate::float_text::{write_f32, write_f64};
use crate::numeric::Numeric;
use crate::parse::parse_scalar_by;
use crate::types::SqlType;
use arrow::array::AsArray;
use arrow::datatypes::{Date32Type, Float32Type, Float64Type, TimestampMicrosecondType};

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

fn malformed(what: &str, text: &str, detail: &str) -> StorageError {
    StorageError::new(ErrorKind::InvalidText, format!("malformed {what} literal: \"{text}\"")).detail(detail)
}

/// A column's bytes of a text.
///
/// # Errors
/// 22P02 for what is none, what the type of the bounds says of theirs, and what `make` says of both.
pub fn parse(text: &str, of: SqlType, conventions: &Conventions) -> Result<Vec<u8>> {
    match of {
        SqlType::Multirange(of) => {
            let mut ranges = Vec::new();
            for own in texts(text)? {
                ranges.extend(range(own, of, conventions)?);
            }
            Ok(write_ranges(&of_ranges(ranges)))
        }
        other => {
            let of = other.ranges().unwrap_or(RangeType::Int4);
            Ok(to_bytes(range(text, of, conventions)?.as_ref()))
        }
    }
}

fn without_empty(text: &str) -> Option<&str> {
    text.split_at_checked(5)
        .filter(|(word, _)| word.eq_ignore_ascii_case("empty"))
        .map(|(_, rest)| rest)
}

fn range(text: &str, of: RangeType, conventions: &Conventions) -> Result<Option<Span<'static>>> {
    let bad = |detail| malformed("range", text, detail);
    let rest = text.trim_start_matches(is_blank);
    if let Some(rest) = without_empty(rest) {
        return match rest.trim_start_matches(is_blank).is_empty() {
            true => Ok(None),
            false => Err(bad("Junk after \"empty\" key word.")),
        };
    }
    let opened = rest.strip_prefix('[').map(|rest| (true, rest));
    let opened = opened.or_else(|| rest.strip_prefix('(').map(|rest| (false, rest)));
    let (lower_inclusive, rest) = opened.ok_or_else(|| bad("Missing left parenthesis or bracket."))?;
    let (lower, rest) = bound(rest).ok_or_else(|| bad("Unexpected end of input."))?;
    let rest = rest
        .strip_prefix(',')
        .ok_or_else(|| bad("Missing comma after lower bound."))?;
    let (upper, rest) = bound(rest).ok_or_else(|| bad("Unexpected end of input."))?;
    let closed = rest.strip_prefix(']').map(|rest| (true, rest));
    let closed = closed.or_else(|| rest.strip_prefix(')').map(|rest| (false, rest)));
    let (upper_inclusive, rest) = closed.ok_or_else(|| bad("Too many commas."))?;
    if !rest.trim_start_matches(is_blank).is_empty() {
        return Err(bad("Junk after right parenthesis or bracket."));
    }
    let key = |text: Option<String>| match text {
        None => Ok::<_, StorageError>(None),
        Some(text) => {
            let value = parse_scalar_by(of.subtype(), &text, conventions)?;
            Ok(bounds(of, &value)?.pop().flatten().map(Into::into))
        }
    };
    make(
        of,
        Bound::of(key(lower)?, lower_inclusive),
        Bound::of(key(upper)?, upper_inclusive),
    )
}

/// The text of a bound, none where there is nothing, and what is behind it. None: the input ends within it.
fn bound(text: &str) -> Option<(Option<String>, &str)> {
    if text.starts_with([',', ')', ']']) {
        return Some((None, text));
    }
    let (mut out, mut quoted) = (String::new(), false);
    let mut rest = text.char_indices().peekable();
    loop {
        let (at, c) = rest.next()?;
        match c {
            ',' | ')' | ']' if !quoted => return Some((Some(out), &text[at..])),
            '\\' => out.push(rest.next()?.1),
            '"' if !quoted => quoted = true,
            '"' if rest.next_if(|(_, next)| *next == '"').is_some() => out.push('"'),
            '"' => quoted = false,
            c => out.push(c),
        }
    }
}

/// The texts of a multirange's ranges.
fn texts(text: &str) -> Result<Vec<&str>> {
    let bad = |detail| malformed("multirange", text, detail);
    let rest = text.trim_start_matches(is_blank);
    let mut rest = rest.strip_prefix('{').ok_or_else(|| bad("Missing left brace."))?;
    let mut out = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_blank);
        if let Some(behind) = rest.strip_prefix('}').filter(|_| out.is_empty()) {
            rest = behind;
            break;
        }
        let end = match without_empty(rest) {
            Some(behind) => rest.len() - behind.len(),
            None if rest.starts_with(['[', '(']) => end_of(rest).ok_or_else(|| bad("Unexpected end of input."))?,
            None if rest.is_empty() => return Err(bad("Unexpected end of input.")),
            None => return Err(bad("Expected range start.")),
        };
        let (own, behind) = rest.split_at(end);
        out.push(own);
        let behind = behind.trim_start_matches(is_blank);
        if let Some(next) = behind.strip_prefix(',') {
            rest = next;
            continue;
        }
        rest = behind.strip_prefix('}').ok_or_else(|| match behind.is_empty() {
            true => bad("Unexpected end of input."),
            false => bad("Expected comma or end of multirange."),
        })?;
        break;
    }
    match rest.trim_start_matches(is_blank).is_empty() {
        true => Ok(out),
        false => Err(bad("Junk after closing right brace.")),
    }
}

/// Where a range that begins a text ends.
fn end_of(text: &str) -> Option<usize> {
    let (mut quoted, mut rest) = (false, text.char_indices());
    loop {
        let (at, c) = rest.next()?;
        match c {
            '\\' => {
                rest.next()?;
            }
            // Doubled quotes end a string and begin one.
            '"' => quoted = !quoted,
            ']' | ')' if !quoted => return Some(at + 1),
            _ => {}
        }
    }
}

/// The text of a value of a column.
pub fn write_text(of: SqlType, bytes: &[u8], conventions: &Conventions, out: &mut Vec<u8>) {
    match of {
        SqlType::Multirange(of) => {
            out.push(b'{');
            for (at, range) in ranges_of_bytes(of, bytes).iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_span(of, range, conventions, out);
            }
            out.push(b'}');
        }
        other => {
            let of = other.ranges().unwrap_or(RangeType::Int4);
            match of_bytes(of, bytes) {
                Some(range) => write_span(of, &range, conventions, out),
                None => out.extend_from_slice(b"empty"),
            }
        }
    }
}

fn write_span(of: RangeType, range: &Span, conventions: &Conventions, out: &mut Vec<u8>) {
    out.push(if range.lower.inclusive { b'[' } else { b'(' });
    write_bound(of, range.lower.value.as_deref(), conventions, out);
    out.push(b',');
    write_bound(of, range.upper.value.as_deref(), conventions, out);
    out.push(if range.upper.inclusive { b']' } else { b')' });
}

fn write_bound(of: RangeType, key: Option<&[u8]>, conventions: &Conventions, out: &mut Vec<u8>) {
    let Some(key) = key else { return };
    let array = bound_array(of, std::iter::once(Some(key)));
    let mut text = Vec::new();
    match of.subtype() {
        SqlType::Numeric => text.extend(Numeric::of_key(key).to_string().bytes()),
        SqlType::Float4 => write_f32(array.as_primitive::<Float32Type>().value(0), &mut text),
        SqlType::Float8 => write_f64(array.as_primitive::<Float64Type>().value(0), &mut text),
        SqlType::Date => write_date(array.as_primitive::<Date32Type>().value(0), conventions, &mut text),
        SqlType::Timestamp => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(0);
            write_timestamp(us, conventions, &mut text);
        }
        SqlType::TimestampTz => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(0);
            write_timestamptz(us, conventions, &mut text);
        }
        SqlType::Text | SqlType::Varchar => text.extend(array.as_string_view().value(0).bytes()),
        _ => text.extend(shown(array.as_ref(), 0).bytes()),
    }
    let special = |byte: &u8| is_blank(char::from(*byte)) || b"()[],\"\\".contains(byte);
    if !text.is_empty() && !text.iter().any(special) {
        return out.extend_from_slice(&text);
    }
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'"');
}
