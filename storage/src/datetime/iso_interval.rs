//! ISO 8601's intervals: with designators (`P1Y2M3DT4H5M6.7S`, `P2W`) and in the alternative forms
//! (`P0001-02-03T04:05:06`, `P00010203T040506`).

use super::decode_interval::{self, Sum};
use super::span::Span;
use super::words::Unit;
use crate::parse::Invalid;

pub(super) fn parse(text: &[u8]) -> Result<Span, Invalid> {
    let text = std::str::from_utf8(text).map_err(|_| Invalid::Syntax)?;
    let mut rest = text
        .strip_prefix('P')
        .filter(|rest| !rest.is_empty())
        .ok_or(Invalid::Syntax)?;
    let (mut sum, mut in_time, mut any) = (Sum::default(), false, false);
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            (rest, in_time, any) = (time, true, false);
            continue;
        }
        let (number, after) = number(rest)?;
        let mut letters = after.chars();
        let (designator, next) = (letters.next(), letters.as_str());
        let (whole, fraction) = amount(number)?;
        let unit = match (designator, in_time) {
            (Some('Y'), false) => Unit::Year,
            (Some('M'), false) => Unit::Month,
            (Some('W'), false) => Unit::Week,
            (Some('D'), false) => Unit::Day,
            (Some('H'), true) => Unit::Hour,
            (Some('M'), true) => Unit::Minute,
            (Some('S'), true) => Unit::Second,
            // Digits run together.
            (None | Some('T'), false) if width(number) == 8 && !any => {
                sum.add(whole / 10_000, 0.0, Unit::Year)?;
                sum.add(whole / 100 % 100, 0.0, Unit::Month)?;
                sum.add(whole % 100, fraction, Unit::Day)?;
                rest = after;
                continue;
            }
            (None, true) if width(number) == 6 && !any => {
                sum.add(whole / 10_000, 0.0, Unit::Hour)?;
                sum.add(whole / 100 % 100, 0.0, Unit::Minute)?;
                sum.add(whole % 100, fraction, Unit::Second)?;
                return sum.finish();
            }
            (None | Some('-' | 'T'), false) if !any => {
                rest = parts(rest, '-', &[Unit::Year, Unit::Month, Unit::Day], &mut sum)?;
                if !rest.is_empty() && !rest.starts_with('T') {
                    return Err(Invalid::Syntax);
                }
                continue;
            }
            (None | Some(':'), true) if !any => {
                rest = parts(rest, ':', &[Unit::Hour, Unit::Minute, Unit::Second], &mut sum)?;
                if !rest.is_empty() {
                    return Err(Invalid::Syntax);
                }
                continue;
            }
            _ => return Err(Invalid::Syntax),
        };
        sum.add(whole, fraction, unit)?;
        (rest, any) = (next, true);
    }
    sum.finish()
}

/// A number's whole and fraction, of which it may also have an exponent.
fn amount(text: &str) -> Result<(i64, f64), Invalid> {
    if !text.contains(['e', 'E']) {
        return decode_interval::amount(text);
    }
    let value: f64 = text.parse().map_err(|_| Invalid::Syntax)?;
    if value.is_nan() || value.abs() >= 1e18 {
        return Err(Invalid::FieldOutOfRange);
    }
    Ok((value.trunc() as i64, value.fract()))
}

/// A number with its sign and fraction, and what follows.
fn number(text: &str) -> Result<(&str, &str), Invalid> {
    let signed = usize::from(text.starts_with(['-', '+']));
    let end = text[signed..]
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .map_or(text.len(), |end| end + signed);
    if end == signed || text[signed..end].starts_with('.') && end == signed + 1 {
        return Err(Invalid::Syntax);
    }
    // An exponent follows only with digits of its own.
    let after = &text[end..];
    let exponent = after.strip_prefix(['e', 'E']).map_or(0, |rest| {
        let sign = usize::from(rest.starts_with(['-', '+']));
        match rest[sign..].bytes().take_while(u8::is_ascii_digit).count() {
            0 => 0,
            digits => 1 + sign + digits,
        }
    });
    Ok(text.split_at(end + exponent))
}

/// Digits before the point.
fn width(number: &str) -> usize {
    let number = number.trim_start_matches(['-', '+']);
    number.find('.').unwrap_or(number.len())
}

/// Numbers between marks, each of the next smaller unit, and what follows.
fn parts<'a>(text: &'a str, mark: char, units: &[Unit], sum: &mut Sum) -> Result<&'a str, Invalid> {
    let mut rest = text;
    for (at, unit) in units.iter().enumerate() {
        if at > 0 {
            match rest.strip_prefix(mark) {
                Some(after) => rest = after,
                None => break,
            }
        }
        let (digits, after) = number(rest)?;
        let (whole, fraction) = amount(digits)?;
        sum.add(whole, fraction, *unit)?;
        rest = after;
    }
    Ok(rest)
}
