//! Arithmetic of numerics as their texts, with the digits that PostgreSQL's operators give.

use super::{Operator, PathError, Result};

/// A number of `digits` over a power of ten.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    scale: u32,
}

fn overflow() -> PathError {
    PathError::Hard("22003", "value overflows numeric format".into())
}

fn power(exponent: u32) -> Result<i128> {
    10_i128.checked_pow(exponent).ok_or_else(overflow)
}

fn read(text: &str) -> Result<Decimal> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = [whole, part].concat().parse().map_err(|_| overflow())?;
    Ok(Decimal {
        digits,
        scale: part.len() as u32,
    })
}

fn write(value: Decimal) -> String {
    let text = value.digits.unsigned_abs().to_string();
    let padded = format!("{text:0>width$}", width = value.scale as usize + 1);
    let (whole, part) = padded.split_at(padded.len() - value.scale as usize);
    let sign = if value.digits < 0 { "-" } else { "" };
    match part.is_empty() {
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{part}"),
    }
}

fn rescaled(value: Decimal, scale: u32) -> Result<i128> {
    let factor = power(scale - value.scale)?;
    value.digits.checked_mul(factor).ok_or_else(overflow)
}

pub(super) fn binary(op: Operator, left: &str, right: &str) -> Result<String> {
    let (a, b) = (read(left)?, read(right)?);
    let scale = a.scale.max(b.scale);
    let digits = match op {
        Operator::Add => rescaled(a, scale)?.checked_add(rescaled(b, scale)?),
        Operator::Subtract => rescaled(a, scale)?.checked_sub(rescaled(b, scale)?),
        Operator::Multiply => {
            let digits = a.digits.checked_mul(b.digits).ok_or_else(overflow)?;
            let scale = a.scale + b.scale;
            return Ok(write(Decimal { digits, scale }));
        }
        _ if b.digits == 0 => return Err(PathError::Soft("22012", "division by zero".into())),
        Operator::Modulo => rescaled(a, scale)?.checked_rem(rescaled(b, scale)?),
        _ => return divide(a, b),
    };
    let digits = digits.ok_or_else(overflow)?;
    Ok(write(Decimal { digits, scale }))
}

/// The weight in base 10000 of the first digit of such, and that digit.
fn leading(value: Decimal) -> (i32, i128) {
    if value.digits == 0 {
        return (0, 0);
    }
    let text = value.digits.unsigned_abs().to_string();
    // The decimal place of the first figure: 0 for the units.
    let place = text.len() as i32 - 1 - value.scale as i32;
    let weight = place.div_euclid(4);
    let taken = (place - weight * 4 + 1) as usize;
    let padded = format!("{text:0<taken$}");
    (weight, padded[..taken].parse().unwrap_or(0))
}

fn divide(a: Decimal, b: Decimal) -> Result<String> {
    let ((weight_a, first_a), (weight_b, first_b)) = (leading(a), leading(b));
    let quotient = weight_a - weight_b - i32::from(first_a <= first_b);
    let scale = (16 - quotient * 4)
        .max(a.scale as i32)
        .max(b.scale as i32)
        .clamp(0, 1000) as u32;
    // a / 10^sa / (b / 10^sb) = a * 10^(scale + sb - sa) / b, in units of the scale.
    let shift = scale as i64 + i64::from(b.scale) - i64::from(a.scale);
    let (numerator, denominator) = match u32::try_from(shift) {
        Ok(shift) => (a.digits.checked_mul(power(shift)?), Some(b.digits)),
        Err(_) => (
            Some(a.digits),
            b.digits.checked_mul(power(shift.unsigned_abs() as u32)?),
        ),
    };
    let (Some(numerator), Some(denominator)) = (numerator, denominator) else {
        return Err(overflow());
    };
    let (whole, rest) = (numerator / denominator, numerator % denominator);
    let up = rest.unsigned_abs() * 2 >= denominator.unsigned_abs();
    let away = if (numerator < 0) == (denominator < 0) { 1 } else { -1 };
    let digits = whole + if up { away } else { 0 };
    Ok(write(Decimal { digits, scale }))
}

/// The number without what follows its point, up or down; and its absolute value.
pub(super) fn whole(text: &str, up: bool) -> Result<String> {
    let value = read(text)?;
    let unit = power(value.scale)?;
    let floor = value.digits.div_euclid(unit);
    let rest = value.digits.rem_euclid(unit) != 0;
    Ok((floor + i128::from(up && rest)).to_string())
}

pub(super) fn absolute(text: &str) -> String {
    text.trim_start_matches('-').to_owned()
}

pub(super) fn negated(text: &str) -> String {
    let zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    match text.strip_prefix('-') {
        Some(positive) => positive.to_owned(),
        None if zero => text.to_owned(),
        None => format!("-{text}"),
    }
}

/// The integer that a subscript is, cut towards zero.
pub(super) fn subscript(text: &str) -> Option<i32> {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    whole.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients() {
        let divide = |a, b| binary(Operator::Divide, a, b).unwrap();
        assert_eq!(divide("1", "3"), "0.33333333333333333333");
        assert_eq!(divide("7", "2"), "3.5000000000000000");
        assert_eq!(divide("10", "-4"), "-2.5000000000000000");
        assert_eq!(binary(Operator::Modulo, "-7", "3").unwrap(), "-1");
        assert_eq!(binary(Operator::Multiply, "1.5", "-0.2").unwrap(), "-0.30");
        assert_eq!(whole("-1.5", false).unwrap(), "-2");
        assert_eq!(whole("-1.5", true).unwrap(), "-1");
    }
}
