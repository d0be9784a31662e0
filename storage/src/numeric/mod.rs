//! `numeric` without limits of its own: any precision, a display scale with every value, NaN and the infinities.
//!
//! This is PostgreSQL's type as expressions and undeclared columns need it; `numeric(p, s)` up to 38 digits is kept in
//! Arrow's 128-bit decimals. `small` is what goes in 128 bits as fast as that allows. `key` puts a value into bytes whose order is that of the values, which is how columns hold
//! them; `wire` and `text` are its outward forms; `average` makes many quotients; `division` and `functions` know how many digits PostgreSQL gives.

mod arithmetic;
mod average;
pub mod column;
mod division;
mod functions;
mod int;
mod key;
mod logarithm;
mod small;
pub mod text;
mod wire;

pub use int::Int;
pub use key::{above, below, compare_key, is_bound};

use std::cmp::Ordering;

/// Most digits after the point that a value has.
pub const SCALE_MAX: u32 = 16_383;
/// Most digits after the point that a division or a function adds by itself (PostgreSQL's NUMERIC_MAX_DISPLAY_SCALE).
const DISPLAY_SCALE_MAX: i32 = 1000;
/// PostgreSQL's NUMERIC_MIN_SIG_DIGITS.
const SIGNIFICANT_MIN: i32 = 16;
/// Most digits before the point.
const WHOLE_DIGITS_MAX: usize = 131_072;

#[derive(Clone, Debug)]
pub enum Numeric {
    NegInfinity,
    Finite(Finite),
    Infinity,
    NaN,
}

/// `unscaled` / 10^`scale`, shown with `scale` digits after the point.
#[derive(Clone, Debug)]
pub struct Finite {
    pub unscaled: Int,
    pub scale: u32,
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumericError {
    /// 22003
    Overflow,
    /// 22012
    DivisionByZero,
    /// 2201F: of a negative number, which is no infinity.
    NegativeRoot,
    /// 2201E
    LogarithmOfZero,
    LogarithmOfNegative,
    /// 2201F
    ZeroToNegative,
    NegativeToFraction,
    /// 22003: a NaN or an infinity as an integer.
    NotANumber,
    Infinite,
}

pub type Result<T> = std::result::Result<T, NumericError>;

impl From<Finite> for Numeric {
    fn from(value: Finite) -> Numeric {
        Numeric::Finite(value)
    }
}

impl From<i64> for Numeric {
    fn from(value: i64) -> Numeric {
        Numeric::of_i128(value.into(), 0)
    }
}

impl Finite {
    pub fn new(unscaled: Int, scale: u32) -> Finite {
        Finite { unscaled, scale }
    }

    /// The same value with at least `scale` digits after the point.
    fn raised(&self, scale: u32) -> Int {
        self.unscaled.shifted(scale.saturating_sub(self.scale))
    }

    /// Rounded half away from zero to `places` digits after the point, which may be negative.
    pub fn rounded(&self, places: i32) -> Finite {
        self.to_places(places, Int::div_round)
    }

    pub fn truncated(&self, places: i32) -> Finite {
        self.to_places(places, |value, unit| value.div_rem(unit).0)
    }

    fn to_places(&self, places: i32, divide: impl Fn(&Int, &Int) -> Int) -> Finite {
        let scale = places.max(0) as u32;
        let dropped = self.scale as i32 - places;
        if dropped <= 0 {
            return Finite::new(self.unscaled.shifted((-dropped) as u32), scale);
        }
        if dropped as usize > self.unscaled.digit_count() {
            return Finite::new(int::ZERO, scale);
        }
        let kept = divide(&self.unscaled, &int::power(dropped as u32));
        Finite::new(kept.shifted((-places).max(0) as u32), scale)
    }

    /// Power of 10000 of the first digit in base 10000, and that digit; 0 and 0 for zero.
    fn leading(&self) -> (i32, u32) {
        let (count, scale) = (self.unscaled.digit_count() as i32, self.scale as i32);
        if count == 0 {
            return (0, 0);
        }
        let top = count - 1 - scale;
        // Digits that the first group has: further ones may lie behind the last that is kept.
        let wanted = top.rem_euclid(4) + 1;
        let first = if wanted >= count {
            self.unscaled.abs().shifted((wanted - count) as u32)
        } else {
            self.unscaled.abs().div_rem(&int::power((count - wanted) as u32)).0
        };
        (top.div_euclid(4), first.to_i128().unwrap_or(0) as u32)
    }

    /// Digits before the point.
    fn whole_digits(&self) -> usize {
        self.unscaled.digit_count().saturating_sub(self.scale as usize)
    }

