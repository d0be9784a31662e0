//! Statistics of one column: of a segment, or merged over a table's segments in their order.

use super::bound::{BOUND_BYTES_MAX, Bound, compare_floats};
use super::sketch::{Sketch, hash_bytes, hash_u64};
use crate::numeric::compare_key;
use arrow::array::*;
use arrow::datatypes::*;
use std::cmp::Ordering;

/// What is known of a column. Bounds ignore NULLs; None: no value, or a type or length without bounds.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    pub rows: u64,
    pub null_count: u64,
    pub min: Option<Bound>,
    pub max: Option<Bound>,
    /// Whether the bounds are values of the column: where rows were removed they need not be.
    pub bounds_met: bool,
    pub sketch: Sketch,
    /// No NULL, and no value is below the one before it.
    pub ascending: bool,
    /// No NULL, and each value is above the one before it: the column is unique.
    pub strictly_ascending: bool,
}

impl ColumnStatistics {
    pub fn empty() -> Self {
        Self {
            rows: 0,
            null_count: 0,
            min: None,
            max: None,
            bounds_met: true,
            sketch: Sketch::default(),
            ascending: true,
            strictly_ascending: true,
        }
    }

    /// Distinct values, NULL not counted: estimated, and never above the number of values.
    pub fn distinct(&self) -> u64 {
        self.sketch.distinct().min(self.rows - self.null_count)
    }

    /// Adds the statistics of rows that follow.
    pub fn append(&mut self, next: &ColumnStatistics) {
        if next.rows == 0 {
            return;
        }
        if self.rows == 0 {
            *self = next.clone();
            return;
        }
        let boundary = match (&self.max, &next.min) {
            (Some(last), Some(first)) => last.partial_cmp(first),
            _ => None,
        };
        self.ascending &= next.ascending && matches!(boundary, Some(Ordering::Less | Ordering::Equal));
        self.strictly_ascending &= next.strictly_ascending && boundary == Some(Ordering::Less);
        let own_unbounded = self.min.is_none() && self.null_count < self.rows;
        let next_unbounded = next.min.is_none() && next.null_count < next.rows;
        if own_unbounded || next_unbounded {
            self.min = None;
            self.max = None;
        } else {
            if next.min.is_some() && (self.min.is_none() || next.min < self.min) {
                self.min = next.min.clone();
            }
            if next.max.is_some() && (self.max.is_none() || next.max > self.max) {
                self.max = next.max.clone();
            }
        }
        self.bounds_met &= next.bounds_met;
        self.rows += next.rows;
        self.null_count += next.null_count;
        self.sketch.merge(&next.sketch);
    }

    /// So many of the rows are gone, of which `nulls` were null.
    pub(crate) fn remove(&mut self, rows: u64, nulls: u64) {
        self.rows = self.rows.saturating_sub(rows);
        self.null_count = self.null_count.saturating_sub(nulls);
        self.bounds_met &= rows == 0;
    }

