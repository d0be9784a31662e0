//! Rounding, roots, powers and the like.

use super::{
    DISPLAY_SCALE_MAX, Finite, Int, Numeric, NumericError, Result, SCALE_MAX, SIGNIFICANT_MIN, WHOLE_DIGITS_MAX, int,
    logarithm, small,
};
use std::cmp::Ordering;

/// Places beyond which `round` and `trunc` change nothing, or leave nothing.
const PLACES_MIN: i64 = -(WHOLE_DIGITS_MAX as i64) - 1;
const PLACES_MAX: i64 = SCALE_MAX as i64;

/// A scale as functions choose theirs: not less than an operand's, within what is shown by itself.
pub(super) fn display(scale: i32, operands: &[&Finite]) -> i32 {
    let own = operands.iter().map(|operand| operand.scale as i32).max().unwrap_or(0);
    scale.max(own).clamp(0, DISPLAY_SCALE_MAX)
}

impl Numeric {
    fn map(&self, of: impl Fn(&Finite) -> Finite) -> Numeric {
        match self {
            Numeric::Finite(value) => of(value).into(),
            other => other.clone(),
        }
    }

    pub fn round(&self, places: i64) -> Result<Numeric> {
        match self {
            Numeric::Finite(value) => Ok(value
                .rounded(places.clamp(PLACES_MIN, PLACES_MAX) as i32)
                .checked()?
                .into()),
            other => Ok(other.clone()),
        }
    }

    pub fn trunc(&self, places: i64) -> Numeric {
        self.map(|value| value.truncated(places.clamp(PLACES_MIN, PLACES_MAX) as i32))
    }

    pub fn floor(&self) -> Numeric {
        self.map(|value| {
            let (whole, rest) = value.unscaled.div_rem(&int::power(value.scale));
            Finite::new(
                if rest.is_negative() {
                    whole.sub(&int::ONE)
                } else {
                    whole
                },
                0,
            )
        })
    }

    pub fn ceil(&self) -> Numeric {
        self.neg().floor().neg()
    }

    pub fn sign(&self) -> Numeric {
        match self {
            Numeric::NaN => Numeric::NaN,
            other => Numeric::from(i64::from(other.signum())),
        }
    }

    /// None for NaN and infinities.
    pub fn scale(&self) -> Option<u32> {
        match self {
            Numeric::Finite(value) => Some(value.scale),
            _ => None,
        }
    }

    pub fn min_scale(&self) -> Option<u32> {
        match self {
            Numeric::Finite(value) => Some(value.min_scale()),
            _ => None,
        }
    }

    pub fn trim_scale(&self) -> Numeric {
        self.map(|value| value.rounded(value.min_scale() as i32))
    }

    pub fn sqrt(&self) -> Result<Numeric> {
        match self {
            Numeric::NegInfinity => Err(NumericError::NegativeRoot),
            Numeric::Finite(value) if value.unscaled.is_negative() => Err(NumericError::NegativeRoot),
            Numeric::Finite(value) => Ok(value.sqrt().into()),
            other => Ok(other.clone()),
        }
    }

    /// The root with as many digits after the point as the value has.
    pub fn sqrt_at_own_scale(&self) -> Result<Numeric> {
        match self {
            Numeric::Finite(value) if !value.unscaled.is_negative() => Ok(value.sqrt_fast(value.scale as i32).into()),
            other => other.sqrt(),
        }
    }

    pub fn gcd(&self, other: &Numeric) -> Numeric {
        let (Numeric::Finite(a), Numeric::Finite(b)) = (self, other) else {
            return Numeric::NaN;
        };
        let scale = a.scale.max(b.scale);
        Finite::new(gcd(a.raised(scale), b.raised(scale)), scale).into()
    }

    pub fn lcm(&self, other: &Numeric) -> Result<Numeric> {
        let (Numeric::Finite(a), Numeric::Finite(b)) = (self, other) else {
            return Ok(Numeric::NaN);
        };
        let scale = a.scale.max(b.scale);
        let (a, b) = (a.raised(scale), b.raised(scale));
        let unscaled = match a.is_zero() || b.is_zero() {
            true => int::ZERO,
            false => a.div_rem(&gcd(a.clone(), b.clone())).0.mul(&b).abs(),
        };
        Ok(Finite::new(unscaled, scale).checked()?.into())
    }

    pub fn factorial(n: i64) -> Result<Numeric> {
        // PostgreSQL's own bound: the next one has too many digits.
        if n > 32_177 {
            return Err(NumericError::Overflow);
        }
        let mut product = int::ONE;
        for factor in 2..=n {
            product = product.mul(&Int::Small(factor.into()));
        }
        Ok(Finite::new(product, 0).into())
    }

