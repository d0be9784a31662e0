//! `min`, `max`, `sum` and `avg` of intervals.

use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};
use tenon_storage::datetime::{Span, arithmetic};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Min,
    Max,
    Sum,
    Average,
}

/// The function of that name over intervals.
pub(super) fn named(name: &str) -> Option<Arc<AggregateUDF>> {
    static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 4]> = LazyLock::new(|| {
        [Kind::Min, Kind::Max, Kind::Sum, Kind::Average].map(|kind| {
            Arc::new(AggregateUDF::new_from_impl(OfIntervals {
                kind,
                signature: Signature::exact(vec![INTERVAL], Volatility::Immutable),
            }))
        })
    });
    let kind = match name {
        "min" => Kind::Min,
        "max" => Kind::Max,
        "sum" => Kind::Sum,
        "avg" => Kind::Average,
        _ => return None,
    };
    Some(FUNCTIONS[kind as usize].clone())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfIntervals {
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for OfIntervals {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Min => "min",
            Kind::Max => "max",
            Kind::Sum => "sum",
            Kind::Average => "avg",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |part: &str, of| Arc::new(Field::new(format_state_name(args.name, part), of, true));
        Ok(vec![field("value", INTERVAL), field("count", DataType::Int64)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sum {
            kind: self.kind,
            seen: args.is_distinct.then(Vec::new),
            value: None,
            count: 0,
        }))
    }
}

/// The least, the greatest or the sum so far.
#[derive(Debug)]
struct Sum {
    kind: Kind,
    /// Lengths that have been counted, where each counts once.
    seen: Option<Vec<i128>>,
    value: Option<Span>,
    count: i64,
}

fn past() -> DataFusionError {
    to_datafusion(SqlError::new(state::DATETIME_FIELD_OVERFLOW, "interval out of range"))
}

impl Sum {
    fn take(&mut self, span: Span, count: i64) -> Result<()> {
        self.count += count;
        let Some(value) = self.value else {
            self.value = Some(span);
            return Ok(());
        };
        let order = span.compare(value);
        self.value = Some(match self.kind {
            // Of equal ones, the later.
            Kind::Min if order != Ordering::Greater => span,
            Kind::Max if order != Ordering::Less => span,
            Kind::Min | Kind::Max => value,
            Kind::Sum | Kind::Average => value.plus(span).ok_or_else(past)?,
        });
        Ok(())
    }

    fn scalar(span: Option<Span>) -> Result<ScalarValue> {
        let value = span.map(|span| span.to_arrow().ok_or_else(past)).transpose()?;
        Ok(ScalarValue::IntervalMonthDayNano(value))
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            let span = Span::from(value);
            if let Some(seen) = &mut self.seen {
                match seen.binary_search(&span.length_us()) {
                    Ok(_) => continue,
                    Err(at) => seen.insert(at, span.length_us()),
                }
            }
            self.take(span, 1)?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            let span = Span::from(value).negated().ok_or_else(past)?;
            self.count -= 1;
            self.value = match (self.value, self.count) {
                (_, 0) | (None, _) => None,
                (Some(value), _) => Some(value.plus(span).ok_or_else(past)?),
            };
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        matches!(self.kind, Kind::Sum | Kind::Average) && self.seen.is_none()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[1].as_primitive::<Int64Type>();
        let values = states[0].as_primitive::<IntervalMonthDayNanoType>();
        for row in 0..values.len() {
            if values.is_valid(row) {
                self.take(values.value(row).into(), counts.value(row))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![Sum::scalar(self.value)?, ScalarValue::Int64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match (self.kind, self.value) {
            (Kind::Average, Some(sum)) => {
                let mean = arithmetic::divide(sum, self.count as f64);
                Sum::scalar(Some(mean.map_err(|error| to_datafusion(error.into()))?))
            }
            (_, value) => Sum::scalar(value),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.seen.as_ref().map_or(0, |seen| seen.capacity() * size_of::<i128>())
    }
}