    /// Within PostgreSQL's limits, its scale cut where it is beyond them.
    fn checked(self) -> Result<Finite> {
        let own = if self.scale > SCALE_MAX {
            self.rounded(SCALE_MAX as i32)
        } else {
            self
        };
        if matches!(own.unscaled, Int::Big(_)) && own.whole_digits() > WHOLE_DIGITS_MAX {
            return Err(NumericError::Overflow);
        }
        Ok(own)
    }

    pub fn is_integer(&self) -> bool {
        self.scale == 0 || self.min_scale() == 0
    }

    /// The fewest digits after the point that show the value whole.
    pub fn min_scale(&self) -> u32 {
        if self.scale == 0 || self.unscaled.is_zero() {
            return 0;
        }
        let digits = self.unscaled.digits();
        let zeros = digits.bytes().rev().take_while(|digit| *digit == b'0').count();
        self.scale.saturating_sub(zeros as u32)
    }

    // Not `Ord`: values of one rank differ in their display scale.
    #[allow(clippy::should_implement_trait)]
    pub fn cmp(&self, other: &Finite) -> Ordering {
        let scale = self.scale.max(other.scale);
        self.raised(scale).cmp(&other.raised(scale))
    }
}

impl Numeric {
    pub fn of_i128(unscaled: i128, scale: i8) -> Numeric {
        match u32::try_from(scale) {
            Ok(scale) => Finite::new(Int::Small(unscaled), scale).into(),
            Err(_) => Finite::new(Int::Small(unscaled).shifted(scale.unsigned_abs().into()), 0).into(),
        }
    }

    /// As `of_i128`, of 256 bits; `scale` is not negative.
    pub fn of_i256(unscaled: arrow::datatypes::i256, scale: i8) -> Numeric {
        match unscaled.to_i128() {
            Some(unscaled) => Numeric::of_i128(unscaled, scale),
            None => {
                let unscaled = num_bigint::BigInt::from_signed_bytes_le(&unscaled.to_le_bytes());
                Finite::new(unscaled.into(), scale.max(0) as u32).into()
            }
        }
    }

    pub fn is_nan(&self) -> bool {
        matches!(self, Numeric::NaN)
    }

    /// -1, 0 or 1; NaN is 1.
    pub fn signum(&self) -> i32 {
        match self {
            Numeric::NegInfinity => -1,
            Numeric::Finite(value) if value.unscaled.is_negative() => -1,
            Numeric::Finite(value) if value.unscaled.is_zero() => 0,
            _ => 1,
        }
    }

    pub fn is_zero(&self) -> bool {
        matches!(self, Numeric::Finite(value) if value.unscaled.is_zero())
    }

    /// PostgreSQL's order: NaN equals itself and is above all others.
    // Not `Ord`: values of one rank differ in their display scale.
    #[allow(clippy::should_implement_trait)]
    pub fn cmp(&self, other: &Numeric) -> Ordering {
        let rank = |value: &Numeric| match value {
            Numeric::NegInfinity => 0,
            Numeric::Finite(_) => 1,
            Numeric::Infinity => 2,
            Numeric::NaN => 3,
        };
        match (self, other) {
            (Numeric::Finite(a), Numeric::Finite(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }

    /// Does not fit into i64: None.
    pub fn to_i64(&self) -> Result<Option<i64>> {
        Ok(self.to_i128()?.and_then(|value| i64::try_from(value).ok()))
    }

    /// Rounded half away from zero.
    pub fn to_i128(&self) -> Result<Option<i128>> {
        match self {
            Numeric::Finite(value) => Ok(value.rounded(0).unscaled.to_i128()),
            Numeric::NaN => Err(NumericError::NotANumber),
            _ => Err(NumericError::Infinite),
        }
    }

    /// As a `numeric(precision, scale)`; None where it has too many digits before the point, or is an infinity.
    pub fn fitted(&self, precision: i32, scale: i32) -> Option<Numeric> {
        let Numeric::Finite(value) = self else {
            return self.is_nan().then_some(Numeric::NaN);
        };
        let rounded = value.rounded(scale);
        // Digits down to the last place kept, which may lie before the point.
        let digits = rounded.unscaled.digit_count() as i32 - rounded.scale as i32 + scale;
        (rounded.unscaled.is_zero() || digits <= precision).then(|| rounded.into())
    }

    /// The unscaled value of `numeric(precision, scale)` in 128 bits; None where it does not fit.
    pub fn to_decimal(&self, precision: u8, scale: i8) -> Option<i128> {
        match self.fitted(precision.into(), scale.into())? {
            Numeric::Finite(value) if scale >= 0 => value.unscaled.to_i128(),
            Numeric::Finite(value) => {
                let unit = int::power(scale.unsigned_abs().into());
                value.unscaled.div_rem(&unit).0.to_i128()
            }
            _ => None,
        }
    }
}
