//! `numeric`: text, and the wire's base-10000 digits.

use arrow::datatypes::i256;

/// Most decimal digits of a 256-bit integer, its sign left out, with room for a scale's zeros.
const DIGITS_MAX: usize = 80;

/// An unscaled decimal's digits: what both formats are made from.
pub struct Digits {
    negative: bool,
    bytes: [u8; DIGITS_MAX],
    len: usize,
}

impl Digits {
    pub fn of_i128(value: i128) -> Self {
        let mut digits = Self {
            negative: value < 0,
            bytes: [0; DIGITS_MAX],
            len: 0,
        };
        let mut buffer = itoa::Buffer::new();
        match i64::try_from(value) {
            Ok(small) => digits.set(buffer.format(small.unsigned_abs()).as_bytes()),
            Err(_) => digits.set(buffer.format(value.unsigned_abs()).as_bytes()),
        }
        digits
    }

    pub fn of_i256(value: i256) -> Self {
        if let Some(small) = value.to_i128() {
            return Self::of_i128(small);
        }
        let text = value.to_string();
        let mut digits = Self {
            negative: text.starts_with('-'),
            bytes: [0; DIGITS_MAX],
            len: 0,
        };
        digits.set(text.trim_start_matches('-').as_bytes());
        digits
    }

    fn set(&mut self, text: &[u8]) {
        self.bytes[..text.len()].copy_from_slice(text);
        self.len = text.len();
    }

    fn digits(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// `numeric_out`: exactly `scale` digits after the point; a negative scale stands for zeros before it.
    pub fn write_text(&self, scale: i8, out: &mut Vec<u8>) {
        let digits = self.digits();
        if self.negative {
            out.push(b'-');
        }
        if scale <= 0 {
            out.extend_from_slice(digits);
            if digits != b"0" {
                out.resize(out.len() + scale.unsigned_abs() as usize, b'0');
            }
            return;
        }
        let scale = scale as usize;
        if digits.len() > scale {
            out.extend_from_slice(&digits[..digits.len() - scale]);
            out.push(b'.');
            out.extend_from_slice(&digits[digits.len() - scale..]);
        } else {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + scale - digits.len(), b'0');
            out.extend_from_slice(digits);
        }
    }

    /// `numeric_send`: i16 ndigits, i16 weight, i16 sign, i16 dscale, then base-10000 digits from the highest, with
    /// neither leading nor trailing zero digits.
    pub fn write_binary(&self, scale: i8, out: &mut Vec<u8>) {
        let zeros_behind = (-scale as i32).max(0) as usize;
        let scale = scale.max(0) as usize;
        // Decimal digit i (from the highest) has the weight 10^(top - i).
        let top = self.len as i32 - 1 + zeros_behind as i32 - scale as i32;
        let mut groups = [0i16; DIGITS_MAX / 4 + 34];
        let first_weight = top.div_euclid(4);
        let mut used = 0;
        for (i, digit) in self.digits().iter().enumerate() {
            let power = top - i as i32;
            let group = (first_weight - power.div_euclid(4)) as usize;
            let place = [1, 10, 100, 1000][power.rem_euclid(4) as usize];
            groups[group] += i16::from(digit - b'0') * place;
            used = group + 1;
        }
        let groups = &groups[..used];
        let leading = groups.iter().take_while(|g| **g == 0).count();
        let kept = &groups[leading..];
        let kept = &kept[..kept.len() - kept.iter().rev().take_while(|g| **g == 0).count()];
        let weight = if kept.is_empty() {
            0
        } else {
            first_weight - leading as i32
        };
        out.extend_from_slice(&(kept.len() as i16).to_be_bytes());
        out.extend_from_slice(&(weight as i16).to_be_bytes());
        out.extend_from_slice(
            &(if self.negative && !kept.is_empty() {
                0x4000i16
            } else {
                0
            })
            .to_be_bytes(),
        );
        out.extend_from_slice(&(scale as i16).to_be_bytes());
        for group in kept {
            out.extend_from_slice(&group.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: i128, scale: i8) -> String {
        let mut out = Vec::new();
        Digits::of_i128(value).write_text(scale, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn binary(value: i128, scale: i8) -> Vec<i16> {
        let mut out = Vec::new();
        Digits::of_i128(value).write_binary(scale, &mut out);
        out.chunks(2).map(|c| i16::from_be_bytes([c[0], c[1]])).collect()
    }

    #[test]
    fn text_has_exactly_the_scale() {
        assert_eq!(text(0, 2), "0.00");
        assert_eq!(text(-5, 2), "-0.05");
        assert_eq!(text(12345, 2), "123.45");
        assert_eq!(text(12345, 0), "12345");
        assert_eq!(text(12, -3), "12000");
        assert_eq!(text(0, -3), "0");
        assert_eq!(text(i128::MAX, 38), "1.70141183460469231731687303715884105727");
        assert_eq!(text(i128::MIN, 0), i128::MIN.to_string());
        let mut out = Vec::new();
        Digits::of_i256(i256::MIN).write_text(3, &mut out);
        let plain = i256::MIN.to_string();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("{}.{}", &plain[..plain.len() - 3], &plain[plain.len() - 3..])
        );
    }

    #[test]
    fn binary_digits_match_the_server() {
        // From `select numeric_send(...)` of PostgreSQL 15.
        assert_eq!(binary(0, 2), [0, 0, 0, 2]);
        assert_eq!(binary(12345, 2), [2, 0, 0, 2, 123, 4500]);
        assert_eq!(binary(-5, 2), [1, -1, 0x4000, 2, 500]);
        assert_eq!(binary(100000000, 0), [1, 2, 0, 0, 1]);
        assert_eq!(binary(10001, 4), [2, 0, 0, 4, 1, 1]);
        assert_eq!(binary(1, 8), [1, -2, 0, 8, 1]);
        assert_eq!(binary(12, -3), [2, 1, 0, 0, 1, 2000]);
    }
}
