//! Values in bytes whose order is that of the values, as columns hold them.
//!
//! A value is its key and, behind that, two bytes of its display scale. Keys are equal where values are, whatever their
//! scales; none is the beginning of another.
//!
//! ```text
//! 01                                 -Infinity
//! 40 ~weight ~(digit + 1)... ~0000   negative
//! 80                                 zero
//! c0 weight (digit + 1)... 0000      positive: digits of base 10000, the first one's power of 10000 plus 8000 (hex)
//! fe                                 Infinity
//! ff                                 NaN
//! ```

use super::{Finite, Int, Numeric, SCALE_MAX, int, small};
use num_bigint::BigInt;

const NEG_INFINITY: u8 = 0x01;
pub(super) const NEGATIVE: u8 = 0x40;
const ZERO: u8 = 0x80;
pub(super) const POSITIVE: u8 = 0xc0;
const INFINITY: u8 = 0xfe;
const NAN: u8 = 0xff;

/// Bytes of the scale.
const SCALE_BYTES: usize = 2;

/// What is compared of a value, or of a bound: its key.
#[inline]
pub fn compare_key(value: &[u8]) -> &[u8] {
    let behind = match value {
        _ if !is_bound(value) => SCALE_BYTES,
        [.., 0] => 1,
        _ => SCALE_BYTES + 1,
    };
    &value[..value.len().saturating_sub(behind)]
}

/// Bytes that precede all values with this one's key, and follow the key before.
pub fn below(value: &[u8]) -> Vec<u8> {
    [compare_key(value), &[0]].concat()
}

/// Bytes that follow all values with this one's key, and precede the next key's.
pub fn above(value: &[u8]) -> Vec<u8> {
    [compare_key(value), &[0xff; SCALE_BYTES + 1]].concat()
}

/// Whether bytes are no value but come from `below` or `above`: keys and values have an odd length.
#[inline]
pub fn is_bound(value: &[u8]) -> bool {
    value.len().is_multiple_of(2)
}

impl Numeric {
    /// The bytes that a column holds.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        self.write_bytes(&mut out);
        out
    }

    pub fn write_bytes(&self, out: &mut Vec<u8>) {
        let scale = match self {
            Numeric::NegInfinity => {
                out.push(NEG_INFINITY);
                0
            }
            Numeric::Infinity => {
                out.push(INFINITY);
                0
            }
            Numeric::NaN => {
                out.push(NAN);
                0
            }
            Numeric::Finite(value) => {
                value.write_key(out);
                value.scale as u16
            }
        };
        out.extend_from_slice(&scale.to_be_bytes());
    }

    /// How many of some bytes are the key that they begin with.
    pub fn key_length(bytes: &[u8]) -> Option<usize> {
        match bytes.first()? {
            sign @ (&NEGATIVE | &POSITIVE) => {
                let end = if *sign == NEGATIVE { [0xff; 2] } else { [0; 2] };
                let digits = bytes.get(3..)?.chunks_exact(2);
                let before = digits.take_while(|digit| **digit != end).count();
                Some(3 + 2 * before + 2).filter(|length| *length <= bytes.len())
            }
            _ => Some(1),
        }
    }

    /// The value of a key, with the fewest digits that show it.
    pub fn of_key(key: &[u8]) -> Numeric {
        Numeric::from_bytes(&[key, &(SCALE_MAX as u16).to_be_bytes()].concat()).trim_scale()
    }

    /// Of bytes that `write_bytes` made; NaN of others.
    pub fn from_bytes(bytes: &[u8]) -> Numeric {
        let Some((key, scale)) = bytes.split_last_chunk::<SCALE_BYTES>() else {
            return Numeric::NaN;
        };
        let scale = u32::from(u16::from_be_bytes(*scale));
        match key {
            [ZERO] => Finite::new(int::ZERO, scale).into(),
            [NEG_INFINITY] => Numeric::NegInfinity,
            [INFINITY] => Numeric::Infinity,
            [sign @ (NEGATIVE | POSITIVE), w0, w1, digits @ ..] if digits.len() >= 4 => {
                let negative = *sign == NEGATIVE;
                let mask = if negative { 0xffff } else { 0 };
                let weight = i32::from(u16::from_be_bytes([*w0, *w1]) ^ mask) - 0x8000;
                let digits = digits[..digits.len() - 2].chunks_exact(2);
                let digits = digits.map(|pair| (u16::from_be_bytes([pair[0], pair[1]]) ^ mask).wrapping_sub(1));
                Finite::of_digits(negative, weight, digits, scale).into()
            }
            _ => Numeric::NaN,
        }
    }
}

impl Finite {
    fn write_key(&self, out: &mut Vec<u8>) {
        if self.unscaled.is_zero() {
            out.push(ZERO);
            return;
        }
        let start = out.len();
        out.push(if self.unscaled.is_negative() {
            NEGATIVE
        } else {
            POSITIVE
        });
        if small::write_digits(self, out).is_none() {
            out.truncate(start);
            self.write_any_key(out);
        }
    }

    /// As `write_key`, of any size.
    pub(super) fn write_any_key(&self, out: &mut Vec<u8>) {
        let Some((weight, digits)) = self.base_10000() else {
            out.push(ZERO);
            return;
        };
        let negative = self.unscaled.is_negative();
        out.push(if negative { NEGATIVE } else { POSITIVE });
        let mask = if negative { 0xffff } else { 0 };
        let mut word = |word: u16| out.extend_from_slice(&(word ^ mask).to_be_bytes());
        word((weight + 0x8000) as u16);
        digits.iter().for_each(|digit| word(digit + 1));
        word(0);
    }

