//! Names and literals as SQL writes them.

use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::row::{Out, Value, shown, text};
use tenon_storage::quote;

pub(super) fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if text.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

pub(super) fn quote_ident_of(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(quote::identifier(text(values, 0))))
}

pub(super) fn quote_literal_of(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(quote_literal(&shown(&values[0]).unwrap_or_default())))
}

pub(super) fn quote_nullable(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(
        shown(&values[0]).map_or_else(|| "NULL".into(), |text| quote_literal(&text)),
    ))
}

/// The parts of a qualified name; strict: nothing may follow them.
pub(super) fn parse_ident(values: &[Value]) -> Result<Out> {
    let name = text(values, 0);
    let strict = !matches!(values.get(1), Some(Value::Bool(false)));
    let wrong = |detail: Option<&str>| {
        let message = format!("string is not a valid identifier: \"{name}\"");
        let told = SqlError::new(state::INVALID_PARAMETER_VALUE, message);
        match detail {
            Some(detail) => told.detail(detail),
            None => told,
        }
    };
    let blank = |c: char| c.is_ascii_whitespace();
    let (mut parts, mut rest, mut after_dot) = (Vec::new(), name.trim_start_matches(blank), false);
    loop {
        let missing = if after_dot {
            "No valid identifier after \".\"."
        } else {
            "No valid identifier before \".\"."
        };
        if let Some(quoted) = rest.strip_prefix('"') {
            let (mut part, mut tail) = (String::new(), quoted);
            loop {
                let end = tail
                    .find('"')
                    .ok_or_else(|| wrong(Some("String has unclosed double quotes.")))?;
                part.push_str(&tail[..end]);
                tail = &tail[end + 1..];
                match tail.strip_prefix('"') {
                    Some(more) => {
                        part.push('"');
                        tail = more;
                    }
                    None => break,
                }
            }
            if part.is_empty() {
                return Err(wrong(Some("Quoted identifier must not be empty.")));
            }
            parts.push(Some(part));
            rest = tail;
        } else if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()) {
            let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            parts.push(Some(rest[..end].to_ascii_lowercase()));
            rest = &rest[end..];
        } else if rest.starts_with('.') || after_dot {
            return Err(wrong(Some(missing)));
        } else {
            return Err(wrong(None));
        }
        rest = rest.trim_start_matches(blank);
        match rest.strip_prefix('.') {
            Some(more) => {
                rest = more.trim_start_matches(blank);
                after_dot = true;
            }
            None if rest.is_empty() || !strict => return Ok(Out::Texts(parts)),
            None => return Err(wrong(None)),
        }
    }
}

/// What a `name` keeps of a text.
pub(super) fn name(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(tenon_storage::quote::cut_name(text(values, 0)).to_string()))
}

/// What a `"char"` keeps of a text: one byte, which may be written in octal digits.
pub(super) fn char(values: &[Value]) -> Result<Out> {
    let text = text(values, 0);
    let octal = text.strip_prefix('\\').filter(|digits| digits.len() == 3);
    let byte = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
    Ok(Out::Text(match byte {
        Some(0) => String::new(),
        Some(plain @ 1..=0x7f) => char::from(plain).to_string(),
        Some(_) => text.to_string(),
        None => match text.bytes().next() {
            Some(first @ 0x80..) => format!("\\{first:03o}"),
            Some(first) => char::from(first).to_string(),
            None => String::new(),
        },
    }))
}
