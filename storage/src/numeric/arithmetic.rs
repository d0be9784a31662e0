//! Sums, differences and products: exact, with the display scale that PostgreSQL gives them.

use super::{Finite, Int, Numeric, Result, SCALE_MAX, small};

impl Numeric {
    pub fn neg(&self) -> Numeric {
        match self {
            Numeric::NegInfinity => Numeric::Infinity,
            Numeric::Infinity => Numeric::NegInfinity,
            Numeric::NaN => Numeric::NaN,
            Numeric::Finite(value) => Finite::new(value.unscaled.neg(), value.scale).into(),
        }
    }

    pub fn abs(&self) -> Numeric {
        match self {
            Numeric::NegInfinity => Numeric::Infinity,
            Numeric::Finite(value) => Finite::new(value.unscaled.abs(), value.scale).into(),
            other => other.clone(),
        }
    }

    pub fn add(&self, other: &Numeric) -> Result<Numeric> {
        use Numeric::*;
        Ok(match (self, other) {
            (Finite(a), Finite(b)) => match small::add(a, b) {
                Some(sum) => sum.into(),
                None => a.add(b).checked()?.into(),
            },
            (NaN, _) | (_, NaN) | (Infinity, NegInfinity) | (NegInfinity, Infinity) => NaN,
            (Infinity, _) | (_, Infinity) => Infinity,
            _ => NegInfinity,
        })
    }

    pub fn sub(&self, other: &Numeric) -> Result<Numeric> {
        if let (Numeric::Finite(a), Numeric::Finite(b)) = (self, other)
            && let Some(difference) = small::sub(a, b)
        {
            return Ok(difference.into());
        }
        self.add(&other.neg())
    }

    pub fn mul(&self, other: &Numeric) -> Result<Numeric> {
        if let (Numeric::Finite(a), Numeric::Finite(b)) = (self, other) {
            if let Some(product) = small::mul(a, b) {
                return Ok(product.into());
            }
            let product = Finite::new(a.unscaled.mul(&b.unscaled), a.scale + b.scale);
            let product = match product.scale > SCALE_MAX {
                true => product.rounded(SCALE_MAX as i32),
                false => product,
            };
            return Ok(product.checked()?.into());
        }
        if self.is_nan() || other.is_nan() {
            return Ok(Numeric::NaN);
        }
        Ok(match self.signum() * other.signum() {
            0 => Numeric::NaN,
            1 => Numeric::Infinity,
            _ => Numeric::NegInfinity,
        })
    }
}

impl Finite {
    pub fn add(&self, other: &Finite) -> Finite {
        let scale = self.scale.max(other.scale);
        Finite::new(self.raised(scale).add(&other.raised(scale)), scale)
    }

    pub fn sub(&self, other: &Finite) -> Finite {
        let scale = self.scale.max(other.scale);
        Finite::new(self.raised(scale).sub(&other.raised(scale)), scale)
    }

    pub fn mul(&self, other: &Finite) -> Finite {
        Finite::new(self.unscaled.mul(&other.unscaled), self.scale + other.scale)
    }

    pub fn of_int(value: i128) -> Finite {
        Finite::new(Int::Small(value), 0)
    }
}