    /// The digits in base 10000 without zeros at either end, and the power of 10000 of the first; None for zero.
    pub(super) fn base_10000(&self) -> Option<(i32, Vec<u16>)> {
        if self.unscaled.is_zero() {
            return None;
        }
        // So that a group ends at the point.
        let pad = (4 - self.scale % 4) % 4;
        let groups_behind = ((self.scale + pad) / 4) as i32;
        let mut digits = match self.unscaled.shifted(pad) {
            Int::Small(value) => groups_of(value.unsigned_abs()),
            Int::Big(value) => {
                let text = value.magnitude().to_string();
                let head = text.len() % 4;
                let (head, rest) = text.as_bytes().split_at(head);
                let number = |group: &[u8]| group.iter().fold(0_u16, |n, digit| n * 10 + u16::from(digit - b'0'));
                let head = (!head.is_empty()).then(|| number(head));
                head.into_iter().chain(rest.chunks_exact(4).map(number)).collect()
            }
        };
        let weight = digits.len() as i32 - 1 - groups_behind;
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Some((weight, digits))
    }

    /// Of digits in base 10000, the first of weight `weight`, cut to `scale`.
    #[inline]
    pub(super) fn of_digits(
        negative: bool,
        weight: i32,
        digits: impl ExactSizeIterator<Item = u16> + Clone,
        scale: u32,
    ) -> Finite {
        match small::of_digits(negative, weight, digits.clone(), scale) {
            Some(value) => value,
            None => Self::of_any_digits(negative, weight, digits, scale),
        }
    }

    /// As `of_digits`, however many there are.
    pub(super) fn of_any_digits(
        negative: bool,
        weight: i32,
        digits: impl ExactSizeIterator<Item = u16>,
        scale: u32,
    ) -> Finite {
        let count = digits.len() as i32;
        // Digits after the point that the groups have.
        let behind = (count - 1 - weight) * 4;
        let unscaled = if count <= 9 {
            Int::Small(digits.fold(0_i128, |value, digit| value * 10_000 + i128::from(digit)))
        } else {
            let mut text = String::with_capacity(count as usize * 4);
            for digit in digits {
                use std::fmt::Write;
                let _ = write!(text, "{digit:04}");
            }
            BigInt::parse_bytes(text.as_bytes(), 10).map_or(int::ZERO, Int::from)
        };
        let unscaled = if negative { unscaled.neg() } else { unscaled };
        let shift = scale as i32 - behind;
        match shift >= 0 {
            true => Finite::new(unscaled.shifted(shift as u32), scale),
            false => Finite::new(unscaled.div_rem(&int::power(shift.unsigned_abs())).0, scale),
        }
    }
}

/// Groups of four digits from the highest; `value` is not zero.
fn groups_of(mut value: u128) -> Vec<u16> {
    const CHUNK: u128 = 10_000_000_000_000_000;
    let mut reversed: Vec<u16> = Vec::with_capacity(10);
    loop {
        let last = value < CHUNK;
        let mut low = (value % CHUNK) as u64;
        value /= CHUNK;
        for _ in 0..4 {
            if last && low == 0 {
                break;
            }
            reversed.push((low % 10_000) as u16);
            low /= 10_000;
        }
        if last || value == 0 {
            break;
        }
    }
    while reversed.last() == Some(&0) {
        reversed.pop();
    }
    reversed.reverse();
    reversed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(text: &str) -> Numeric {
        Numeric::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn bytes_are_ordered_as_values() {
        let ascending = [
            "-Infinity",
            "-1e100",
            "-10000.5",
            "-10000",
            "-9999.99",
            "-1.10",
            "-1",
            "-0.0001",
            "-1e-30",
            "0",
            "1e-30",
            "0.0001",
            "0.9999",
            "1",
            "1.00000001",
            "1.1",
            "9",
            "10",
            "9999",
            "10000",
            "10000.0001",
            "123456789.5",
            "99999999999999999999999999999999999999",
            "1e38",
            "1e39",
            "1e100",
            "Infinity",
            "NaN",
        ];
        let bytes: Vec<Vec<u8>> = ascending.iter().map(|text| numeric(text).to_bytes()).collect();
        for (at, text) in ascending.iter().enumerate() {
            assert_eq!(Numeric::from_bytes(&bytes[at]).to_string(), numeric(text).to_string());
            assert!(!is_bound(&bytes[at]));
            for (other, bytes_of_other) in bytes.iter().enumerate() {
                assert_eq!(
                    bytes[at].cmp(bytes_of_other),
                    at.cmp(&other),
                    "{text} {}",
                    ascending[other]
                );
                assert_eq!(below(&bytes[at]).cmp(bytes_of_other).is_lt(), at <= other);
                assert_eq!(above(&bytes[at]).cmp(bytes_of_other).is_gt(), at >= other);
            }
        }
    }

    #[test]
    fn keys_have_no_display_scale() {
        for (a, b) in [
            ("1", "1.000"),
            ("0", "0.00"),
            ("-2.5", "-2.50000"),
            ("1e20", "100000000000000000000.0"),
        ] {
            let (a, b) = (numeric(a).to_bytes(), numeric(b).to_bytes());
            assert_ne!(a, b);
            assert_eq!(compare_key(&a), compare_key(&b));
            for bound in [below(&a), above(&a)] {
                assert!(is_bound(&bound));
                assert_eq!(compare_key(&bound), compare_key(&a));
            }
        }
    }
}
