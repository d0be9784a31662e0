//! Quotients with the digits that PostgreSQL gives them, and what is left of whole ones.

use super::{DISPLAY_SCALE_MAX, Finite, Numeric, NumericError, Result, SIGNIFICANT_MIN, small};

/// PostgreSQL's `select_div_scale`: at least 16 significant digits, and those of both operands.
fn quotient_scale(a: &Finite, b: &Finite) -> u32 {
    let ((weight, first), (other_weight, other_first)) = (a.leading(), b.leading());
    let weight = weight - other_weight - i32::from(first <= other_first);
    let scale = (SIGNIFICANT_MIN - 4 * weight).max(a.scale as i32).max(b.scale as i32);
    scale.clamp(0, DISPLAY_SCALE_MAX) as u32
}

impl Finite {
    /// The quotient with PostgreSQL's digits. `by` is not zero.
    pub(super) fn quotient(&self, by: &Finite) -> Finite {
        self.div_to(by, quotient_scale(self, by))
    }

    /// The quotient rounded to `scale` digits after the point. `by` is not zero.
    pub(super) fn div_to(&self, by: &Finite, scale: u32) -> Finite {
        let raise = i64::from(by.scale) + i64::from(scale) - i64::from(self.scale);
        let quotient = if raise >= 0 {
            self.unscaled.shifted(raise as u32).div_round(&by.unscaled)
        } else {
            self.unscaled
                .div_round(&by.unscaled.shifted(raise.unsigned_abs() as u32))
        };
        Finite::new(quotient, scale)
    }

    /// Whole quotient, and the rest with the sign of `self`. `by` is not zero.
    fn div_rem(&self, by: &Finite) -> (Finite, Finite) {
        let scale = self.scale.max(by.scale);
        let (quotient, rest) = self.raised(scale).div_rem(&by.raised(scale));
        (Finite::new(quotient, 0), Finite::new(rest, scale))
    }
}

impl Numeric {
    pub fn div(&self, by: &Numeric) -> Result<Numeric> {
        match (self, by) {
            (Numeric::Finite(_), Numeric::Finite(zero)) if zero.unscaled.is_zero() => Err(NumericError::DivisionByZero),
            (Numeric::Finite(a), Numeric::Finite(b)) => match small::div(a, b) {
                Some(quotient) => Ok(quotient.into()),
                None => Ok(a.quotient(b).checked()?.into()),
            },
            _ => self.div_special(by),
        }
    }

    /// `div(a, b)`: cut to a whole number.
    pub fn div_trunc(&self, by: &Numeric) -> Result<Numeric> {
        match (self, by) {
            (Numeric::Finite(_), Numeric::Finite(zero)) if zero.unscaled.is_zero() => Err(NumericError::DivisionByZero),
            (Numeric::Finite(a), Numeric::Finite(b)) => Ok(a.div_rem(b).0.into()),
            _ => self.div_special(by),
        }
    }

    fn div_special(&self, by: &Numeric) -> Result<Numeric> {
        use Numeric::*;
        Ok(match (self, by) {
            (NaN, _) | (_, NaN) => NaN,
            (Infinity | NegInfinity, Infinity | NegInfinity) => NaN,
            (Infinity | NegInfinity, by) => match by.signum() {
                0 => return Err(NumericError::DivisionByZero),
                1 => self.clone(),
                _ => self.neg(),
            },
            _ => Numeric::from(0),
        })
    }

    pub fn rem(&self, by: &Numeric) -> Result<Numeric> {
        use Numeric::*;
        Ok(match (self, by) {
            (NaN, _) | (_, NaN) => NaN,
            (_, Finite(zero)) if zero.unscaled.is_zero() => return Err(NumericError::DivisionByZero),
            (Finite(a), Finite(b)) => a.div_rem(b).1.into(),
            (Infinity | NegInfinity, _) => NaN,
            _ => self.clone(),
        })
    }
}
