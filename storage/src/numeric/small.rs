//! What 128 bits suffice for, without the integers of any size: the same results as the ways beside it, which the tests
//! here compare. None: it does not fit, and the other way is taken.

use super::int::POWERS;
use super::{DISPLAY_SCALE_MAX, Finite, Int, SCALE_MAX, SIGNIFICANT_MIN};
use arrow::datatypes::i256;

/// Digits in base 10000 of what has 128 bits and was shifted to a multiple of four digits.
const GROUPS_MAX: usize = 10;

/// The unscaled values of two numbers.
#[inline]
fn both(a: &Finite, b: &Finite) -> Option<(i128, i128)> {
    match (&a.unscaled, &b.unscaled) {
        (Int::Small(a), Int::Small(b)) => Some((*a, *b)),
        _ => None,
    }
}

#[inline]
fn of(unscaled: i128, scale: u32) -> Finite {
    Finite::new(Int::Small(unscaled), scale)
}

/// Both in units of the smaller one, and that unit's scale.
#[inline]
fn aligned(a: &Finite, b: &Finite) -> Option<(i128, i128, u32)> {
    let (own, other) = both(a, b)?;
    if a.scale == b.scale {
        return Some((own, other, a.scale));
    }
    let power = |n: u32| POWERS.get(n as usize).copied();
    Some(match a.scale < b.scale {
        true => (own.checked_mul(power(b.scale - a.scale)?)?, other, b.scale),
        false => (own, other.checked_mul(power(a.scale - b.scale)?)?, a.scale),
    })
}

#[inline]
pub(super) fn add(a: &Finite, b: &Finite) -> Option<Finite> {
    let (a, b, scale) = aligned(a, b)?;
    Some(of(a.checked_add(b)?, scale))
}

#[inline]
pub(super) fn sub(a: &Finite, b: &Finite) -> Option<Finite> {
    let (a, b, scale) = aligned(a, b)?;
    Some(of(a.checked_sub(b)?, scale))
}

#[inline]
pub(super) fn mul(a: &Finite, b: &Finite) -> Option<Finite> {
    let scale = a.scale + b.scale;
    let (a, b) = both(a, b)?;
    (scale <= SCALE_MAX).then_some(of(a.checked_mul(b)?, scale))
}

/// Division by what usually fits 64 bits, which processors divide by themselves.
#[inline]
fn div_rem(a: u128, b: u128) -> (u128, u128) {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => ((a / b).into(), (a % b).into()),
        _ => {
            let quotient = a / b;
            (quotient, a - quotient * b)
        }
    }
}

/// As `Finite::leading`, of a magnitude that is not zero.
pub(super) fn leading(magnitude: u128, scale: u32) -> Option<(i32, u32)> {
    let (count, scale) = (magnitude.ilog10() as i32 + 1, scale as i32);
    let top = count - 1 - scale;
    let wanted = top.rem_euclid(4) + 1;
    let power = |n: i32| POWERS.get(n as usize).map(|power| power.unsigned_abs());
    let first = match wanted >= count {
        true => magnitude * power(wanted - count)?,
        false => div_rem(magnitude, power(count - wanted)?).0,
    };
    Some((top.div_euclid(4), first as u32))
}

/// The quotient with PostgreSQL's digits; `b` is not zero.
pub(super) fn div(a: &Finite, b: &Finite) -> Option<Finite> {
    let (own, other) = both(a, b)?;
    let (magnitude, by) = (own.unsigned_abs(), other.unsigned_abs());
    let (weight, first) = match magnitude {
        0 => (0, 0),
        _ => leading(magnitude, a.scale)?,
    };
    let (other_weight, other_first) = leading(by, b.scale)?;
    let weight = weight - other_weight - i32::from(first <= other_first);
    let scale = (SIGNIFICANT_MIN - 4 * weight).max(a.scale as i32).max(b.scale as i32);
    let scale = scale.clamp(0, DISPLAY_SCALE_MAX) as u32;
    let raise = i64::from(b.scale) + i64::from(scale) - i64::from(a.scale);
    let power = |n: i64| POWERS.get(n as usize).map(|power| power.unsigned_abs());
    let (magnitude, by) = match raise >= 0 {
        true => (magnitude.checked_mul(power(raise)?)?, by),
        false => (magnitude, by.checked_mul(power(-raise)?)?),
    };
    let (quotient, rest) = div_rem(magnitude, by);
    let quotient = i128::try_from(quotient + u128::from(rest >= by - rest)).ok()?;
    Some(of(if (own < 0) == (other < 0) { quotient } else { -quotient }, scale))
}