    pub fn power(&self, exponent: &Numeric) -> Result<Numeric> {
        match (self, exponent) {
            (Numeric::Finite(base), Numeric::Finite(exponent)) => {
                if base.unscaled.is_zero() && exponent.unscaled.is_negative() {
                    return Err(NumericError::ZeroToNegative);
                }
                if base.unscaled.is_negative() && !exponent.is_integer() {
                    return Err(NumericError::NegativeToFraction);
                }
                Ok(power(base, exponent)?.checked()?.into())
            }
            _ => power_special(self, exponent),
        }
    }
}

fn gcd(a: Int, b: Int) -> Int {
    let (mut a, mut b) = (a.abs(), b.abs());
    while !b.is_zero() {
        let rest = a.div_rem(&b).1;
        a = b;
        b = rest;
    }
    a
}

impl Finite {
    fn sqrt(&self) -> Finite {
        let weight = self.leading().0;
        self.sqrt_fast(display(SIGNIFICANT_MIN - ((weight + 1) * 2 - 1), &[self]))
    }

    pub(super) fn sqrt_to(&self, scale: i32) -> Finite {
        // One digit more, and the rest decides nothing: a root with a 5 at the end is exact in it.
        let wanted = scale as u32 + 1;
        let raise = 2 * i64::from(wanted) - i64::from(self.scale);
        let shifted = match raise >= 0 {
            true => self.unscaled.shifted(raise as u32),
            false => self.unscaled.div_rem(&int::power(raise.unsigned_abs() as u32)).0,
        };
        let root: Int = shifted.big().sqrt().into();
        Finite::new(root, wanted).rounded(scale)
    }

    /// As `sqrt_to`, in as few bits as it takes.
    pub(super) fn sqrt_fast(&self, scale: i32) -> Finite {
        let wanted = scale as u32 + 1;
        let raise = 2 * i64::from(wanted) - i64::from(self.scale);
        if let (Int::Small(unscaled), Ok(raise)) = (&self.unscaled, u32::try_from(raise))
            && let Some(root) = small::root(*unscaled, raise)
        {
            return Finite::new(Int::Small(root), wanted).rounded(scale);
        }
        self.sqrt_to(scale)
    }

    fn is_one(&self) -> bool {
        self.cmp(&Finite::of_int(1)) == Ordering::Equal
    }
}

/// By POSIX, as PostgreSQL has it.
fn power_special(base: &Numeric, exponent: &Numeric) -> Result<Numeric> {
    use Numeric::*;
    let one = || Numeric::from(1);
    let is_one = matches!(base, Finite(base) if base.is_one());
    if base.is_nan() || exponent.is_nan() {
        return Ok(if exponent.is_zero() || is_one { one() } else { NaN });
    }
    let (sign, exponent_sign) = (base.signum(), exponent.signum());
    let (whole, odd) = match exponent {
        Finite(exponent) => (exponent.is_integer(), exponent.truncated(0).unscaled.is_odd()),
        _ => (true, false),
    };
    if sign == 0 && exponent_sign < 0 {
        return Err(NumericError::ZeroToNegative);
    }
    if sign < 0 && !whole {
        return Err(NumericError::NegativeToFraction);
    }
    if is_one || exponent_sign == 0 {
        return Ok(one());
    }
    let size = match exponent {
        Infinity | NegInfinity => base.abs().cmp(&one()),
        _ => Ordering::Greater,
    };
    Ok(match (size, exponent_sign > 0) {
        (Ordering::Equal, _) => one(),
        (Ordering::Greater, true) if sign < 0 && odd => NegInfinity,
        (Ordering::Greater, true) | (Ordering::Less, false) => Infinity,
        _ => Numeric::from(0),
    })
}

fn power(base: &Finite, exponent: &Finite) -> Result<Finite> {
    if exponent.is_integer()
        && let Some(whole) = exponent.truncated(0).unscaled.to_i128()
        && let Ok(whole) = i32::try_from(whole)
    {
        let scale = display(SIGNIFICANT_MIN, &[base]);
        return whole_power(base, whole, scale as u32);
    }
    if base.unscaled.is_zero() {
        return Ok(Finite::new(int::ZERO, SIGNIFICANT_MIN as u32));
    }
    let magnitude = Finite::new(base.unscaled.abs(), base.scale);
    let odd = exponent.truncated(0).unscaled.is_odd();
    let result = logarithm::power(&magnitude, exponent)?;
    Ok(match base.unscaled.is_negative() && odd {
        true => Finite::new(result.unscaled.neg(), result.scale),
        false => result,
    })
}

