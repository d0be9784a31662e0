//! Booleans, integers, floats and decimals.

use super::{Invalid, trim};
use crate::error::ErrorKind;
use crate::numeric::Numeric;
use crate::numeric::column::does_not_fit;
use crate::numeric::text::BadText;
use crate::types::SqlType;

/// Any unique prefix of true, false, yes, no, and on, off, 1, 0, in any case.
pub fn parse_bool(text: &[u8]) -> Result<bool, Invalid> {
    match text {
        b"t" | b"true" | b"1" => return Ok(true),
        b"f" | b"false" | b"0" => return Ok(false),
        _ => {}
    }
    let text = trim(text).to_ascii_lowercase();
    let prefix = |word: &[u8]| word.starts_with(&text);
    match text.first() {
        Some(b't') if prefix(b"true") => Ok(true),
        Some(b'f') if prefix(b"false") => Ok(false),
        Some(b'y') if prefix(b"yes") => Ok(true),
        Some(b'n') if prefix(b"no") => Ok(false),
        Some(b'o') if text == b"on" => Ok(true),
        Some(b'o') if text.len() > 1 && prefix(b"off") => Ok(false),
        Some(b'1') if text.len() == 1 => Ok(true),
        Some(b'0') if text.len() == 1 => Ok(false),
        _ => Err(Invalid::Syntax),
    }
}

pub fn parse_int2(text: &[u8]) -> Result<i16, Invalid> {
    i16::try_from(parse_int8(text)?).map_err(|_| Invalid::OutOfRange)
}

pub fn parse_int4(text: &[u8]) -> Result<i32, Invalid> {
    i32::try_from(parse_int8(text)?).map_err(|_| Invalid::OutOfRange)
}

#[inline]
pub fn parse_int8(text: &[u8]) -> Result<i64, Invalid> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || digits.len() > 18 {
        return parse_int8_any(text);
    }
    let mut value = 0_i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return parse_int8_any(text);
        }
        value = value * 10 + i64::from(digit);
    }
    Ok(if negative { -value } else { value })
}

#[cold]
fn parse_int8_any(text: &[u8]) -> Result<i64, Invalid> {
    let text = trim(text);
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Invalid::Syntax);
    }
    let value = digits.iter().try_fold(0_i64, |value, byte| {
        let digit = i64::from(byte - b'0');
        value
            .checked_mul(10)?
            .checked_add(if negative { -digit } else { digit })
    });
    value.ok_or(Invalid::OutOfRange)
}

pub fn parse_float4(text: &[u8]) -> Result<f32, Invalid> {
    let text = trim(text);
    let value: f32 = fast_float2::parse(text).map_err(|_| Invalid::Syntax)?;
    check_float(text, value.is_infinite(), value == 0.0).map(|()| value)
}

pub fn parse_float8(text: &[u8]) -> Result<f64, Invalid> {
    let text = trim(text);
    let value: f64 = fast_float2::parse(text).map_err(|_| Invalid::Syntax)?;
    check_float(text, value.is_infinite(), value == 0.0).map(|()| value)
}

/// Overflow to infinity and underflow to zero are errors; a written infinity or zero is not.
#[inline]
fn check_float(text: &[u8], infinite: bool, zero: bool) -> Result<(), Invalid> {
    if infinite && text.iter().any(u8::is_ascii_digit) {
        return Err(Invalid::OutOfRange);
    }
    let mantissa = || text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    if zero && mantissa().any(|byte| (b'1'..=b'9').contains(byte)) {
        return Err(Invalid::OutOfRange);
    }
    Ok(())
}

/// 10 to the power of 0 to 38.
pub(crate) const POWERS: [i128; 39] = {
    let mut powers = [1_i128; 39];
    let mut i = 1;
    while i < 39 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// The unscaled value of `numeric(precision, scale)`, digits past the scale rounded half away from zero.
#[inline]
pub fn parse_decimal(text: &[u8], precision: u8, scale: i8) -> Result<i128, Invalid> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || digits.len() > 18 || scale < 0 {
        return parse_decimal_any(text, precision, scale);
    }
    let mut value = 0_u64;
    let mut point = digits.len();
    for (index, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + u64::from(digit);
        } else if *byte == b'.' && point == digits.len() && digits.len() > 1 {
            point = index;
        } else {
            return parse_decimal_any(text, precision, scale);
        }
    }
    let fraction = digits.len().saturating_sub(point + 1);
    let Some(missing) = (scale as usize).checked_sub(fraction) else {
        return parse_decimal_any(text, precision, scale);
    };
    let power = POWERS[missing];
    let value = i128::from(value) * power;
    if value >= POWERS[precision as usize] {
        return Err(Invalid::OutOfRange);
    }
    Ok(if negative { -value } else { value })
}

/// A `numeric` of any precision, or of the one that `sql_type` declares.
pub fn parse_numeric(text: &[u8], sql_type: SqlType) -> Result<Numeric, Invalid> {
    let value = Numeric::parse(text).map_err(|bad| match bad {
        BadText::Syntax => Invalid::Syntax,
        BadText::Overflow => Invalid::other(ErrorKind::NumericOutOfRange, "value overflows numeric format"),
    })?;
    match sql_type {
        SqlType::NumericWide(precision, scale) => {
            let (precision, scale) = (precision.into(), scale.into());
            let fitted = value.fitted(precision, scale);
            fitted.ok_or_else(|| Invalid::Other(Box::new(does_not_fit(&value, precision, scale))))
        }
        _ => Ok(value),
    }
}

