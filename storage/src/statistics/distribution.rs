//! How a column's values are spread: the most common ones with their shares, and an equi-depth histogram of the rest,
//! from a sample of the rows (PostgreSQL's form, after Piatetsky-Shapiro and Connell 1984).

use super::bound::{BOUND_BYTES_MAX, Bound, compare_floats};
use crate::segment::Segment;
use arrow::array::*;
use arrow::datatypes::*;
use std::cmp::Ordering;
use std::sync::Arc;

/// Rows sampled when a query first asks, and by ANALYZE.
pub const SAMPLE_ROWS: usize = 8 * 1024;
pub const SAMPLE_ROWS_ANALYZE: usize = 30_000;
/// Most values, and most buckets, that are kept.
const COMMON_MAX: usize = 100;
const BUCKETS_MAX: usize = 100;

/// All shares are of the table's rows, NULLs counted.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// Values that stand out, the most frequent first.
    pub common: Vec<(Bound, f64)>,
    /// Of all other values: bounds of buckets that hold equally many rows each, ascending.
    pub bounds: Vec<Bound>,
    /// Share of the rows that the buckets hold together.
    pub rest: f64,
    /// How far the order of the rows is that of the values: from -1 to 1; None for fewer than two values.
    pub correlation: Option<f64>,
    /// Bytes of an average value.
    pub width: f64,
    /// The table's rows when the sample was taken.
    pub rows: u64,
}

