//! Integers of any size: 128 bits while they suffice.

use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;
use std::sync::LazyLock;

#[derive(Clone, Debug)]
pub enum Int {
    Small(i128),
    /// Only where 128 bits do not suffice.
    Big(BigInt),
}

pub const ZERO: Int = Int::Small(0);
pub const ONE: Int = Int::Small(1);

/// 10 to the power of 0 to 38.
pub(super) const POWERS: [i128; 39] = {
    let mut powers = [1_i128; 39];
    let mut i = 1;
    while i < 39 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// Larger powers that are often asked for.
static LARGE_POWERS: LazyLock<Vec<BigInt>> = LazyLock::new(|| (0..128).map(|n| BigInt::from(10).pow(n)).collect());

impl From<BigInt> for Int {
    fn from(value: BigInt) -> Int {
        match i128::try_from(&value) {
            Ok(small) => Int::Small(small),
            Err(_) => Int::Big(value),
        }
    }
}

/// 10^n.
pub fn power(n: u32) -> Int {
    match POWERS.get(n as usize) {
        Some(small) => Int::Small(*small),
        None => Int::Big(big_power(n)),
    }
}

pub fn big_power(n: u32) -> BigInt {
    match LARGE_POWERS.get(n as usize) {
        Some(known) => known.clone(),
        None => BigInt::from(10).pow(n),
    }
}

impl Int {
    /// 10^n.
    pub fn power(n: u32) -> Int {
        power(n)
    }

    pub fn big(&self) -> BigInt {
        match self {
            Int::Small(value) => BigInt::from(*value),
            Int::Big(value) => value.clone(),
        }
    }

    pub fn is_zero(&self) -> bool {
        matches!(self, Int::Small(0))
    }

    pub fn is_negative(&self) -> bool {
        match self {
            Int::Small(value) => *value < 0,
            Int::Big(value) => value.sign() == Sign::Minus,
        }
    }

    pub fn is_odd(&self) -> bool {
        match self {
            Int::Small(value) => value & 1 == 1,
            Int::Big(value) => value.bit(0),
        }
    }

    pub fn add(&self, other: &Int) -> Int {
        if let (Int::Small(a), Int::Small(b)) = (self, other)
            && let Some(sum) = a.checked_add(*b)
        {
            return Int::Small(sum);
        }
        (self.big() + other.big()).into()
    }

    pub fn sub(&self, other: &Int) -> Int {
        if let (Int::Small(a), Int::Small(b)) = (self, other)
            && let Some(difference) = a.checked_sub(*b)
        {
            return Int::Small(difference);
        }
        (self.big() - other.big()).into()
    }

    pub fn mul(&self, other: &Int) -> Int {
        if let (Int::Small(a), Int::Small(b)) = (self, other)
            && let Some(product) = a.checked_mul(*b)
        {
            return Int::Small(product);
        }
        (self.big() * other.big()).into()
    }

    /// Times 10^n.
    pub fn shifted(&self, n: u32) -> Int {
        if n == 0 || self.is_zero() {
            return self.clone();
        }
        self.mul(&power(n))
    }

    pub fn neg(&self) -> Int {
        match self {
            Int::Small(value) if *value != i128::MIN => Int::Small(-value),
            _ => (-self.big()).into(),
        }
    }

    pub fn abs(&self) -> Int {
        if self.is_negative() { self.neg() } else { self.clone() }
    }

    /// Quotient cut towards zero, and the rest, which has the sign of `self`. `by` is not zero.
    pub fn div_rem(&self, by: &Int) -> (Int, Int) {
        if let (Int::Small(a), Int::Small(b)) = (self, by)
            && let (Some(quotient), Some(rest)) = (a.checked_div(*b), a.checked_rem(*b))
        {
            return (Int::Small(quotient), Int::Small(rest));
        }
        let (a, b) = (self.big(), by.big());
        let quotient = &a / &b;
        let rest = a - &quotient * b;
        (quotient.into(), rest.into())
    }

    /// The quotient rounded half away from zero. `by` is not zero.
    pub fn div_round(&self, by: &Int) -> Int {
        let (quotient, rest) = self.div_rem(by);
        let (rest, by_abs) = (rest.abs(), by.abs());
        if rest.cmp(&by_abs.sub(&rest)) == Ordering::Less {
            return quotient;
        }
        if self.is_negative() == by.is_negative() {
            quotient.add(&ONE)
        } else {
            quotient.sub(&ONE)
        }
    }

    #[allow(clippy::should_implement_trait)]
    pub fn cmp(&self, other: &Int) -> Ordering {
        match (self, other) {
            (Int::Small(a), Int::Small(b)) => a.cmp(b),
            _ => self.big().cmp(&other.big()),
        }
    }

    /// The decimal digits of the magnitude; `0` for zero.
    pub fn digits(&self) -> String {
        match self {
            Int::Small(value) => value.unsigned_abs().to_string(),
            Int::Big(value) => value.magnitude().to_string(),
        }
    }

    /// How many decimal digits the magnitude has; 0 for zero.
    pub fn digit_count(&self) -> usize {
        match self {
            Int::Small(0) => 0,
            Int::Small(value) => value.unsigned_abs().ilog10() as usize + 1,
            Int::Big(value) => value.magnitude().to_string().len(),
        }
    }

    /// Of decimal digits alone.
    pub fn parse(digits: &[u8]) -> Int {
        if digits.len() <= 38 {
            let value = digits
                .iter()
                .fold(0_i128, |value, digit| value * 10 + i128::from(digit - b'0'));
            return Int::Small(value);
        }
        BigInt::parse_bytes(digits, 10).map_or(ZERO, Int::from)
    }

    pub fn to_i128(&self) -> Option<i128> {
        match self {
            Int::Small(value) => Some(*value),
            Int::Big(_) => None,
        }
    }
}
