//! `numeric` beyond its digits: how many of them are shown, and quotients.
//!
//! PostgreSQL keeps a display scale with every value; a column here has one scale for all its values. Two kinds of
//! column know only an upper bound of what to show. A quotient (of `/` or `avg`) has at least 16 significant digits:
//! PostgreSQL's `select_div_scale` picks its scale from the leading digits of both operands in base 10000, so it is the
//! value that tells how much of the column's scale is shown. `numeric` without a precision shows no trailing zeros.

use arrow::datatypes::{DataType, i256};

/// Precision that marks a column of quotients, in 128 and in 256 bits.
pub const QUOTIENT_PRECISION: u8 = 37;
pub const WIDE_QUOTIENT_PRECISION: u8 = 75;
/// Fewest digits after the point that a column of quotients keeps.
pub const QUOTIENT_SCALE: i8 = 20;
/// PostgreSQL's NUMERIC_MIN_SIG_DIGITS.
const SIGNIFICANT_MIN: i32 = 16;

/// Which of a column's digits after the point are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// All of the column's scale.
    Exact,
    /// None of the zeros at the end.
    Trimmed,
    /// As many as PostgreSQL gives a quotient.
    Significant,
}

impl Shown {
    /// Of a column whose type was not declared.
    pub fn of(data_type: &DataType) -> Shown {
        match data_type {
            DataType::Decimal128(QUOTIENT_PRECISION, scale) | DataType::Decimal256(WIDE_QUOTIENT_PRECISION, scale)
                if *scale >= QUOTIENT_SCALE =>
            {
                Shown::Significant
            }
            DataType::Decimal128(38, scale) if *scale >= crate::types::NUMERIC_SCALE => Shown::Trimmed,
            DataType::Decimal256(76, _) => Shown::Trimmed,
            _ => Shown::Exact,
        }
    }

    /// The digits after the point that are shown of a value, given the decimal digits of its magnitude (`0` for zero)
    /// and its scale.
    pub fn scale(self, digits: &[u8], scale: i8) -> i8 {
        if self == Shown::Exact || scale <= 0 {
            return scale;
        }
        let zero = digits == b"0";
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        let needed = if zero {
            0
        } else {
            scale - zeros.min(scale as usize) as i8
        };
        if self == Shown::Trimmed {
            return needed;
        }
        let top = digits.len() as i32 - 1 - i32::from(scale);
        // A power of 10000 is the quotient of equal leading digits, which counts one group lower.
        let power = digits[0] == b'1' && zeros + 1 == digits.len() && top.rem_euclid(4) == 0;
        let weight = if zero { -1 } else { top.div_euclid(4) - i32::from(power) };
        let mut shown = SIGNIFICANT_MIN - 4 * weight;
        if shown < i32::from(needed) {
            shown += 4;
        }
        shown.clamp(i32::from(needed), i32::from(scale)) as i8
    }
}

/// The type of a quotient whose whole part has up to `whole` digits, of operands with up to `scale` digits after the
/// point.
pub fn quotient_type(whole: i32, scale: i8) -> DataType {
    let scale = scale.max(QUOTIENT_SCALE);
    if whole + i32::from(scale) <= i32::from(QUOTIENT_PRECISION) {
        DataType::Decimal128(QUOTIENT_PRECISION, scale)
    } else {
        DataType::Decimal256(WIDE_QUOTIENT_PRECISION, scale)
    }
}

/// Weight (power of 10000) and value of a number's first digit in base 10000; zero has 0 and 0.
fn leading(magnitude: u128, scale: i8) -> (i32, u32) {
    if magnitude == 0 {
        return (0, 0);
    }
    let weight = (magnitude.ilog10() as i32 - i32::from(scale)).div_euclid(4);
    let shift = i32::from(scale) + 4 * weight;
    let digit = match shift {
        0.. => magnitude / 10u128.pow(shift as u32),
        _ => magnitude * 10u128.pow(shift.unsigned_abs()),
    };
    (weight, digit as u32)
}

fn leading_wide(value: i256, scale: i8) -> (i32, u32) {
    if let Some(narrow) = value.to_i128() {
        return leading(narrow.unsigned_abs(), scale);
    }
    let text = value.to_string();
    let digits = text.trim_start_matches('-');
    let top = digits.len() as i32 - 1 - i32::from(scale);
    let first = &digits[..=top.rem_euclid(4) as usize];
    (top.div_euclid(4), first.parse().unwrap_or(0))
}

