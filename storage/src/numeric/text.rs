//! `numeric_in` and `numeric_out`.

use super::{Finite, Int, Numeric, SCALE_MAX, WHOLE_DIGITS_MAX, int};
use std::fmt;

/// Why a text is no numeric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadText {
    Syntax,
    Overflow,
}

fn blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

impl Numeric {
    /// # Errors
    /// Text that is of another form, or past the limits of the type.
    pub fn parse(text: &[u8]) -> Result<Numeric, BadText> {
        let Some(start) = text.iter().position(|byte| !blank(byte)) else {
            return Err(BadText::Syntax);
        };
        let end = text.iter().rposition(|byte| !blank(byte)).unwrap_or(start);
        let text = &text[start..=end];
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest.first().is_some_and(u8::is_ascii_alphabetic) {
            return special(text, negative, rest);
        }
        let (mantissa, exponent) = match rest.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&rest[..at], exponent(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        if whole.len() + fraction.len() == 0 || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
            return Err(BadText::Syntax);
        }
        let unscaled = match fraction {
            [] => Int::parse(whole),
            _ => Int::parse(&[whole, fraction].concat()),
        };
        let unscaled = if negative { unscaled.neg() } else { unscaled };
        let scale = fraction.len() as i64 - exponent;
        if scale > i64::from(SCALE_MAX) {
            return Err(BadText::Overflow);
        }
        if scale >= 0 {
            let value = Finite::new(unscaled, scale as u32);
            return match value.whole_digits() > WHOLE_DIGITS_MAX {
                true => Err(BadText::Overflow),
                false => Ok(value.into()),
            };
        }
        if unscaled.is_zero() {
            return Ok(Finite::new(int::ZERO, 0).into());
        }
        match unscaled.digit_count() as i64 - scale > WHOLE_DIGITS_MAX as i64 {
            true => Err(BadText::Overflow),
            false => Ok(Finite::new(unscaled.shifted(scale.unsigned_abs() as u32), 0).into()),
        }
    }

    /// What a float's `digits` significant digits are: 15 of a double precision, 6 of a real.
    pub fn of_float(value: f64, digits: usize) -> Numeric {
        if value.is_nan() {
            return Numeric::NaN;
        }
        if value.is_infinite() {
            return if value > 0.0 {
                Numeric::Infinity
            } else {
                Numeric::NegInfinity
            };
        }
        let text = format!("{value:.*e}", digits - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mantissa = match mantissa.contains('.') {
            true => mantissa.trim_end_matches('0').trim_end_matches('.'),
            false => mantissa,
        };
        Numeric::parse(format!("{mantissa}e{exponent}").as_bytes()).unwrap_or(Numeric::NaN)
    }

    /// `d.ddde+XX` with `places` digits after the point.
    pub fn to_scientific(&self, places: usize) -> String {
        let Numeric::Finite(value) = self else {
            return self.to_string();
        };
        let count = value.unscaled.digit_count() as i64;
        let exponent = if count == 0 {
            0
        } else {
            count - 1 - i64::from(value.scale)
        };
        let mantissa = match exponent >= 0 {
            true => Finite::new(value.unscaled.clone(), value.scale + exponent as u32),
            false => Finite::new(value.unscaled.shifted(exponent.unsigned_abs() as u32), value.scale),
        };
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", mantissa.rounded(places as i32), exponent.abs())
    }

    /// The nearest float; an infinity where that is none.
    pub fn to_f64(&self) -> f64 {
        match self {
            Numeric::NaN => f64::NAN,
            Numeric::Infinity => f64::INFINITY,
            Numeric::NegInfinity => f64::NEG_INFINITY,
            Numeric::Finite(value) => {
                if let Some(small) = value.unscaled.to_i128()
                    && small.unsigned_abs() < 1 << 53
                    && value.scale <= 22
                {
                    return small as f64 / 10f64.powi(value.scale as i32);
                }
                let text = format!("{}e-{}", value.unscaled.digits(), value.scale);
                let magnitude: f64 = text.parse().unwrap_or(f64::NAN);
                if value.unscaled.is_negative() {
                    -magnitude
                } else {
                    magnitude
                }
            }
        }
    }
}

fn special(text: &[u8], negative: bool, rest: &[u8]) -> Result<Numeric, BadText> {
    if text.eq_ignore_ascii_case(b"nan") {
        return Ok(Numeric::NaN);
    }
    match rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
        true if negative => Ok(Numeric::NegInfinity),
        true => Ok(Numeric::Infinity),
        false => Err(BadText::Syntax),
    }
}

fn exponent(text: &[u8]) -> Result<i64, BadText> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(BadText::Syntax);
    }
    let significant = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    let digits = &digits[significant..];
    if digits.len() > 10 {
        return Err(BadText::Overflow);
    }
    let value = digits
        .iter()
        .fold(0_i64, |value, digit| value * 10 + i64::from(digit - b'0'));
    // PostgreSQL refuses these in the parser itself.
    if value >= i64::from(i32::MAX) / 2 {
        return Err(BadText::Overflow);
    }
    Ok(if text.first() == Some(&b'-') { -value } else { value })
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Numeric::NaN => f.write_str("NaN"),
            Numeric::Infinity => f.write_str("Infinity"),
            Numeric::NegInfinity => f.write_str("-Infinity"),
            Numeric::Finite(value) => value.fmt(f),
        }
    }
}

impl fmt::Display for Finite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.unscaled.digits();
        if self.unscaled.is_negative() {
            f.write_str("-")?;
        }
        let scale = self.scale as usize;
        if scale == 0 {
            return f.write_str(&digits);
        }
        if digits.len() > scale {
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            return write!(f, "{whole}.{fraction}");
        }
        write!(f, "0.{digits:0>scale$}")
    }
}
