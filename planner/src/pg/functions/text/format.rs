//! `format`, `concat` and `concat_ws`.

use super::names::quote_literal;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::functions::row::{Out, TEXT_MAX, Value, shown, too_long};
use std::iter::Peekable;
use std::str::Chars;

pub(super) fn concat(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(values.iter().filter_map(shown).collect()))
}

pub(super) fn concat_ws(values: &[Value]) -> Result<Out> {
    let Some(Value::Text(between)) = values.first() else {
        return Ok(Out::Null);
    };
    let parts: Vec<_> = values[1..].iter().filter_map(shown).collect();
    Ok(Out::Text(parts.join(between)))
}

/// The items of a list as arguments; None for a NULL list.
fn items<'a>(value: Option<&Value<'a>>) -> Option<Vec<Value<'a>>> {
    match value {
        Some(Value::Texts(items)) => Some(items.iter().map(|item| item.map_or(Value::Null, Value::Text)).collect()),
        _ => None,
    }
}

pub(super) fn concat_list(values: &[Value]) -> Result<Out> {
    match items(values.first()) {
        Some(items) => concat(&items),
        None => Ok(Out::Null),
    }
}

pub(super) fn concat_ws_list(values: &[Value]) -> Result<Out> {
    match items(values.get(1)) {
        Some(items) => concat_ws(&[&values[..1], &items].concat()),
        None => Ok(Out::Null),
    }
}

pub(super) fn format_list(values: &[Value]) -> Result<Out> {
    format(&[&values[..1], &items(values.get(1)).unwrap_or_default()].concat())
}

fn nulls(values: &[Value], wanted: bool) -> Out {
    let items = items(values.first()).unwrap_or_default();
    Out::Int(
        items
            .iter()
            .filter(|item| matches!(item, Value::Null) == wanted)
            .count() as i64,
    )
}

pub(super) fn num_nulls(values: &[Value]) -> Result<Out> {
    Ok(nulls(values, true))
}

pub(super) fn num_nonnulls(values: &[Value]) -> Result<Out> {
    Ok(nulls(values, false))
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}

fn unterminated() -> SqlError {
    wrong("unterminated format() type specifier").hint("For a single \"%\" use \"%%\".")
}

pub(super) fn format(values: &[Value]) -> Result<Out> {
    let Some(Value::Text(pattern)) = values.first() else {
        return Ok(Out::Null);
    };
    let values = &values[1..];
    let (mut out, mut chars, mut next) = (String::new(), pattern.chars().peekable(), 0);
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let told = Specifier::read(&mut chars)?;
        let mut argument = |at: Option<usize>| {
            let at = at.unwrap_or(next);
            next = at + 1;
            values.get(at).ok_or_else(|| wrong("too few arguments for format()"))
        };
        let width = match told.width {
            Width::None => 0,
            Width::Fixed(width) => width,
            Width::Argument(at) => match argument(at)? {
                Value::Null => 0,
                given => shown(given)
                    .and_then(|text| text.trim().parse::<i32>().ok())
                    .ok_or_else(|| wrong("invalid width of format()"))?
                    .into(),
            },
        };
        let value = shown(argument(told.position)?);
        let text = match (told.kind, value) {
            ('s', value) => value.unwrap_or_default().into_owned(),
            ('L', Some(value)) => quote_literal(&value),
            ('L', None) => "NULL".into(),
            (_, Some(value)) => tenon_storage::quote::identifier(&value),
            (_, None) => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(SqlError::new(SqlState("22004"), message));
            }
        };
        let least = width.unsigned_abs() as usize;
        if out.len() + least.max(text.len()) > TEXT_MAX {
            return Err(too_long());
        }
        let blanks = " ".repeat(least.saturating_sub(text.chars().count()));
        if told.left || width < 0 {
            out.push_str(&text);
            out.push_str(&blanks);
        } else {
            out.push_str(&blanks);
            out.push_str(&text);
        }
    }
    Ok(Out::Text(out))
}

enum Width {
    None,
    Fixed(i64),
    Argument(Option<usize>),
}

/// `%[position$][-][width]type`.
struct Specifier {
    position: Option<usize>,
    left: bool,
    width: Width,
    kind: char,
}

impl Specifier {
    fn read(chars: &mut Peekable<Chars>) -> Result<Specifier> {
        let mut told = Specifier {
            position: None,
            left: false,
            width: Width::None,
            kind: 's',
        };
        if let Some(number) = number(chars)? {
            if chars.next_if_eq(&'$').is_some() {
                told.position = Some(position(number)?);
            } else {
                told.width = Width::Fixed(number);
            }
        }
        if matches!(told.width, Width::None) {
            while chars.next_if_eq(&'-').is_some() {
                told.left = true;
            }
            if chars.next_if_eq(&'*').is_some() {
                told.width = match number(chars)? {
                    Some(number) if chars.next_if_eq(&'$').is_some() => Width::Argument(Some(position(number)?)),
                    Some(_) => return Err(wrong("width argument position must be ended by \"$\"")),
                    None => Width::Argument(None),
                };
            } else if let Some(number) = number(chars)? {
                told.width = Width::Fixed(number);
            }
        }
        told.kind = chars.next().ok_or_else(unterminated)?;
        match told.kind {
            's' | 'I' | 'L' => Ok(told),
            other => Err(wrong(format!("unrecognized format() type specifier \"{other}\""))
                .hint("For a single \"%\" use \"%%\".")),
        }
    }
}

fn position(number: i64) -> Result<usize> {
    match number {
        0 => Err(wrong("format specifies argument 0, but arguments are numbered from 1")),
        number => Ok(number as usize - 1),
    }
}

fn number(chars: &mut Peekable<Chars>) -> Result<Option<i64>> {
    let mut value: Option<i64> = None;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        chars.next();
        let more = value.unwrap_or(0) * 10 + i64::from(digit);
        if more > i64::from(i32::MAX) {
            return Err(SqlError::new(
                state::NUMERIC_VALUE_OUT_OF_RANGE,
                "number is out of range",
            ));
        }
        value = Some(more);
    }
    if chars.peek().is_none() {
        return Err(unterminated());
    }
    Ok(value)
}
