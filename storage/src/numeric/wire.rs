//! `numeric_send` and `numeric_recv`.

use super::{Finite, Numeric, SCALE_MAX};

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const NEG_INFINITY: u16 = 0xf000;

impl Numeric {
    /// Count of digits, weight, sign, display scale, and the digits in base 10000.
    pub fn write_wire(&self, out: &mut Vec<u8>) {
        let mut words = |words: &[u16]| words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        match self {
            Numeric::NaN => words(&[0, 0, NAN, 0]),
            // The scale of an infinity means nothing, but this is the one that PostgreSQL sends.
            Numeric::Infinity => words(&[0, 0, INFINITY, 0x20]),
            Numeric::NegInfinity => words(&[0, 0, NEG_INFINITY, 0x20]),
            Numeric::Finite(value) => {
                let sign = if value.unscaled.is_negative() { NEGATIVE } else { 0 };
                let (weight, digits) = value.base_10000().unwrap_or((0, Vec::new()));
                words(&[digits.len() as u16, weight as u16, sign, value.scale as u16]);
                words(&digits);
            }
        }
    }

    /// None for bytes of another form.
    pub fn read_wire(bytes: &[u8]) -> Option<Numeric> {
        let mut words = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let (count, weight) = (words.next()?, words.next()? as i16);
        let (sign, scale) = (words.next()?, words.next()?);
        let digits: Vec<u16> = words.collect();
        if bytes.len() != 8 + 2 * usize::from(count) || digits.iter().any(|digit| *digit > 9999) {
            return None;
        }
        Some(match sign {
            NAN => Numeric::NaN,
            INFINITY => Numeric::Infinity,
            NEG_INFINITY => Numeric::NegInfinity,
            0 | NEGATIVE if u32::from(scale) <= SCALE_MAX => {
                let (negative, weight) = (sign == NEGATIVE, i32::from(weight));
                Finite::of_digits(negative, weight, digits.into_iter(), scale.into()).into()
            }
            _ => return None,
        })
    }
}