impl Distribution {
    /// Reads at most `sample_rows` rows of the column, spread evenly; the same rows give the same answer.
    pub fn of(segments: &[Arc<Segment>], column: usize, sample_rows: usize) -> Self {
        let rows: usize = segments.iter().map(|segment| segment.rows()).sum();
        let pieces = sample(segments, column, rows, sample_rows);
        let mut own = Self {
            rows: rows as u64,
            ..Self::default()
        };
        let sampled: usize = pieces.iter().map(|piece| piece.len()).sum();
        let Some(first) = pieces.first() else { return own };
        macro_rules! primitives {
            ($type:ty, $make:expr) => {{
                let values = pieces.iter().flat_map(|piece| {
                    let array = piece.as_primitive::<$type>();
                    array.iter().flatten()
                });
                own.gather(values.collect(), sampled, Ord::cmp, $make)
            }};
        }
        macro_rules! floats {
            ($type:ty) => {{
                let values = pieces.iter().flat_map(|piece| {
                    let array = piece.as_primitive::<$type>();
                    array.iter().flatten().map(f64::from)
                });
                let order = |a: &f64, b: &f64| compare_floats(*a, *b);
                own.gather(values.collect(), sampled, order, |v| Some(Bound::Float(v)))
            }};
        }
        let bytes = |v: &[u8]| (v.len() <= BOUND_BYTES_MAX).then(|| Bound::Bytes(v.into()));
        own.width = first.data_type().primitive_width().unwrap_or(1) as f64;
        match first.data_type() {
            DataType::Int16 => primitives!(Int16Type, |v: i16| Some(Bound::Int(v.into()))),
            DataType::Int32 => primitives!(Int32Type, |v: i32| Some(Bound::Int(v.into()))),
            DataType::Int64 => primitives!(Int64Type, |v| Some(Bound::Int(v))),
            DataType::Date32 => primitives!(Date32Type, |v: i32| Some(Bound::Int(v.into()))),
            DataType::Time64(TimeUnit::Microsecond) => primitives!(Time64MicrosecondType, |v| Some(Bound::Int(v))),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                primitives!(TimestampMicrosecondType, |v| Some(Bound::Int(v)))
            }
            DataType::Decimal128(..) => primitives!(Decimal128Type, |v| Some(Bound::Decimal(v))),
            DataType::Float32 => floats!(Float32Type),
            DataType::Float64 => floats!(Float64Type),
            DataType::Boolean => {
                let values = pieces.iter().flat_map(|piece| piece.as_boolean().iter().flatten());
                own.gather(values.collect(), sampled, Ord::cmp, |v| Some(Bound::Bool(v)));
            }
            DataType::Utf8View => {
                let values = pieces.iter().flat_map(|piece| piece.as_string_view().iter().flatten());
                let values: Vec<&[u8]> = values.map(str::as_bytes).collect();
                own.width = mean_length(&values);
                own.gather(values, sampled, Ord::cmp, bytes);
            }
            DataType::BinaryView => {
                let values = pieces.iter().flat_map(|piece| piece.as_binary_view().iter().flatten());
                let values: Vec<&[u8]> = values.collect();
                own.width = mean_length(&values);
                own.gather(values, sampled, Ord::cmp, bytes);
            }
            DataType::Binary => {
                let values = pieces
                    .iter()
                    .flat_map(|piece| piece.as_binary::<i32>().iter().flatten());
                let values: Vec<&[u8]> = values.collect();
                own.width = mean_length(&values);
                own.gather(values, sampled, Ord::cmp, bytes);
            }
            DataType::LargeBinary => {
                let values = pieces
                    .iter()
                    .flat_map(|piece| piece.as_binary::<i64>().iter().flatten());
                let values: Vec<&[u8]> = values.collect();
                own.width = mean_length(&values);
                own.gather(values, sampled, Ord::cmp, bytes);
            }
            DataType::FixedSizeBinary(width) => {
                own.width = f64::from(*width);
                let values = pieces
                    .iter()
                    .flat_map(|piece| piece.as_fixed_size_binary().iter().flatten());
                own.gather(values.collect(), sampled, Ord::cmp, bytes);
            }
            // SQL's order of intervals is not that of their parts, and lists have none here.
            _ => {}
        }
        own
    }

    /// `values` are the sample's that are not NULL, in the rows' order; `sampled` counts the NULLs too.
    fn gather<T: Copy>(
        &mut self,
        values: Vec<T>,
        sampled: usize,
        order: impl Fn(&T, &T) -> Ordering,
        bound: impl Fn(T) -> Option<Bound>,
    ) {
        let mut sorted: Vec<(T, u32)> = values.iter().copied().zip(0..).collect();
        sorted.sort_unstable_by(|a, b| order(&a.0, &b.0).then(a.1.cmp(&b.1)));
        self.correlation = correlation(&sorted);
        // Runs of equal values: where each begins, and its length.
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for at in 0..sorted.len() {
            match runs.last_mut() {
                Some((start, length)) if order(&sorted[*start].0, &sorted[at].0) == Ordering::Equal => *length += 1,
                _ => runs.push((at, 1)),
            }
        }
        let seen_all = runs.len() <= COMMON_MAX && runs.iter().all(|(_, length)| *length > 1);
        let average = sorted.len() as f64 / runs.len().max(1) as f64;
        let mut common: Vec<usize> = (0..runs.len())
            .filter(|&run| seen_all || runs[run].1 > 1 && runs[run].1 as f64 > 1.25 * average)
            .collect();
        common.sort_by(|a, b| runs[*b].1.cmp(&runs[*a].1).then(a.cmp(b)));
        common.truncate(COMMON_MAX);
        let share = |count: usize| count as f64 / sampled.max(1) as f64;
        let mut is_common = vec![false; runs.len()];
        for run in common {
            let (start, length) = runs[run];
            if let Some(value) = bound(sorted[start].0) {
                self.common.push((value, share(length)));
                is_common[run] = true;
            }
        }
        let others: Vec<T> = runs
            .iter()
            .zip(&is_common)
            .filter(|(_, is_common)| !**is_common)
            .flat_map(|((start, length), _)| sorted[*start..*start + *length].iter().map(|(value, _)| *value))
            .collect();
        self.rest = share(others.len());
        let buckets = BUCKETS_MAX.min(others.len().saturating_sub(1));
        if buckets == 0 {
            return;
        }
        let bounds = (0..=buckets).map(|at| bound(others[at * (others.len() - 1) / buckets]));
        // A value too long to keep leaves its neighbours' buckets to stand for it.
        self.bounds = bounds.flatten().collect();
    }

    /// Share of the rows that equal `value`; `distinct` counts the column's values.
    pub fn share_equal(&self, value: &Bound, distinct: f64) -> f64 {
        if let Some((_, share)) = self.common.iter().find(|(own, _)| own == value) {
            return *share;
        }
        let outside = match (self.bounds.first(), self.bounds.last()) {
            (Some(low), Some(high)) => value < low || value > high,
            _ => true,
        };
        let others = (distinct - self.common.len() as f64).max(1.0);
        // A value that the sample missed is rare; the sample cannot tell how rare.
        let missed = 0.5 / (self.rows.clamp(1, SAMPLE_ROWS as u64) as f64);
        if outside {
            missed.min(self.rest / others).max(1e-12)
        } else {
            self.rest / others
        }
    }

    /// Share of the rows below `value`, or with `inclusive` not above it.
    pub fn share_below(&self, value: &Bound, inclusive: bool, distinct: f64) -> f64 {
        let below = |own: &Bound| own < value || inclusive && own == value;
        let common: f64 = self.common.iter().filter(|(own, _)| below(own)).map(|(_, s)| s).sum();
        if self.bounds.len() < 2 {
            return common;
        }
        let buckets = (self.bounds.len() - 1) as f64;
        let passed = self.bounds.partition_point(|own| own < value);
        let part = if passed == 0 {
            0.0
        } else if passed == self.bounds.len() {
            1.0
        } else {
            let within = self.bounds[passed - 1].fraction(&self.bounds[passed], value);
            (passed as f64 - 1.0 + within) / buckets
        };
        let own = if inclusive && passed > 0 && passed < self.bounds.len() {
            1.0 / (distinct - self.common.len() as f64).max(1.0)
        } else {
            0.0
        };
        common + self.rest * (part + own).min(1.0)
    }

    /// Values that stand for the column, each with the share of the rows that it stands for.
    pub fn representatives(&self) -> impl Iterator<Item = (&Bound, f64)> {
        let each = self.rest / self.bounds.len().max(1) as f64;
        let common = self.common.iter().map(|(value, share)| (value, *share));
        common.chain(self.bounds.iter().map(move |value| (value, each)))
    }

    /// Share of the rows that are not NULL.
    pub fn valid_share(&self) -> f64 {
        self.rest + self.common.iter().map(|(_, share)| share).sum::<f64>()
    }
}

