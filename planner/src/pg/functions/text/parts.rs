//! Parts of texts.

use super::case;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::functions::row::{Out, Value, int, text};

pub(super) fn same(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(text(values, 0).to_string()))
}

pub(super) fn reverse(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(text(values, 0).chars().rev().collect()))
}

pub(super) fn initcap(values: &[Value]) -> Result<Out> {
    let (mut out, mut inside) = (String::new(), false);
    for c in text(values, 0).chars() {
        match inside {
            true => out.push(case::lower(c)),
            false => out.push(case::upper(c)),
        }
        inside = c.is_alphanumeric();
    }
    Ok(Out::Text(out))
}

/// The byte of a character counted from 0; the end for those behind it.
pub(super) fn byte_at(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
}

/// How many characters a count leaves that, below 0, is taken from the other end.
fn kept(text: &str, count: i64) -> usize {
    match usize::try_from(count) {
        Ok(count) => count,
        Err(_) => text.chars().count().saturating_sub(count.unsigned_abs() as usize),
    }
}

pub(super) fn left(values: &[Value]) -> Result<Out> {
    let text = text(values, 0);
    let end = byte_at(text, kept(text, int(values, 1, 0)));
    Ok(Out::Text(text[..end].to_string()))
}

pub(super) fn right(values: &[Value]) -> Result<Out> {
    let text = text(values, 0);
    let count = kept(text, int(values, 1, 0));
    let start = byte_at(text, text.chars().count().saturating_sub(count));
    Ok(Out::Text(text[start..].to_string()))
}

pub(super) fn translate(values: &[Value]) -> Result<Out> {
    let (from, to): (Vec<char>, Vec<char>) = (text(values, 1).chars().collect(), text(values, 2).chars().collect());
    let changed = text(values, 0)
        .chars()
        .filter_map(|c| match from.iter().position(|own| *own == c) {
            Some(at) => to.get(at).copied(),
            None => Some(c),
        });
    Ok(Out::Text(changed.collect()))
}

pub(super) fn split_part(values: &[Value]) -> Result<Out> {
    let (subject, between, number) = (text(values, 0), text(values, 1), int(values, 2, 1));
    if number == 0 {
        let message = "field position must not be zero";
        return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
    }
    if between.is_empty() {
        let whole = if number.abs() == 1 { subject } else { "" };
        return Ok(Out::Text(whole.to_string()));
    }
    let at = number.unsigned_abs() as usize - 1;
    let part = match number > 0 {
        true => subject.split(between).nth(at),
        // Counted from the end, the parts are still those that a search from the beginning finds.
        false => {
            let count = subject.split(between).count();
            count
                .checked_sub(at + 1)
                .and_then(|from_start| subject.split(between).nth(from_start))
        }
    };
    Ok(Out::Text(part.unwrap_or_default().to_string()))
}

pub(super) fn string_to_array(values: &[Value]) -> Result<Out> {
    let Some(Value::Text(subject)) = values.first() else {
        return Ok(Out::Null);
    };
    let null = match values.get(2) {
        Some(Value::Text(null)) => Some(*null),
        _ => None,
    };
    let item = |part: &str| (Some(part) != null).then(|| part.to_string());
    let items = match &values[1] {
        _ if subject.is_empty() => Vec::new(),
        Value::Text("") => vec![item(subject)],
        Value::Text(between) => subject.split(between).map(item).collect(),
        _ => subject.chars().map(|c| item(c.encode_utf8(&mut [0; 4]))).collect(),
    };
    Ok(Out::Texts(items))
}

pub(in crate::pg::functions) fn negative_length() -> SqlError {
    SqlError::new(SqlState("22011"), "negative substring length not allowed")
}

/// Where OVERLAY cuts: what is kept before, and from where behind.
pub(in crate::pg::functions) fn cut(start: i64, length: i64) -> Result<(usize, usize)> {
    if start <= 0 {
        return Err(negative_length());
    }
    let end = start + length;
    if i32::try_from(end).is_err() {
        return Err(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"));
    }
    Ok((start as usize - 1, end.max(1) as usize - 1))
}

pub(super) fn overlay(values: &[Value]) -> Result<Out> {
    let (subject, placed) = (text(values, 0), text(values, 1));
    let length = int(values, 3, placed.chars().count() as i64);
    let (before, behind) = cut(int(values, 2, 1), length)?;
    let (head, tail) = (
        &subject[..byte_at(subject, before)],
        &subject[byte_at(subject, behind)..],
    );
    Ok(Out::Text([head, placed, tail].concat()))
}