/// The root of `unscaled` times ten to the `raise`, cut to a whole number. A root of floats is off by some units of its last
/// places; the difference to its square says by how many.
pub(super) fn root(unscaled: i128, raise: u32) -> Option<i128> {
    if unscaled < 0 {
        return None;
    }
    let whole = i256::from_i128(unscaled).checked_mul(i256::from_i128(*POWERS.get(raise as usize)?))?;
    let (low, high) = whole.to_parts();
    // Of more the first difference would not fit 128 bits.
    if high >= 1 << 40 {
        return None;
    }
    let mut root = ((high as f64) * 2f64.powi(128) + low as f64).sqrt() as i128;
    let rest = |root: i128| {
        let root = i256::from_i128(root);
        whole.wrapping_sub(root.wrapping_mul(root)).to_i128()
    };
    for _ in 0..2 {
        if root > 0 {
            root += rest(root)?.div_euclid(2 * root);
        }
    }
    while rest(root)? < 0 {
        root -= 1;
    }
    while rest(root)? > 2 * root {
        root += 1;
    }
    Some(root)
}

/// Writes the digits of a positive number in base 10000 as `Finite::write_key` does: their first one's power, the digits
/// without zeros at either end, and the end.
#[inline]
pub(super) fn write_digits(value: &Finite, out: &mut Vec<u8>) -> Option<()> {
    const CHUNK: u128 = 10_000_000_000_000_000;
    let Int::Small(unscaled) = value.unscaled else {
        return None;
    };
    // So that a group ends at the point.
    let pad = (4 - value.scale % 4) % 4;
    let mut left = unscaled
        .unsigned_abs()
        .checked_mul(POWERS[pad as usize].unsigned_abs())?;
    let behind = ((value.scale + pad) / 4) as i32;
    let mask = if unscaled < 0 { 0xffff } else { 0 };
    let mut digits = [0_u16; GROUPS_MAX];
    let mut at = GROUPS_MAX;
    while left > 0 {
        let (above, low) = match u64::try_from(left) {
            Ok(left) if left < CHUNK as u64 => (0, left),
            _ => {
                let above = left / CHUNK;
                (above, (left - above * CHUNK) as u64)
            }
        };
        let mut low = low;
        for _ in 0..4 {
            if above == 0 && low == 0 {
                break;
            }
            at = at.checked_sub(1)?;
            digits[at] = (low % 10_000) as u16;
            low /= 10_000;
        }
        left = above;
    }
    let weight = (GROUPS_MAX - at) as i32 - 1 - behind;
    let end = digits.iter().rposition(|digit| *digit != 0)? + 1;
    let mut bytes = [0; 2 * (GROUPS_MAX + 2)];
    let mut length = 0;
    let mut word = |word: u16| {
        bytes[length..length + 2].copy_from_slice(&(word ^ mask).to_be_bytes());
        length += 2;
    };
    word((weight + 0x8000) as u16);
    digits[at..end].iter().for_each(|digit| word(digit + 1));
    word(0);
    out.extend_from_slice(&bytes[..length]);
    Some(())
}

/// As `Finite::of_digits`, of at most nine digits.
#[inline]
pub(super) fn of_digits(
    negative: bool,
    weight: i32,
    digits: impl ExactSizeIterator<Item = u16>,
    scale: u32,
) -> Option<Finite> {
    let count = digits.len() as i32;
    let behind = (count - 1 - weight) * 4;
    let magnitude: u128 = match count {
        ..=4 => digits
            .fold(0_u64, |value, digit| value * 10_000 + u64::from(digit))
            .into(),
        5..=9 => digits.fold(0_u128, |value, digit| value * 10_000 + u128::from(digit)),
        _ => return None,
    };
    let shift = scale as i32 - behind;
    let power = POWERS.get(shift.unsigned_abs() as usize)?.unsigned_abs();
    let magnitude = match shift >= 0 {
        true => magnitude.checked_mul(power)?,
        false => div_rem(magnitude, power).0,
    };
    let magnitude = i128::try_from(magnitude).ok()?;
    Some(of(if negative { -magnitude } else { magnitude }, scale))
}

#[cfg(test)]
mod tests;