/// Signs, blanks, exponents, long digits and rounding.
#[cold]
fn parse_decimal_any(text: &[u8], precision: u8, scale: i8) -> Result<i128, Invalid> {
    let text = trim(text);
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if [&b"nan"[..], b"inf", b"infinity"]
        .iter()
        .any(|word| rest.eq_ignore_ascii_case(word))
    {
        if !rest.eq_ignore_ascii_case(b"nan") {
            let infinite = Numeric::Infinity;
            let error = does_not_fit(&infinite, precision.into(), scale.into());
            return Err(Invalid::Other(Box::new(error)));
        }
        let message = format!("NaN is not supported in columns of numeric({precision},{scale})");
        return Err(Invalid::other(ErrorKind::Unsupported, message));
    }
    let (mantissa, exponent) = match rest.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&rest[..at], exponent(&rest[at + 1..])?),
        None => (rest, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[][..]),
    };
    let digits = || whole.iter().chain(fraction);
    if whole.len() + fraction.len() == 0 || !digits().all(u8::is_ascii_digit) {
        return Err(Invalid::Syntax);
    }
    // How many of the digits stand before the last place kept.
    let kept = whole.len() as i64 + exponent + i64::from(scale);
    let mut value = 0_i128;
    for byte in digits().take(kept.max(0) as usize) {
        let next = value
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(i128::from(byte - b'0')));
        value = next.filter(|next| *next < POWERS[38]).ok_or(Invalid::OutOfRange)?;
    }
    let written = (whole.len() + fraction.len()) as i64;
    if kept > written && value != 0 {
        let power = POWERS.get((kept - written) as usize).ok_or(Invalid::OutOfRange)?;
        value = value.checked_mul(*power).ok_or(Invalid::OutOfRange)?;
    }
    if (0..written).contains(&kept) && digits().nth(kept as usize).is_some_and(|byte| *byte >= b'5') {
        value += 1;
    }
    if value >= POWERS[precision as usize] {
        return Err(Invalid::OutOfRange);
    }
    Ok(if negative { -value } else { value })
}

fn exponent(text: &[u8]) -> Result<i64, Invalid> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Invalid::Syntax);
    }
    match parse_int8_any(text) {
        Ok(exponent) if exponent.abs() <= 100_000 => Ok(exponent),
        _ => Err(Invalid::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
        parse_decimal(text.as_bytes(), precision, scale).ok()
    }

    #[test]
    fn decimals() {
        assert_eq!(decimal("12.34", 15, 2), Some(1234));
        assert_eq!(decimal("-12.3", 15, 2), Some(-1230));
        assert_eq!(decimal("12.345", 15, 2), Some(1235));
        assert_eq!(decimal("-12.345", 15, 2), Some(-1235));
        assert_eq!(decimal("0.005", 15, 2), Some(1));
        assert_eq!(decimal("0.0049", 15, 2), Some(0));
        assert_eq!(decimal(" +1.5e3 ", 15, 2), Some(150_000));
        assert_eq!(decimal("1e-3", 15, 2), Some(0));
        assert_eq!(decimal("5e-3", 15, 2), Some(1));
        assert_eq!(decimal("5e-4", 15, 2), Some(0));
        assert_eq!(decimal(".5", 3, 1), Some(5));
        assert_eq!(decimal("5.", 3, 1), Some(50));
        assert_eq!(decimal("999.99", 5, 2), Some(99_999));
        assert_eq!(decimal("999.995", 5, 2), None);
        assert_eq!(decimal("1000", 5, 2), None);
        assert_eq!(
            decimal("99999999999999999999999999999999999999", 38, 0),
            Some(POWERS[37] * 10 - 1)
        );
        assert_eq!(decimal("100000000000000000000000000000000000000", 38, 0), None);
        assert_eq!(decimal("0e999", 38, 0), Some(0));
        for bad in ["", ".", "-", "1.2.3", "1e", "x", "1 2", "--1"] {
            assert!(
                matches!(parse_decimal(bad.as_bytes(), 10, 2), Err(Invalid::Syntax)),
                "{bad}"
            );
        }
    }

    #[test]
    fn integers_and_floats() {
        assert_eq!(parse_int8(b"-9223372036854775808").unwrap(), i64::MIN);
        assert!(matches!(parse_int8(b"9223372036854775808"), Err(Invalid::OutOfRange)));
        assert!(matches!(parse_int4(b"2147483648"), Err(Invalid::OutOfRange)));
        assert_eq!(parse_int4(b" +7 ").unwrap(), 7);
        for bad in [&b""[..], b" ", b"-", b"1x", b"1.0", b"+-1"] {
            assert!(matches!(parse_int2(bad), Err(Invalid::Syntax)));
        }
        assert!(parse_float8(b"NaN").unwrap().is_nan());
        assert_eq!(parse_float8(b"-Infinity").unwrap(), f64::NEG_INFINITY);
        assert!(matches!(parse_float8(b"1e400"), Err(Invalid::OutOfRange)));
        assert!(matches!(parse_float8(b"1e-400"), Err(Invalid::OutOfRange)));
        assert_eq!(parse_float8(b"0e5").unwrap(), 0.0);
        assert!(matches!(parse_float4(b"1e39"), Err(Invalid::OutOfRange)));
    }

    #[test]
    fn booleans() {
        for (text, value) in [
            ("TRUE", true),
            (" y ", true),
            ("off", false),
            ("of", false),
            ("1", true),
            ("n", false),
        ] {
            assert_eq!(parse_bool(text.as_bytes()).unwrap(), value, "{text}");
        }
        for bad in ["", "o", "truex", "2", "10"] {
            assert!(parse_bool(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
