//! Sums of floats: how many there are, their sum, and the sum of squared distances from their mean, kept up to date as
//! Youngs and Cramer do it (float8_accum, float8_regr_accum and float8_combine in PostgreSQL).

use super::{Moment, fail_out_of_range};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::Result;
use std::sync::Arc;

/// Columns of a partial result.
pub(super) const STATES: usize = 6;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    n: f64,
    sx: f64,
    sxx: f64,
    sy: f64,
    syy: f64,
    sxy: f64,
}

impl Sums {
    fn add_one(&mut self, x: f64) -> Result<()> {
        let before = *self;
        self.n += 1.0;
        self.sx += x;
        if before.n > 0.0 {
            let distance = x * self.n - self.sx;
            self.sxx += distance * distance / (self.n * before.n);
            if self.sx.is_infinite() || self.sxx.is_infinite() {
                if before.sx.is_finite() && x.is_finite() {
                    return Err(fail_out_of_range("value out of range: overflow"));
                }
                self.sxx = f64::NAN;
            }
        } else if !x.is_finite() {
            self.sxx = f64::NAN;
        }
        Ok(())
    }

    fn add_pair(&mut self, y: f64, x: f64) -> Result<()> {
        let before = *self;
        self.n += 1.0;
        self.sx += x;
        self.sy += y;
        if before.n > 0.0 {
            let (in_x, in_y) = (x * self.n - self.sx, y * self.n - self.sy);
            let scale = 1.0 / (self.n * before.n);
            self.sxx += in_x * in_x * scale;
            self.syy += in_y * in_y * scale;
            self.sxy += in_x * in_y * scale;
            let all = [self.sx, self.sxx, self.sy, self.syy, self.sxy];
            if all.iter().any(|sum| sum.is_infinite()) {
                let overflows =
                    |sum: f64, before: f64, own: f64| sum.is_infinite() && before.is_finite() && own.is_finite();
                if overflows(self.sx, before.sx, x)
                    || overflows(self.sxx, before.sx, x)
                    || overflows(self.sy, before.sy, y)
                    || overflows(self.syy, before.sy, y)
                    || self.sxy.is_infinite() && [before.sx, x, before.sy, y].iter().all(|sum| sum.is_finite())
                {
                    return Err(fail_out_of_range("value out of range: overflow"));
                }
                for sum in [&mut self.sxx, &mut self.syy, &mut self.sxy] {
                    if sum.is_infinite() {
                        *sum = f64::NAN;
                    }
                }
            }
        } else {
            if !x.is_finite() {
                (self.sxx, self.sxy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.syy, self.sxy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(())
    }

    fn combine(&mut self, other: &Sums) {
        if self.n == 0.0 {
            *self = *other;
            return;
        }
        if other.n == 0.0 {
            return;
        }
        let n = self.n + other.n;
        let in_x = self.sx / self.n - other.sx / other.n;
        let in_y = self.sy / self.n - other.sy / other.n;
        let between = self.n * other.n;
        self.sxx = self.sxx + other.sxx + between * in_x * in_x / n;
        self.syy = self.syy + other.syy + between * in_y * in_y / n;
        self.sxy = self.sxy + other.sxy + between * in_x * in_y / n;
        (self.sx, self.sy, self.n) = (self.sx + other.sx, self.sy + other.sy, n);
    }

    fn result(&self, moment: Moment) -> Option<f64> {
        let Sums {
            n,
            sx,
            sxx,
            sy,
            syy,
            sxy,
        } = *self;
        let of_sample = (n > 1.0).then_some(n - 1.0);
        if n == 0.0 {
            return None;
        }
        match moment {
            Moment::VarPop => Some(sxx / n),
            Moment::VarSamp => of_sample.map(|n| sxx / n),
            Moment::StddevPop => Some((sxx / n).sqrt()),
            Moment::StddevSamp => of_sample.map(|n| (sxx / n).sqrt()),
            Moment::CovarPop => Some(sxy / n),
            Moment::CovarSamp => of_sample.map(|n| sxy / n),
            Moment::Corr => (sxx != 0.0 && syy != 0.0).then(|| sxy / (sxx * syy).sqrt()),
            Moment::Count => Some(n),
            Moment::AvgX => Some(sx / n),
            Moment::AvgY => Some(sy / n),
            Moment::Sxx => Some(sxx),
            Moment::Syy => Some(syy),
            Moment::Sxy => Some(sxy),
            Moment::R2 if sxx == 0.0 => None,
            Moment::R2 if syy == 0.0 => Some(1.0),
            Moment::R2 => Some((sxy * sxy) / (sxx * syy)),
            Moment::Slope => (sxx != 0.0).then(|| sxy / sxx),
            Moment::Intercept => (sxx != 0.0).then(|| (sy - sx * sxy / sxx) / n),
        }
    }
}

pub(super) fn add(sums: &mut [Sums], values: &[ArrayRef], group: impl Fn(usize) -> Option<usize>) -> Result<()> {
    let first = values[0].as_primitive::<Float64Type>();
    let second = values.get(1).map(|values| values.as_primitive::<Float64Type>());
    for row in 0..first.len() {
        if first.is_null(row) || second.is_some_and(|second| second.is_null(row)) {
            continue;
        }
        let Some(group) = group(row) else { continue };
        match second {
            Some(second) => sums[group].add_pair(first.value(row), second.value(row))?,
            None => sums[group].add_one(first.value(row))?,
        }
    }
    Ok(())
}

pub(super) fn state(sums: &[Sums]) -> Vec<ArrayRef> {
    let column = |of: fn(&Sums) -> f64| -> ArrayRef { Arc::new(Float64Array::from_iter_values(sums.iter().map(of))) };
    vec![
        column(|sums| sums.n),
        column(|sums| sums.sx),
        column(|sums| sums.sxx),
        column(|sums| sums.sy),
        column(|sums| sums.syy),
        column(|sums| sums.sxy),
    ]
}

pub(super) fn combine(sums: &mut [Sums], states: &[ArrayRef], group: impl Fn(usize) -> usize) -> Result<()> {
    let columns: Vec<&Float64Array> = states.iter().map(|state| state.as_primitive::<Float64Type>()).collect();
    for row in 0..columns[0].len() {
        let value = |at: usize| columns[at].value(row);
        sums[group(row)].combine(&Sums {
            n: value(0),
            sx: value(1),
            sxx: value(2),
            sy: value(3),
            syy: value(4),
            sxy: value(5),
        });
    }
    Ok(())
}

pub(super) fn results(sums: &[Sums], moment: Moment) -> ArrayRef {
    if moment == Moment::Count {
        return Arc::new(Int64Array::from_iter_values(sums.iter().map(|sums| sums.n as i64)));
    }
    Arc::new(sums.iter().map(|sums| sums.result(moment)).collect::<Float64Array>())
}