/// PostgreSQL's display scale of `a / b`, cut to `held`.
fn display_scale(a: (i32, u32), b: (i32, u32), operands: i8, held: i8) -> i8 {
    let weight = a.0 - b.0 - i32::from(a.1 <= b.1);
    (SIGNIFICANT_MIN - 4 * weight).clamp(i32::from(operands), i32::from(held)) as i8
}

/// Digits after the point that PostgreSQL gives `a / b`, of `held` at most.
pub fn quotient_digits(a: (i256, i8), b: (i256, i8), held: i8) -> i8 {
    let operands = a.1.max(b.1).min(held);
    display_scale(leading_wide(a.0, a.1), leading_wide(b.0, b.1), operands, held)
}

/// `a / b` rounded as PostgreSQL rounds it (half away from zero, at its display scale), with `held` digits after the
/// point. None where it does not fit. `b` is not zero.
pub fn divide(a: (i256, i8), b: (i256, i8), held: i8) -> Option<i256> {
    let operands = a.1.max(b.1).min(held);
    let shown = display_scale(leading_wide(a.0, a.1), leading_wide(b.0, b.1), operands, held);
    let raise = i32::from(b.1) + i32::from(shown) - i32::from(a.1);
    let ten = i256::from_i128(10);
    let (mut over, mut under) = (a.0, b.0);
    if raise >= 0 {
        over = over.checked_mul(ten.checked_pow(raise as u32)?)?;
    } else {
        under = under.checked_mul(ten.checked_pow(raise.unsigned_abs())?)?;
    }
    let quotient = rounded(over, under)?;
    quotient.checked_mul(ten.checked_pow((held - shown) as u32)?)
}

fn rounded(over: i256, under: i256) -> Option<i256> {
    if let (Some(over), Some(under)) = (over.to_i128(), under.to_i128()) {
        let (quotient, rest) = (over.checked_div(under)?, over.checked_rem(under)?);
        let up = rest.unsigned_abs() >= under.unsigned_abs() - rest.unsigned_abs();
        let sign = if (over < 0) == (under < 0) { 1 } else { -1 };
        return Some(i256::from_i128(quotient + if up { sign } else { 0 }));
    }
    let (quotient, rest) = (over.checked_div(under)?, over.checked_rem(under)?);
    let (rest, whole) = (rest.wrapping_abs(), under.wrapping_abs());
    let up = rest >= whole.wrapping_sub(rest);
    let sign = if over.is_negative() == under.is_negative() {
        i256::ONE
    } else {
        i256::MINUS_ONE
    };
    quotient.checked_add(if up { sign } else { i256::ZERO })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotient(a: i128, b: i128) -> String {
        let value = divide((i256::from_i128(a), 0), (i256::from_i128(b), 0), 20).unwrap();
        let text = value.to_string();
        let digits = text.trim_start_matches('-');
        let shown = Shown::Significant.scale(digits.as_bytes(), 20) as usize;
        let padded = format!("{digits:0>21}");
        let (whole, part) = padded.split_at(padded.len() - 20);
        let sign = if a < 0 { "-" } else { "" };
        format!("{sign}{whole}.{}", &part[..shown])
    }

    #[test]
    fn quotients_as_postgres_shows_them() {
        // SELECT a::numeric / b in PostgreSQL 15.
        assert_eq!(quotient(1, 3), "0.33333333333333333333");
        assert_eq!(quotient(7, 3), "2.3333333333333333");
        assert_eq!(quotient(2, 2), "1.00000000000000000000");
        assert_eq!(quotient(30, 2), "15.0000000000000000");
        assert_eq!(quotient(-7, 3), "-2.3333333333333333");
        assert_eq!(quotient(0, 3), "0.00000000000000000000");
        assert_eq!(quotient(25_000, 2), "12500.000000000000");
        assert_eq!(quotient(100_000, 3), "33333.333333333333");
        // Operands of equal leading digits whose quotient ends show four digits less than PostgreSQL's 1.00005000000000000000.
        assert_eq!(quotient(20_001, 20_000), "1.0000500000000000");
    }

    #[test]
    fn leading_digits_of_wide_numbers() {
        for scale in 0..12 {
            for zeros in 0..40u32 {
                let value = i256::from_i128(123_456_789).checked_mul(i256::from_i128(10).checked_pow(zeros).unwrap());
                let exponent = 8 + zeros as i32 - scale;
                let weight = exponent.div_euclid(4);
                let digit = [1, 12, 123, 1234][exponent.rem_euclid(4) as usize];
                assert_eq!(
                    leading_wide(value.unwrap(), scale as i8),
                    (weight, digit),
                    "{zeros} {scale}"
                );
            }
        }
    }
}