/// By repeated squaring, with as many digits as the result needs.
fn whole_power(base: &Finite, exponent: i32, scale: u32) -> Result<Finite> {
    match exponent {
        0 => return Ok(Finite::new(int::ONE, 0).rounded(scale as i32)),
        1 => return Ok(base.rounded(scale as i32)),
        -1 if base.unscaled.is_zero() => return Err(NumericError::DivisionByZero),
        -1 => return Ok(Finite::of_int(1).div_to(base, scale)),
        2 => return Ok(base.mul(base).rounded(scale as i32)),
        _ => {}
    }
    if base.unscaled.is_zero() {
        return match exponent < 0 {
            true => Err(NumericError::DivisionByZero),
            false => Ok(Finite::new(int::ZERO, scale)),
        };
    }
    // The decimal weight of the result.
    let digits = base.unscaled.digits();
    let head: f64 = digits[..digits.len().min(17)].parse().unwrap_or(1.0);
    let log = head.log10() + digits.len() as f64 - digits.len().min(17) as f64 - f64::from(base.scale);
    let weight = f64::from(exponent) * log;
    if weight > 3.0 * 32_767.0 * 4.0 {
        return Err(NumericError::Overflow);
    }
    if weight + 1.0 < -f64::from(scale) || weight + 1.0 < -f64::from(DISPLAY_SCALE_MAX) {
        return Ok(Finite::new(int::ZERO, scale));
    }
    let significant = (1 + scale as i64 + weight as i64).max(1) as usize + 20;
    let mut square = Float::new(base, significant);
    let mut result = Float::new(&Finite::of_int(1), significant);
    let mut left = exponent.unsigned_abs();
    loop {
        if left & 1 == 1 {
            result = result.times(&square, significant);
        }
        left >>= 1;
        if left == 0 {
            break;
        }
        square = square.times(&square, significant);
    }
    Ok(match exponent < 0 {
        true => result.inverse(scale),
        false => result.to_finite(scale),
    })
}

/// A number of limited digits: `unscaled` times 10^`exponent`.
struct Float {
    unscaled: Int,
    exponent: i64,
}

impl Float {
    fn new(value: &Finite, significant: usize) -> Float {
        Float {
            unscaled: value.unscaled.clone(),
            exponent: -i64::from(value.scale),
        }
        .cut(significant)
    }

    fn cut(self, significant: usize) -> Float {
        // Counting the digits of a large number takes longer than keeping some more of them.
        let count = self.unscaled.digit_count();
        if count <= significant + 8 {
            return self;
        }
        let dropped = (count - significant) as u32;
        Float {
            unscaled: self.unscaled.div_round(&int::power(dropped)),
            exponent: self.exponent + i64::from(dropped),
        }
    }

    fn times(&self, other: &Float, significant: usize) -> Float {
        Float {
            unscaled: self.unscaled.mul(&other.unscaled),
            exponent: self.exponent + other.exponent,
        }
        .cut(significant)
    }

    fn to_finite(&self, scale: u32) -> Finite {
        let whole = match self.exponent > 0 {
            true => Finite::new(self.unscaled.shifted(self.exponent as u32), 0),
            false => Finite::new(self.unscaled.clone(), self.exponent.unsigned_abs() as u32),
        };
        whole.rounded(scale as i32)
    }

    fn inverse(&self, scale: u32) -> Finite {
        let shift = i64::from(scale) - self.exponent;
        let unscaled = match shift >= 0 {
            true => int::power(shift as u32).div_round(&self.unscaled),
            false => int::ZERO,
        };
        Finite::new(unscaled, scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(text: &str) -> Numeric {
        Numeric::parse(text.as_bytes()).unwrap()
    }

    /// Results of PostgreSQL 15.
    #[test]
    fn digits_are_postgresqls() {
        let of = |result: Result<Numeric>| result.unwrap().to_string();
        let (a, b) = (numeric("10"), numeric("4.0"));
        assert_eq!(of(a.div(&b)), "2.5000000000000000");
        assert_eq!(of(numeric("1").div(&numeric("3"))), "0.33333333333333333333");
        assert_eq!(of(numeric("20001").div(&numeric("20000"))), "1.00005000000000000000");
        assert_eq!(of(numeric("2.0").sqrt()), "1.414213562373095");
        assert_eq!(of(numeric("1.0").exp()), "2.7182818284590452");
        assert_eq!(of(numeric("2.0").ln()), "0.6931471805599453");
        assert_eq!(of(numeric("8").log(&numeric("2"))), "3.0000000000000000");
        assert_eq!(of(numeric("2.5").power(&numeric("3"))), "15.6250000000000000");
        assert_eq!(of(numeric("2.0").power(&numeric("0.5"))), "1.4142135623730950");
        assert_eq!(of(numeric("1.10").mul(&numeric("2.205"))), "2.42550");
        assert_eq!(of(numeric("-12.5").round(0)), "-13");
        assert_eq!(numeric("-12.5").ceil().to_string(), "-12");
        assert_eq!(of(numeric("-7.5").rem(&numeric("2"))), "-1.5");
        assert_eq!(numeric("0").ln().unwrap_err(), NumericError::LogarithmOfZero);
        assert_eq!(
            numeric("-8").power(&numeric("0.5")).unwrap_err(),
            NumericError::NegativeToFraction
        );
        assert_eq!(
            numeric("1e131071").mul(&numeric("10")).unwrap_err(),
            NumericError::Overflow
        );
    }
}
