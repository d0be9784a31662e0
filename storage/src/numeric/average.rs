//! Averages of many groups: a sum by a count, written digit by digit in base 10000 as columns hold numerics, in 64 bits. None:
//! it does not fit, and `Numeric::div` is taken, which gives the same (the tests here compare).

use super::key::{NEGATIVE, POSITIVE};
use super::small::leading;
use super::{DISPLAY_SCALE_MAX, SIGNIFICANT_MIN};

/// Digits in base 10000 for which there is room.
const DIGITS: usize = 16;
/// Those that 64 bits have, and one more for what is carried.
const WHOLE_DIGITS: usize = 6;
/// So that a rest times 10000 fits 64 bits.
const COUNT_MAX: u64 = 1 << 50;

/// Appends `sum` / 10^`scale` divided by `count`, as `Numeric::write_bytes` writes the quotient; nothing where it is None.
pub(super) fn write_average(sum: i128, scale: u32, count: u64, out: &mut Vec<u8>) -> Option<()> {
    let magnitude = u64::try_from(sum.unsigned_abs()).ok()?;
    if magnitude == 0 || !(1..=COUNT_MAX).contains(&count) {
        return None;
    }
    let (weight, first) = leading(magnitude.into(), scale)?;
    let (other_weight, other_first) = leading(count.into(), 0)?;
    let weight = weight - other_weight - i32::from(first <= other_first);
    let wanted = u32::try_from((SIGNIFICANT_MIN - 4 * weight).max(scale as i32)).ok()?;
    // A group of four digits ends at the point, and one at the last digit.
    let pad = (4 - scale % 4) % 4;
    let behind = wanted.checked_sub(scale + pad)? as usize / 4;
    if !wanted.is_multiple_of(4) || wanted > DISPLAY_SCALE_MAX as u32 || behind + WHOLE_DIGITS > DIGITS {
        return None;
    }
    let magnitude = magnitude.checked_mul(10_u64.pow(pad))?;
    let (mut whole, mut rest) = (magnitude / count, magnitude % count);
    let mut digits = [0_u16; DIGITS];
    let (before, after) = digits.split_at_mut(DIGITS - behind);
    for digit in before.iter_mut().rev() {
        (*digit, whole) = ((whole % 10_000) as u16, whole / 10_000);
    }
    for digit in after {
        rest *= 10_000;
        (*digit, rest) = ((rest / count) as u16, rest % count);
    }
    if rest >= count - rest {
        for digit in digits.iter_mut().rev() {
            *digit += 1;
            if *digit < 10_000 {
                break;
            }
            *digit = 0;
        }
    }
    let first = digits.iter().position(|digit| *digit != 0)?;
    let end = digits.iter().rposition(|digit| *digit != 0)? + 1;
    let weight = (DIGITS - 1 - first) as i32 - (wanted / 4) as i32;
    let (sign, mask) = if sum < 0 { (NEGATIVE, 0xffff) } else { (POSITIVE, 0) };
    let mut bytes = [0; 1 + 2 * (DIGITS + 3)];
    bytes[0] = sign;
    let mut length = 1;
    let mut word = |word: u16| {
        bytes[length..length + 2].copy_from_slice(&word.to_be_bytes());
        length += 2;
    };
    word((weight + 0x8000) as u16 ^ mask);
    digits[first..end].iter().for_each(|digit| word((digit + 1) ^ mask));
    word(mask);
    word(wanted as u16);
    out.extend_from_slice(&bytes[..length]);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::{Finite, Int, Numeric};
    use super::*;
    use rand::prelude::*;

    #[test]
    fn averages_are_quotients() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut fast = 0;
        for _ in 0..200_000 {
            let edges = [
                0,
                1,
                9_999,
                10_000,
                99_999_999,
                i64::MAX as u64,
                u64::MAX,
                COUNT_MAX,
                COUNT_MAX + 1,
            ];
            let mut number = || match rng.random_range(0..6) {
                0 => edges[rng.random_range(0..edges.len())],
                1 => 10_u64.pow(rng.random_range(0..19)),
                _ => rng.random::<u64>() >> rng.random_range(0..64),
            };
            let (magnitude, count) = (i128::from(number()), number().max(1));
            let sum = if rng.random() { magnitude } else { -magnitude };
            let scale = [0, 0, 1, 2, 4, 9, 18, 38][rng.random_range(0..8)];
            let mut found = vec![7];
            let Some(()) = write_average(sum, scale, count, &mut found) else {
                assert_eq!(found, [7]);
                continue;
            };
            let (own, by) = (
                Finite::new(Int::Small(sum), scale),
                Finite::new(Int::Small(count.into()), 0),
            );
            let expected = Numeric::from(own).div(&Numeric::from(by)).unwrap();
            assert_eq!(
                found[1..],
                expected.to_bytes(),
                "{sum} of scale {scale} by {count}, seed {seed}"
            );
            fast += 1;
        }
        assert!(fast > 50_000, "{fast} of 200000, seed {seed}");
    }
}
