//! The transition functions of some aggregates, which a statement can call as well.

use super::simple::function;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use datafusion::arrow::compute::kernels::boolean::{and, or};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::Arc;

/// Sums of x and y, of their squares and of their products, each from the mean (Youngs and Cramer).
#[derive(Clone, Copy)]
struct Sums {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    fn of(values: &[f64]) -> Sums {
        let at = |at: usize| values.get(at).copied().unwrap_or(0.0);
        Sums {
            count: at(0),
            x: at(1),
            xx: at(2),
            y: at(3),
            yy: at(4),
            xy: at(5),
        }
    }

    fn to_values(self, width: usize) -> Vec<Option<f64>> {
        let all = [self.count, self.x, self.xx, self.y, self.yy, self.xy];
        all[..width].iter().copied().map(Some).collect()
    }

    fn with(self, x: f64, y: f64) -> Sums {
        let mut new = Sums {
            count: self.count + 1.0,
            x: self.x + x,
            y: self.y + y,
            ..self
        };
        if self.count > 0.0 {
            let (of_x, of_y) = (x * new.count - new.x, y * new.count - new.y);
            let scale = 1.0 / (new.count * self.count);
            new.xx += of_x * of_x * scale;
            new.yy += of_y * of_y * scale;
            new.xy += of_x * of_y * scale;
        }
        new
    }

    fn and(self, other: Sums) -> Sums {
        if self.count == 0.0 {
            return other;
        }
        if other.count == 0.0 {
            return self;
        }
        let count = self.count + other.count;
        let (of_x, of_y) = (
            self.x / self.count - other.x / other.count,
            self.y / self.count - other.y / other.count,
        );
        let scale = self.count * other.count / count;
        Sums {
            count,
            x: self.x + other.x,
            xx: self.xx + other.xx + scale * of_x * of_x,
            y: self.y + other.y,
            yy: self.yy + other.yy + scale * of_y * of_y,
            xy: self.xy + other.xy + scale * of_x * of_y,
        }
    }

    /// Values that are finite give finite sums.
    fn checked(self, finite: bool) -> Result<Sums> {
        let sums = [self.x, self.xx, self.y, self.yy, self.xy];
        if finite && sums.iter().any(|sum| sum.is_infinite()) {
            let message = "value out of range: overflow";
            return Err(to_datafusion(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, message)));
        }
        Ok(self)
    }
}

/// A row's sums; None for NULL.
fn sums(lists: &ListArray, row: usize, width: usize, name: &str) -> Result<Option<Vec<f64>>> {
    if lists.is_null(row) {
        return Ok(None);
    }
    let values = lists.value(row);
    let values = values.as_primitive::<Float64Type>();
    if values.len() != width || values.null_count() > 0 {
        let message = format!("{name}: expected {width}-element float8 array");
        return Err(to_datafusion(SqlError::internal(message)));
    }
    Ok(Some(values.values().to_vec()))
}

fn collect(rows: usize, of: impl Fn(usize) -> Result<Option<Vec<Option<f64>>>>) -> Result<ArrayRef> {
    let rows = (0..rows).map(of).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows)))
}

fn accumulated(args: &[ArrayRef], rows: usize, width: usize, name: &str) -> Result<ArrayRef> {
    let lists = args[0].as_list::<i32>();
    let numbers: Vec<_> = args[1..]
        .iter()
        .map(|array| array.as_primitive::<Float64Type>())
        .collect();
    collect(rows, |row| {
        let Some(values) = sums(lists, row, width, name)? else {
            return Ok(None);
        };
        if numbers.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        // Of two, the first is y.
        let (y, x) = match numbers.as_slice() {
            [x] => (0.0, x.value(row)),
            [y, x, ..] => (y.value(row), x.value(row)),
            [] => return Ok(None),
        };
        let before = Sums::of(&values);
        let finite = values.iter().chain([&x, &y]).all(|value| value.is_finite());
        Ok(Some(before.with(x, y).checked(finite)?.to_values(width)))
    })
}

fn combined(args: &[ArrayRef], rows: usize, width: usize, name: &str) -> Result<ArrayRef> {
    let (left, right) = (args[0].as_list::<i32>(), args[1].as_list::<i32>());
    collect(rows, |row| {
        let (Some(a), Some(b)) = (sums(left, row, width, name)?, sums(right, row, width, name)?) else {
            return Ok(None);
        };
        let finite = a.iter().chain(&b).all(|value| value.is_finite());
        let both = Sums::of(&a).and(Sums::of(&b)).checked(finite)?;
        Ok(Some(both.to_values(width)))
    })
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let list = || DataType::new_list(DataType::Float64, true);
    let exact = |types: Vec<DataType>| Signature::exact(types, Volatility::Immutable);
    let float = || DataType::Float64;
    let booleans = || exact(vec![DataType::Boolean; 2]);
    vec![
        function("float8_accum", exact(vec![list(), float()]), list(), |args, rows| {
            accumulated(args, rows, 3, "float8_accum")
        }),
        function(
            "float8_regr_accum",
            exact(vec![list(), float(), float()]),
            list(),
            |args, rows| accumulated(args, rows, 6, "float8_regr_accum"),
        ),
        function("float8_combine", exact(vec![list(); 2]), list(), |args, rows| {
            combined(args, rows, 3, "float8_combine")
        }),
        function("float8_regr_combine", exact(vec![list(); 2]), list(), |args, rows| {
            combined(args, rows, 6, "float8_regr_combine")
        }),
        function("booland_statefunc", booleans(), DataType::Boolean, |args, _| {
            Ok(Arc::new(and(args[0].as_boolean(), args[1].as_boolean())?))
        }),
        function("boolor_statefunc", booleans(), DataType::Boolean, |args, _| {
            Ok(Arc::new(or(args[0].as_boolean(), args[1].as_boolean())?))
        }),
    ]
}
