//! Equality keys of both sides as normalized keys: which rows take part, and what is left to compare.
//!
//! One column of at most eight bytes is its order-preserving bits, and equal normalized keys are equal keys. Anything else
//! is a hash of the key's columns, and candidates are compared column by column. Rows with a null in their key match nothing
//! and are left out; under IS NOT DISTINCT FROM they stay, and nulls are equal.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, UInt32Array, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::cmp::{eq, not_distinct};
use arrow::compute::{and, cast};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use tenon_cpu::Stop;

use crate::gather::pick;
use crate::join::normalized_keys::{NormalizedKeys, normalize};
use crate::keys::{all_valid, hashed_keys};

/// One side's keys and their rows.
pub struct KeyedRows {
    pub keys: NormalizedKeys,
    /// Of each normalized key; none: normalized key `i` is row `i`'s.
    pub rows: Option<Vec<u32>>,
}

pub struct EqualKeys {
    pub build: KeyedRows,
    pub probe: KeyedRows,
    /// Present where equal normalized keys may be different keys.
    pub verify: Option<Verify>,
}

/// Compares the key columns of candidates.
pub struct Verify {
    build: Vec<ArrayRef>,
    probe: Vec<ArrayRef>,
    null_equal: bool,
}

impl EqualKeys {
    /// `build` and `probe` are the key columns of `rows.0` and `rows.1` rows, of the same types.
    pub fn of(
        build: &[ArrayRef],
        probe: &[ArrayRef],
        rows: (usize, usize),
        null_equal: bool,
        stop: Stop<'_>,
    ) -> Result<Self> {
        let valid = |columns: &[ArrayRef]| if null_equal { None } else { all_valid(columns) };
        let (build_valid, probe_valid) = (valid(build), valid(probe));
        if let ([build], [probe]) = (build, probe)
            && !null_equal
            && is_one_key(build.data_type())
        {
            let (b, p) = (normalize(build, stop)?, normalize(probe, stop)?);
            if b.exact && p.exact {
                return Ok(Self {
                    build: KeyedRows::of(b.keys, build_valid),
                    probe: KeyedRows::of(p.keys, probe_valid),
                    verify: None,
                });
            }
        }
        let (mut builds, mut probes) = (vec![], vec![]);
        for (build, probe) in build.iter().zip(probe) {
            let [build, probe] = canonical([build, probe])?;
            builds.push(build);
            probes.push(probe);
        }
        let hashed = |columns: &[ArrayRef], rows: usize| -> Result<NormalizedKeys> {
            Ok(NormalizedKeys::U64(
                hashed_keys(columns, rows, stop)?
                    .into_iter()
                    .map(|integer| integer as u64)
                    .collect(),
            ))
        };
        Ok(Self {
            build: KeyedRows::of(hashed(&builds, rows.0)?, build_valid),
            probe: KeyedRows::of(hashed(&probes, rows.1)?, probe_valid),
            verify: Some(Verify {
                build: builds,
                probe: probes,
                null_equal,
            }),
        })
    }
}

impl KeyedRows {
    /// The rows that are valid.
    pub fn of(keys: NormalizedKeys, valid: Option<NullBuffer>) -> Self {
        let Some(valid) = valid else {
            return Self { keys, rows: None };
        };
        let rows: Vec<u32> = valid.valid_indices().map(|row| row as u32).collect();
        Self {
            keys: keys.pick(&rows),
            rows: Some(rows),
        }
    }
}

impl Verify {
    /// For each pair, whether its keys are equal.
    pub fn equal(&self, build_rows: &UInt32Array, probe_rows: &UInt32Array) -> Result<BooleanArray> {
        let mut equal: Option<BooleanArray> = None;
        for (build, probe) in self.build.iter().zip(&self.probe) {
            let (build, probe) = (pick(build, build_rows)?, pick(probe, probe_rows)?);
            let same = match self.null_equal {
                true => not_distinct(&build, &probe)?,
                false => eq(&build, &probe)?,
            };
            equal = Some(match equal {
                None => same,
                Some(before) => and(&before, &same)?,
            });
        }
        Ok(equal.unwrap_or_else(|| BooleanArray::from(vec![true; build_rows.len()])))
    }
}

/// Types whose one column is at most eight bytes.
fn is_one_key(data_type: &DataType) -> bool {
    use DataType::*;
    crate::keys::is_integer_key(data_type) || matches!(data_type, UInt64 | Float32 | Float64 | Duration(_))
}

/// Both columns in a form in which SQL's equal values have equal bytes, so that hashes and comparisons agree with SQL.
fn canonical(columns: [&ArrayRef; 2]) -> Result<[ArrayRef; 2]> {
    use DataType::*;
    let each = |form: fn(&ArrayRef) -> Result<ArrayRef>| -> Result<[ArrayRef; 2]> {
        Ok([form(columns[0])?, form(columns[1])?])
    };
    match columns[0].data_type() {
        Float32 => each(|column| {
            let one = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            Ok(Arc::new(
                column.as_primitive::<Float32Type>().unary::<_, Float32Type>(one),
            ))
        }),
        Float64 => each(|column| {
            let one = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
            Ok(Arc::new(
                column.as_primitive::<Float64Type>().unary::<_, Float64Type>(one),
            ))
        }),
        Dictionary(_, _) => each(|column| match column.data_type() {
            Dictionary(_, values) => Ok(cast(column, values)?),
            _ => Ok(Arc::clone(column)),
        }),
        // Arrow compares no nested values; the bytes of their rows are equal where they are.
        data_type if data_type.is_nested() => {
            let converter = RowConverter::new(vec![SortField::new(data_type.clone())])?;
            let one = |column: &ArrayRef| -> Result<ArrayRef> {
                let rows = converter.convert_columns(&[Arc::clone(column)])?;
                let bytes = rows.try_into_binary()?;
                let data = arrow::array::Array::to_data(&bytes).into_builder();
                Ok(make_array(data.nulls(column.logical_nulls()).build()?))
            };
            Ok([one(columns[0])?, one(columns[1])?])
        }
        _ => each(|column| Ok(Arc::clone(column))),
    }
}
