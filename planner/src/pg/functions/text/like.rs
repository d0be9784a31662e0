//! LIKE where the pattern is not one for all rows, or not of text.

use crate::pg::error::{Result, SqlError, SqlState};
use crate::pg::functions::row::{Out, Value, bytes, text};

/// What stands for any part, for one element and for the next as it is.
type Signs<T> = (T, T, T);
const PERCENT: Signs<char> = ('%', '_', '\\');

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// A pattern with another escape than the backslash, as one with it.
pub(super) fn like_escape(values: &[Value]) -> Result<Out> {
    let mut escape = text(values, 1).chars();
    match (escape.next(), escape.next()) {
        (first, None) => Ok(Out::Text(crate::pg::rewrite::escape_by_backslash(
            text(values, 0),
            first,
        ))),
        _ => Err(SqlError::new(SqlState("22025"), "invalid escape string")
            .hint("Escape string must be empty or one character.")),
    }
}

pub(super) fn like_bytes(values: &[Value]) -> Result<Out> {
    Ok(Out::Bool(like(
        bytes(values, 0),
        bytes(values, 1),
        (b'%', b'_', b'\\'),
    )?))
}

/// `text LIKE ANY (array)` and its kin: text, patterns, whether negated, whether case does not count, whether ALL.
pub(super) fn like_array(values: &[Value]) -> Result<Out> {
    let [
        subject,
        Value::Texts(patterns),
        Value::Bool(negated),
        Value::Bool(insensitive),
        Value::Bool(all),
    ] = values
    else {
        return Ok(Out::Null);
    };
    let mut unknown = false;
    for pattern in patterns {
        let (Value::Text(subject), Some(pattern)) = (subject, pattern) else {
            unknown = true;
            continue;
        };
        let matched = match insensitive {
            true => like(
                &chars(&subject.to_lowercase()),
                &chars(&pattern.to_lowercase()),
                PERCENT,
            )?,
            false => like(&chars(subject), &chars(pattern), PERCENT)?,
        };
        if (matched != *negated) != *all {
            return Ok(Out::Bool(!*all));
        }
    }
    Ok(if unknown { Out::Null } else { Out::Bool(*all) })
}

/// Whether a text is like a pattern.
fn like<T: Copy + PartialEq>(text: &[T], pattern: &[T], (any, one, escape): Signs<T>) -> Result<bool> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut rest = pattern.iter();
    while let Some(&sign) = rest.next() {
        parts.push(if sign == any {
            Part::Any
        } else if sign == one {
            Part::One
        } else if sign == escape {
            Part::Just(
                *rest.next().ok_or_else(|| {
                    SqlError::new(SqlState("22025"), "LIKE pattern must not end with escape character")
                })?,
            )
        } else {
            Part::Just(sign)
        });
    }
    // Where to go on when what follows the last `%` does not match.
    let (mut at, mut part, mut back) = (0, 0, None);
    while at < text.len() || part < parts.len() {
        let here = match parts.get(part) {
            Some(Part::Any) => {
                back = Some((part, at));
                part += 1;
                continue;
            }
            Some(Part::One) => at < text.len(),
            Some(Part::Just(own)) => text.get(at) == Some(own),
            None => false,
        };
        if here {
            at += 1;
            part += 1;
            continue;
        }
        match back {
            Some((any, from)) if from < text.len() => {
                back = Some((any, from + 1));
                (part, at) = (any + 1, from + 1);
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

enum Part<T> {
    Any,
    One,
    Just(T),
}
