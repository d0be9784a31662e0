//! `sum` and `avg` of double precision: finite values whose sum is not are an error, as in PostgreSQL. An infinite or
//! undefined value makes the sum what it is, without one.
//!
//! State: the count, for averages, and the sum.

use super::fail_out_of_range;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, UInt64Array};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

const DOUBLE: DataType = DataType::Float64;

/// What is made of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Average,
}

pub(super) fn sum() -> Arc<AggregateUDF> {
    static SUM: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| udaf("sum", Kind::Sum));
    SUM.clone()
}

pub(super) fn average() -> Arc<AggregateUDF> {
    static AVERAGE: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| udaf("avg", Kind::Average));
    AVERAGE.clone()
}

fn udaf(name: &'static str, kind: Kind) -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DOUBLE], Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(Floats { name, kind, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Floats {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Floats {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DOUBLE)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |part: &str, data_type| Arc::new(Field::new(format_state_name(args.name, part), data_type, true));
        Ok(match (args.is_distinct, self.kind) {
            (true, _) => vec![field("values", DataType::new_list(DOUBLE, true))],
            (false, Kind::Sum) => vec![field("sum", DOUBLE)],
            (false, Kind::Average) => vec![field("count", DataType::UInt64), field("sum", DOUBLE)],
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(match args.is_distinct {
            true => Box::new(Distinct {
                kind: self.kind,
                values: HashSet::new(),
            }),
            false => Box::new(One {
                kind: self.kind,
                count: 0,
                sum: 0.0,
            }),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::new(self.kind)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

pub(super) fn overflow() -> datafusion::error::DataFusionError {
    fail_out_of_range("value out of range: overflow")
}

/// Adds a value; whether the sum is what it may be.
#[must_use]
fn add(sum: &mut f64, value: f64) -> bool {
    let before = *sum;
    *sum += value;
    !sum.is_infinite() || before.is_infinite() || value.is_infinite()
}

/// The sum of values, and that of their magnitudes, which no sum of some of them exceeds. By lanes, so that no addition waits
/// for the one before.
fn by_lanes(values: &[f64]) -> (f64, f64) {
    const LANES: usize = 8;
    let (mut sums, mut magnitudes) = ([0.0; LANES], [0.0; LANES]);
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for ((sum, magnitude), value) in sums.iter_mut().zip(&mut magnitudes).zip(chunk) {
            *sum += value;
            *magnitude += value.abs();
        }
    }
    let rest_sum: f64 = rest.iter().sum();
    let rest_magnitude: f64 = rest.iter().map(|value| value.abs()).sum();
    (
        sums.iter().sum::<f64>() + rest_sum,
        magnitudes.iter().sum::<f64>() + rest_magnitude,
    )
}

/// Adds an array's values one after the other, or in any order where that makes no difference to the error.
fn add_all(sum: &mut f64, values: &Float64Array) -> Result<()> {
    if values.null_count() == 0 {
        let (total, magnitude) = by_lanes(values.values());
        if (magnitude + sum.abs()).is_finite() {
            *sum += total;
            return Ok(());
        }
    }
    match values.iter().flatten().all(|value| add(sum, value)) {
        true => Ok(()),
        false => Err(overflow()),
    }
}

/// One group.
#[derive(Debug)]
struct One {
    kind: Kind,
    count: u64,
    sum: f64,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        self.count += (values.len() - values.null_count()) as u64;
        add_all(&mut self.sum, values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = match self.kind {
            Kind::Sum => self.sum,
            Kind::Average => self.sum / self.count as f64,
        };
        Ok(ScalarValue::Float64((self.count > 0).then_some(result)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(match self.kind {
            Kind::Sum => vec![self.evaluate()?],
            Kind::Average => vec![
                ScalarValue::UInt64(Some(self.count)),
                ScalarValue::Float64(Some(self.sum)),
            ],
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        match self.kind {
            Kind::Sum => self.update_batch(states),
            Kind::Average => {
                self.count += states[0].as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
                add_all(&mut self.sum, states[1].as_primitive())
            }
        }
    }
}

/// The distinct values of one group, by their bits; the two zeros, which are equal, are one. State: the list of values.
#[derive(Debug)]
struct Distinct {
    kind: Kind,
    values: HashSet<u64>,
}

impl Distinct {
    fn list(&self) -> Float64Array {
        // In order, so that the sum does not depend on how values lie in the set.
        let mut values: Vec<f64> = self.values.iter().copied().map(f64::from_bits).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.into()
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>().iter().flatten();
        let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
        self.values.extend(values.map(|value| one(value).to_bits()));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut one = One {
            kind: self.kind,
            count: 0,
            sum: 0.0,
        };
        one.update_batch(&[Arc::new(self.list())])?;
        one.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<u64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.list();
        let item = Arc::new(Field::new_list_field(DOUBLE, true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([values.len()]), Arc::new(values), None);
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}

/// Many groups.
#[derive(Debug)]
struct Groups {
    kind: Kind,
    counts: Vec<u64>,
    sums: Vec<f64>,
}

impl Groups {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            counts: Vec::new(),
            sums: Vec::new(),
        }
    }

    fn add(&mut self, values: &Float64Array, groups: &[usize], kept: impl Fn(usize) -> bool) -> Result<()> {
        let mut fits = true;
        for (row, &group) in groups.iter().enumerate() {
            if values.is_valid(row) && kept(row) {
                self.counts[group] += 1;
                fits &= add(&mut self.sums[group], values.value(row));
            }
        }
        if fits { Ok(()) } else { Err(overflow()) }
    }

    fn resize(&mut self, total: usize) {
        self.counts.resize(total, 0);
        self.sums.resize(total, 0.0);
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.resize(total);
        let values = values[0].as_primitive();
        match filter {
            Some(filter) => self.add(values, groups, |row| filter.is_valid(row) && filter.value(row)),
            None => self.add(values, groups, |_| true),
        }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let counts = emit_to.take_needed(&mut self.counts);
        let mut results = emit_to.take_needed(&mut self.sums);
        if self.kind == Kind::Average {
            for (sum, &count) in results.iter_mut().zip(&counts) {
                *sum /= count as f64;
            }
        }
        let seen: NullBuffer = counts.iter().map(|&count| count > 0).collect();
        let nulls = Some(seen).filter(|seen| seen.null_count() > 0);
        Ok(Arc::new(Float64Array::new(results.into(), nulls)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(match self.kind {
            Kind::Sum => vec![self.evaluate(emit_to)?],
            Kind::Average => {
                let counts = emit_to.take_needed(&mut self.counts);
                let sums = emit_to.take_needed(&mut self.sums);
                vec![Arc::new(UInt64Array::from(counts)), Arc::new(Float64Array::from(sums))]
            }
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        if self.kind == Kind::Sum {
            return self.update_batch(states, groups, None, total);
        }
        self.resize(total);
        let (counts, sums) = (states[0].as_primitive::<UInt64Type>(), states[1].as_primitive());
        let mut fits = true;
        for (row, &group) in groups.iter().enumerate() {
            // The sum of no values may be NULL.
            if counts.is_valid(row) && sums.is_valid(row) {
                self.counts[group] += counts.value(row);
                fits &= add(&mut self.sums[group], Float64Array::value(sums, row));
            }
        }
        if fits { Ok(()) } else { Err(overflow()) }
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut groups = Groups::new(self.kind);
        groups.update_batch(values, &rows, filter, rows.len())?;
        groups.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.counts.capacity() * size_of::<u64>() + self.sums.capacity() * size_of::<f64>()
    }
}