    /// Reads the whole array once or twice.
    pub fn of_array(array: &dyn Array) -> Self {
        let mut own = Self::empty();
        own.rows = array.len() as u64;
        own.null_count = array.null_count() as u64;
        macro_rules! integers {
            ($type:ty) => {{
                let array = array.as_primitive::<$type>();
                own.scan(
                    array.values(),
                    array.nulls(),
                    Ord::cmp,
                    |v| hash_u64(v as u64),
                    |v| Bound::Int(v.into()),
                )
            }};
        }
        macro_rules! floats {
            ($type:ty) => {{
                let array = array.as_primitive::<$type>();
                let order = |a: &_, b: &_| compare_floats(f64::from(*a), f64::from(*b));
                let hash = |v| hash_u64((f64::from(v) + 0.0).to_bits());
                own.scan(array.values(), array.nulls(), order, hash, |v| {
                    Bound::Float(v.into())
                })
            }};
        }
        match array.data_type() {
            DataType::Int16 => integers!(Int16Type),
            DataType::Int32 => integers!(Int32Type),
            DataType::Int64 => integers!(Int64Type),
            DataType::Date32 => integers!(Date32Type),
            DataType::Time64(TimeUnit::Microsecond) => integers!(Time64MicrosecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType),
            DataType::Float32 => floats!(Float32Type),
            DataType::Float64 => floats!(Float64Type),
            DataType::Decimal128(..) => {
                let array = array.as_primitive::<Decimal128Type>();
                let hash = |v: i128| hash_u64(v as u64 ^ ((v >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                own.scan(array.values(), array.nulls(), Ord::cmp, hash, Bound::Decimal);
            }
            DataType::Boolean => own.of_booleans(array.as_boolean()),
            DataType::Utf8View => {
                let array = array.as_string_view();
                own.of_bytes(array.iter().map(|value| value.map(str::as_bytes)));
            }
            DataType::BinaryView => own.of_bytes(array.as_binary_view().iter()),
            DataType::Binary => own.of_bytes(array.as_binary::<i32>().iter()),
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                own.of_bytes(array.iter());
                // Values that differ in their display scale alone are equal: the bounds cover all scales.
                let bound = |bound: &Option<Bound>, scale: u8| match bound {
                    Some(Bound::Bytes(value)) => Some(Bound::Bytes([compare_key(value), &[scale; 2]].concat().into())),
                    _ => None,
                };
                (own.min, own.max) = (bound(&own.min, 0), bound(&own.max, u8::MAX));
                let mut keys = array.iter().flatten().map(compare_key);
                let mut before = keys.next();
                own.strictly_ascending &= keys.all(|key| before.replace(key).is_some_and(|before| before < key));
            }
            DataType::FixedSizeBinary(_) => own.of_bytes(array.as_fixed_size_binary().iter()),
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                // Only counts: SQL's order of intervals is not that of their parts.
                let array = array.as_primitive::<IntervalMonthDayNanoType>();
                let nanos = |v: IntervalMonthDayNano| {
                    let days = i128::from(v.months) * 30 + i128::from(v.days);
                    days * 86_400_000_000_000 + i128::from(v.nanoseconds)
                };
                own.sketch
                    .extend(array.iter().flatten().map(|value| hash_u64(nanos(value) as u64)));
                own.ascending = array.is_empty();
                own.strictly_ascending = array.is_empty();
            }
            _ => {
                own.ascending = array.is_empty();
                own.strictly_ascending = array.is_empty();
            }
        }
        own
    }

    /// Of a column given as codes, which are numbered by first appearance of their values; NULLs have any code.
    pub fn of_codes(codes: &[u32], values: &[&str], null_count: u64) -> Self {
        let mut own = Self::empty();
        own.rows = codes.len() as u64;
        own.null_count = null_count;
        own.of_bytes(values.iter().map(|value| Some(value.as_bytes())));
        // Each value's first appearance is above all before it, so the column ascends where codes never step back.
        own.ascending &= null_count == 0 && codes.is_sorted();
        own.strictly_ascending = own.ascending && codes.len() == values.len();
        own
    }

    /// Of `rows` rows, `null_count` of them null, that these are the statistics of the runs of: each run's value once.
    pub fn of_runs(self, rows: u64, null_count: u64) -> Self {
        Self {
            rows,
            null_count,
            strictly_ascending: self.strictly_ascending && self.rows == rows,
            ..self
        }
    }

    fn scan<T: Copy>(
        &mut self,
        values: &[T],
        nulls: Option<&arrow::buffer::NullBuffer>,
        order: impl Fn(&T, &T) -> Ordering,
        hash: impl Fn(T) -> u64,
        bound: impl Fn(T) -> Bound,
    ) {
        if self.null_count == 0 {
            let Some((first, rest)) = values.split_first() else {
                return;
            };
            let (mut min, mut max) = (*first, *first);
            let (mut ascending, mut strictly) = (true, true);
            for (value, before) in rest.iter().zip(values) {
                ascending &= order(before, value) != Ordering::Greater;
                strictly &= order(before, value) == Ordering::Less;
                min = if order(value, &min) == Ordering::Less {
                    *value
                } else {
                    min
                };
                max = if order(value, &max) == Ordering::Greater {
                    *value
                } else {
                    max
                };
            }
            self.ascending = ascending;
            self.strictly_ascending = strictly;
            (self.min, self.max) = (Some(bound(min)), Some(bound(max)));
            self.sketch.extend(values.iter().map(|value| hash(*value)));
            return;
        }
        self.ascending = false;
        self.strictly_ascending = false;
        let Some(nulls) = nulls else { return };
        let mut range: Option<(T, T)> = None;
        for (start, end) in nulls.valid_slices() {
            for value in &values[start..end] {
                let (min, max) = range.get_or_insert((*value, *value));
                if order(value, min) == Ordering::Less {
                    *min = *value;
                }
                if order(value, max) == Ordering::Greater {
                    *max = *value;
                }
            }
            self.sketch.extend(values[start..end].iter().map(|value| hash(*value)));
        }
        if let Some((min, max)) = range {
            (self.min, self.max) = (Some(bound(min)), Some(bound(max)));
        }
    }

    fn of_booleans(&mut self, array: &BooleanArray) {
        let (trues, falses) = (array.true_count(), array.false_count());
        if falses > 0 {
            self.sketch.add(hash_u64(0));
        }
        if trues > 0 {
            self.sketch.add(hash_u64(1));
        }
        if trues + falses > 0 {
            self.min = Some(Bound::Bool(falses == 0));
            self.max = Some(Bound::Bool(trues > 0));
        }
        let sorted = self.null_count == 0 && (0..falses).all(|row| !array.value(row));
        self.ascending = sorted;
        self.strictly_ascending = sorted && trues <= 1 && falses <= 1;
    }

    fn of_bytes<'a>(&mut self, values: impl Iterator<Item = Option<&'a [u8]>>) {
        let mut range: Option<(&[u8], &[u8])> = None;
        let mut before: &[u8] = &[];
        self.ascending = self.null_count == 0;
        self.strictly_ascending = self.ascending;
        let mut first = true;
        for value in values.flatten() {
            let order = if first { Ordering::Less } else { before.cmp(value) };
            first = false;
            before = value;
            self.ascending &= order != Ordering::Greater;
            self.strictly_ascending &= order == Ordering::Less;
            if order == Ordering::Equal {
                continue;
            }
            self.sketch.add(hash_bytes(value));
            match &mut range {
                None => range = Some((value, value)),
                Some((min, max)) => {
                    if order == Ordering::Less {
                        *max = (*max).max(value);
                    } else {
                        *min = (*min).min(value);
                    }
                }
            }
        }
        if let Some((min, max)) = range.filter(|(min, max)| min.len().max(max.len()) <= BOUND_BYTES_MAX) {
            self.min = Some(Bound::Bytes(min.into()));
            self.max = Some(Bound::Bytes(max.into()));
        }
    }
}
