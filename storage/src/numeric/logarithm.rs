//! `exp`, `ln`, `log` and powers that are no whole ones: by series over integers that stand for fractions of 10^digits.

use super::functions::display;
use super::{DISPLAY_SCALE_MAX, Finite, Int, Numeric, NumericError, Result, SIGNIFICANT_MIN, int};
use num_bigint::{BigInt, Sign};

/// Digits beyond those wanted.
const GUARD: u32 = 15;
#[allow(
    clippy::approx_constant,
    reason = "PostgreSQL's own digits, which decide a result's scale"
)]
const LOG10_E: f64 = 0.434_294_481_903_252;
const LN_10: f64 = std::f64::consts::LN_10;

impl Numeric {
    pub fn exp(&self) -> Result<Numeric> {
        let value = match self {
            Numeric::NegInfinity => return Ok(Numeric::from(0)),
            Numeric::Finite(value) => value,
            other => return Ok(other.clone()),
        };
        let weight = (self.to_f64() * LOG10_E).clamp(-2000.0, 2000.0);
        let scale = display(SIGNIFICANT_MIN - weight as i32, &[value]);
        Ok(exp(value, scale as u32)?.checked()?.into())
    }

    pub fn ln(&self) -> Result<Numeric> {
        let value = match self {
            Numeric::NegInfinity => return Err(NumericError::LogarithmOfNegative),
            Numeric::Finite(value) => positive(value)?,
            other => return Ok(other.clone()),
        };
        let scale = display(SIGNIFICANT_MIN - ln_weight(value), &[value]);
        Ok(ln(value, scale as u32).into())
    }

    /// The logarithm of `self` to a base.
    pub fn log(&self, base: &Numeric) -> Result<Numeric> {
        if self.is_nan() || base.is_nan() {
            return Ok(Numeric::NaN);
        }
        for value in [base, self] {
            match value.signum() {
                0 => return Err(NumericError::LogarithmOfZero),
                -1 => return Err(NumericError::LogarithmOfNegative),
                _ => {}
            }
        }
        let (base, value) = match (base, self) {
            (Numeric::Finite(base), Numeric::Finite(value)) => (base, value),
            (Numeric::Infinity, Numeric::Infinity) => return Ok(Numeric::NaN),
            (Numeric::Infinity, _) => return Ok(Numeric::from(0)),
            _ => return Ok(Numeric::Infinity),
        };
        let (base_weight, value_weight) = (ln_weight(base), ln_weight(value));
        let weight = value_weight - base_weight;
        let scale = display(SIGNIFICANT_MIN - weight, &[base, value]);
        let digits = |own: i32| (scale + weight - own + 8).max(0) as u32 + GUARD;
        let over = ln(value, digits(value_weight));
        let under = ln(base, digits(base_weight));
        if under.unscaled.is_zero() {
            return Err(NumericError::DivisionByZero);
        }
        Ok(over.div_to(&under, scale as u32).into())
    }
}

fn positive(value: &Finite) -> Result<&Finite> {
    match Numeric::from(value.clone()).signum() {
        0 => Err(NumericError::LogarithmOfZero),
        -1 => Err(NumericError::LogarithmOfNegative),
        _ => Ok(value),
    }
}

/// PostgreSQL's estimate of the decimal weight of the logarithm.
fn ln_weight(value: &Finite) -> i32 {
    let float = Numeric::from(value.clone()).to_f64();
    let near = |tenths: i128| value.cmp(&Finite::new(Int::Small(tenths), 1));
    if near(9).is_ge() && near(11).is_le() {
        let x = value.sub(&Finite::of_int(1));
        if x.unscaled.is_zero() {
            return 0;
        }
        let (weight, digit) = x.leading();
        return weight * 4 + f64::from(digit).log10() as i32;
    }
    let log = if float.is_finite() && float > 1e-300 {
        float.ln()
    } else {
        let digits = value.unscaled.digits();
        let head: f64 = digits[..digits.len().min(8)].parse().unwrap_or(1.0);
        head.ln() + (digits.len() as f64 - digits.len().min(8) as f64 - f64::from(value.scale)) * LN_10
    };
    log.abs().log10() as i32
}

/// `value` times 10^`digits`, cut.
fn fixed(value: &Finite, digits: u32) -> BigInt {
    match digits >= value.scale {
        true => value.unscaled.big() * int::big_power(digits - value.scale),
        false => value.unscaled.big() / int::big_power(value.scale - digits),
    }
}

