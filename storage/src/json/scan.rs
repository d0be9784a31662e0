//! Parts of a JSON text, as slices of it. The text is known to be JSON.

use super::read::unescape;
use crate::parse::Invalid;

/// The text without blanks around it.
pub fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

/// The name of the kind that a text begins as.
pub fn kind(text: &str) -> &'static str {
    match trim(text).as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// Where the value that begins at `at` ends.
fn value_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                // The end of what holds a bare value.
                if depth == 0 {
                    return at;
                }
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b'"' => {
                at = string_end(bytes, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

fn skip(bytes: &[u8], mut at: usize, also: &[u8]) -> usize {
    while bytes
        .get(at)
        .is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r') || also.contains(byte))
    {
        at += 1;
    }
    at
}

/// The elements of an array; None of anything else.
pub fn elements(text: &str) -> Option<Vec<&str>> {
    let inner = trim(text).strip_prefix('[')?.strip_suffix(']')?;
    let bytes = inner.as_bytes();
    let (mut out, mut at) = (Vec::new(), skip(bytes, 0, b""));
    while at < bytes.len() {
        let end = value_end(bytes, at);
        out.push(&inner[at..end]);
        at = skip(bytes, end.max(at + 1), b",");
    }
    Some(out)
}

/// The keys, unescaped, and values of an object as they stand; None of anything else.
pub fn pairs(text: &str) -> Result<Option<Vec<(String, &str)>>, Invalid> {
    let Some(inner) = trim(text).strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return Ok(None);
    };
    let bytes = inner.as_bytes();
    let (mut out, mut at) = (Vec::new(), skip(bytes, 0, b""));
    while at < bytes.len() {
        let (key, after) = unescape(inner, at)?;
        let start = skip(bytes, after, b":");
        let end = value_end(bytes, start);
        out.push((key, &inner[start..end]));
        at = skip(bytes, end.max(at + 1), b",");
    }
    Ok(Some(out))
}

/// The value of a key: of the last such key.
pub fn field<'a>(text: &'a str, key: &str) -> Result<Option<&'a str>, Invalid> {
    let pairs = pairs(text)?.unwrap_or_default();
    Ok(pairs
        .into_iter()
        .rev()
        .find(|(own, _)| own == key)
        .map(|(_, value)| value))
}

/// The element at a position from 0, or from the end where that is negative.
pub fn element(text: &str, position: i64) -> Option<&str> {
    let elements = elements(text)?;
    let at = match position {
        ..0 => elements.len() as i64 + position,
        _ => position,
    };
    usize::try_from(at).ok().and_then(|at| elements.get(at).copied())
}

/// What `->>` gives of a value: strings without quotes, NULL for null.
pub fn as_text(text: &str) -> Result<Option<String>, Invalid> {
    let text = trim(text);
    Ok(match text.as_bytes().first() {
        Some(b'"') => Some(unescape(text, 0)?.0),
        Some(b'n') => None,
        _ => Some(text.to_owned()),
    })
}