/// The sampled rows of a column, an array a segment.
fn sample(segments: &[Arc<Segment>], column: usize, rows: usize, wanted: usize) -> Vec<ArrayRef> {
    let count = rows.min(wanted);
    let mut pieces = Vec::new();
    let (mut at, mut before) = (0, 0);
    for segment in segments {
        let end = before + segment.rows();
        if count == rows {
            pieces.push(segment.column(column));
            continue;
        }
        let mut picked: Vec<u32> = Vec::new();
        while at < count {
            // One row out of each of `count` equal stretches, not always at the same place of it.
            let start = at * rows / count;
            let length = ((at + 1) * rows / count - start).max(1);
            let row = start + (super::sketch::hash_u64(at as u64) % length as u64) as usize;
            if row >= end {
                break;
            }
            picked.push((row - before) as u32);
            at += 1;
        }
        before = end;
        if picked.is_empty() {
            continue;
        }
        let picked = UInt32Array::from(picked);
        pieces.extend(segment.take(column, &picked).ok());
    }
    pieces
}

/// Of (value, row) pairs in the order of the values: Pearson's correlation of the two orders.
fn correlation<T>(sorted: &[(T, u32)]) -> Option<f64> {
    let count = sorted.len() as f64;
    if sorted.len() < 2 {
        return None;
    }
    let products: f64 = sorted
        .iter()
        .enumerate()
        .map(|(rank, (_, row))| rank as f64 * f64::from(*row))
        .sum();
    let sum = count * (count - 1.0) / 2.0;
    let squares = count * (count - 1.0) * (2.0 * count - 1.0) / 6.0;
    Some((count * products - sum * sum) / (count * squares - sum * sum))
}

fn mean_length(values: &[&[u8]]) -> f64 {
    values.iter().map(|value| value.len()).sum::<usize>() as f64 / values.len().max(1) as f64
}