/// The natural logarithm of a positive number, rounded to `scale` digits after the point.
pub(super) fn ln(value: &Finite, scale: u32) -> Finite {
    // m * 10^e with m between 0.1 and 1, then near 1.
    let count = value.unscaled.digit_count() as i64;
    let exponent = count - i64::from(value.scale);
    let near_one = (0..=1).contains(&exponent);
    let exponent = if near_one { 0 } else { exponent };
    let digits = scale + GUARD + (exponent.unsigned_abs().max(1).ilog10() + 1);
    let one = int::big_power(digits);
    let mantissa = if exponent >= 0 {
        fixed(
            &Finite::new(value.unscaled.clone(), value.scale + exponent as u32),
            digits,
        )
    } else {
        fixed(value, digits + exponent.unsigned_abs() as u32)
    };
    let mut result = ln_series(mantissa, &one);
    if exponent != 0 {
        let ten = ln_series(&one * 10, &one);
        result += ten * exponent;
    }
    Finite::new(Int::from(result), digits).rounded(scale as i32)
}

/// ln of `x`/`one`, times `one`: roots until the number is near 1, then 2 atanh((x - 1) / (x + 1)).
fn ln_series(x: BigInt, one: &BigInt) -> BigInt {
    let (low, high) = (one * 9 / 10, one * 11 / 10);
    // Each root loses less than a digit's worth of what the guard has.
    let (mut x, mut doublings) = (x, 0_u32);
    while x < low || x > high {
        x = (x * one).sqrt();
        doublings += 1;
    }
    let z = (&x - one) * one / (&x + one);
    let square = &z * &z / one;
    let (mut sum, mut term, mut n) = (z.clone(), z, 1_u32);
    loop {
        term = term * &square / one;
        n += 2;
        let part = &term / n;
        if part.sign() == Sign::NoSign {
            break;
        }
        sum += part;
    }
    sum << (doublings + 1)
}

/// e^value rounded to `scale` digits after the point.
pub(super) fn exp(value: &Finite, scale: u32) -> Result<Finite> {
    let float = Numeric::from(value.clone()).to_f64();
    // PostgreSQL's bounds: three times the digits that a result has.
    if float.abs() >= 6000.0 {
        return match float > 0.0 {
            true => Err(NumericError::Overflow),
            false => Ok(Finite::new(int::ZERO, scale)),
        };
    }
    let weight = (float.abs() * LOG10_E) as u32 + 1;
    let halvings = (float.abs().max(1e-3) * 100.0).log2().ceil().max(0.0) as u32;
    let digits = scale + 2 * weight + GUARD + halvings;
    let one = int::big_power(digits);
    let magnitude = Finite::new(value.unscaled.abs(), value.scale);
    let x = fixed(&magnitude, digits) >> halvings;
    let (mut sum, mut term, mut n) = (one.clone(), one.clone(), 0_u32);
    loop {
        n += 1;
        term = term * &x / (&one * n);
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    if value.unscaled.is_negative() {
        sum = &one * &one / sum;
    }
    Ok(Finite::new(Int::from(sum), digits).rounded(scale as i32))
}

/// base^exponent of a positive base.
pub(super) fn power(base: &Finite, exponent: &Finite) -> Result<Finite> {
    let ln_weight = ln_weight(base);
    let rough_scale = (8 - ln_weight).max(0);
    let rough = ln(base, rough_scale as u32).mul(exponent).rounded(rough_scale);
    let estimate = Numeric::from(rough).to_f64();
    if estimate.abs() > 2000.0 * 3.01 {
        return match estimate > 0.0 {
            true => Err(NumericError::Overflow),
            false => Ok(Finite::new(int::ZERO, DISPLAY_SCALE_MAX as u32)),
        };
    }
    let weight = (estimate * LOG10_E) as i32;
    let scale = display(SIGNIFICANT_MIN - weight, &[base, exponent]);
    let significant = (scale + weight).max(0) as u32;
    let whole = exponent.unscaled.digit_count().saturating_sub(exponent.scale as usize) as u32;
    let digits = (significant as i32 - ln_weight + 8).max(0) as u32 + whole + GUARD;
    let product = ln(base, digits).mul(exponent).rounded((significant + GUARD) as i32);
    exp(&product, scale as u32)
}
