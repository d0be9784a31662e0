//! Sums of a column with a constant added: the column's sum, and the constant as often as there are values. Many such sums of
//! one column are one sum and one count.
//!
//! `x + c` fails where it leaves its type. Where the type of `x` leaves that open, each batch's smallest and largest value
//! tell whether it may; if so, the expression itself is evaluated, which fails as it would have.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Literal};
use datafusion::physical_plan::PhysicalExpr;

/// `base + offset`, of integers.
pub(super) struct Shifted {
    pub base: Arc<dyn PhysicalExpr>,
    pub offset: i128,
    /// None where no value of the base's type leaves the sum's.
    pub guard: Option<Guard>,
}

/// What fails outside of a range.
#[derive(Clone)]
pub struct Guard {
    range: RangeInclusive<i128>,
    expr: Arc<dyn PhysicalExpr>,
}

impl Guard {
    /// Fails where the expression does; `found` are the smallest and the largest value of its base.
    pub fn check(&self, found: (i64, i64), batch: &RecordBatch) -> Result<()> {
        if !self.range.contains(&found.0.into()) || !self.range.contains(&found.1.into()) {
            self.expr.evaluate(batch)?;
        }
        Ok(())
    }
}

impl Shifted {
    /// None: the argument is something else.
    pub fn of(arg: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Option<Self>> {
        let expr = unwidened(arg, input)?;
        let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() else {
            return Ok(None);
        };
        let (base, offset) = match (call.fun().name(), call.args()) {
            ("checked_add", [base, other]) => match (constant(other), constant(base)) {
                (Some(offset), None) => (base, offset),
                (None, Some(offset)) => (other, offset),
                _ => return Ok(None),
            },
            ("checked_subtract", [base, other]) => match (constant(other), constant(base)) {
                (Some(offset), None) => (base, -offset),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Some(whole) = values(&expr.data_type(input)?) else {
            return Ok(None);
        };
        let base = unwidened(base, input)?;
        let Some(own) = values(&base.data_type(input)?) else {
            return Ok(None);
        };
        let range = whole.start() - offset..=whole.end() - offset;
        let is_safe = range.contains(own.start()) && range.contains(own.end());
        let guard = (!is_safe).then(|| Guard {
            range,
            expr: Arc::clone(expr),
        });
        Ok(Some(Self {
            base: Arc::clone(base),
            offset,
            guard,
        }))
    }
}

/// What is made a wider integer.
fn unwidened<'e>(mut expr: &'e Arc<dyn PhysicalExpr>, input: &Schema) -> Result<&'e Arc<dyn PhysicalExpr>> {
    while let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let (Some(from), Some(to)) = (values(&cast.expr().data_type(input)?), values(cast.cast_type())) else {
            break;
        };
        if !to.contains(from.start()) || !to.contains(from.end()) {
            break;
        }
        expr = cast.expr();
    }
    Ok(expr)
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<i128> {
    let value = expr.downcast_ref::<Literal>()?.value();
    values(&value.data_type())?;
    match value.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(value) => value.map(i128::from),
        _ => None,
    }
}

/// The values of an integer type that is summed.
fn values(data_type: &DataType) -> Option<RangeInclusive<i128>> {
    Some(match data_type {
        DataType::Int16 => i16::MIN.into()..=i16::MAX.into(),
        DataType::Int32 => i32::MIN.into()..=i32::MAX.into(),
        DataType::Int64 => i64::MIN.into()..=i64::MAX.into(),
        _ => return None,
    })
}
