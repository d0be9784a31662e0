//! How the key columns of a join become the one lane that its table is keyed by.
//!
//! One exact column is its own lane. Several exact columns are packed side by side into 63 bits if the ranges that the
//! build side really has allow it; no columns at all are packed into no bits, so that all rows share one lane. Anything
//! else is a hash of the row, and matches are compared column by column.

use arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::and;
use arrow::compute::kernels::cmp::eq;
use datafusion::common::Result;
use tenon_gpu::cpu::Stop;

use crate::apart::check;
use crate::gather::pick;
use crate::keys::{all_valid, append_exact, hash_lanes, is_exact, lane_buffer, lane_range};

pub enum Packing {
    Single,
    Packed(Vec<Field>),
    /// The build side's key columns, to compare matches with.
    Hashed(Vec<ArrayRef>),
}

/// One column's place in a packed lane.
pub struct Field {
    min: i64,
    max: i64,
    shift: u32,
}

/// The build side's lanes, and which rows have no null key.
pub struct Lanes {
    pub lanes: ScalarBuffer<i64>,
    pub valid: Option<NullBuffer>,
}

impl Packing {
    /// Packs the build side's key columns. Also returns the lanes of each exact single column, from which runtime
    /// filters are made.
    pub fn of_build(whole: Vec<ArrayRef>, rows: usize, stop: Stop<'_>) -> Result<(Self, Lanes, Vec<Option<Lanes>>)> {
        let exact = whole.iter().all(|column| is_exact(column.data_type()));
        let valid = all_valid(&whole);
        let mut singles = vec![];
        for column in &whole {
            check(stop)?;
            let lanes = match is_exact(column.data_type()) {
                true => Some(lane_buffer(column, stop)?),
                false => None,
            };
            singles.push(lanes.map(|lanes| Lanes {
                lanes,
                valid: valid.clone(),
            }));
        }
        if let ([Some(single)], true) = (&singles[..], exact) {
            let lanes = single.lanes.clone();
            return Ok((Self::Single, Lanes { lanes, valid }, singles));
        }
        if exact && let Some(fields) = fields(&singles) {
            let lanes = pack(&fields, singles.iter().flatten().map(|l| &l.lanes[..]), rows).into();
            return Ok((Self::Packed(fields), Lanes { lanes, valid }, singles));
        }
        let lanes = hash_lanes(&whole, rows, stop)?.into();
        Ok((Self::Hashed(whole), Lanes { lanes, valid }, singles))
    }

    /// The lanes of a probe batch, into `lanes`; returns the rows that can match, if not all can.
    pub fn of_probe(&self, columns: &[ArrayRef], rows: usize, lanes: &mut Vec<i64>) -> Result<Option<NullBuffer>> {
        lanes.clear();
        match self {
            Self::Single => append_exact(&columns[0], lanes)?,
            Self::Packed(fields) => {
                let mut unpacked = vec![];
                for column in columns {
                    let mut lanes = Vec::with_capacity(column.len());
                    append_exact(column, &mut lanes)?;
                    unpacked.push(lanes);
                }
                *lanes = pack(fields, unpacked.iter().map(Vec::as_slice), rows);
            }
            Self::Hashed(_) => *lanes = hash_lanes(columns, rows, Stop::never())?,
        }
        Ok(all_valid(columns))
    }

    /// For hashed keys, which of the matched pairs are truly equal; `None` where all are.
    pub fn verify(
        &self,
        probe: &[ArrayRef],
        build_rows: &UInt32Array,
        probe_rows: &UInt32Array,
    ) -> Result<Option<BooleanArray>> {
        let Self::Hashed(build) = self else { return Ok(None) };
        let mut equal: Option<BooleanArray> = None;
        for (build, probe) in build.iter().zip(probe) {
            let same = eq(&pick(build, build_rows)?, &pick(probe, probe_rows)?)?;
            equal = Some(match equal {
                None => same,
                Some(before) => and(&before, &same)?,
            });
        }
        Ok(equal)
    }
}

/// Bit fields wide enough for each column's range, if 63 bits hold them all.
fn fields(columns: &[Option<Lanes>]) -> Option<Vec<Field>> {
    let mut shift = 0;
    let mut fields = vec![];
    for column in columns.iter().flatten() {
        let (min, max) = lane_range(&column.lanes, column.valid.as_ref()).unwrap_or((0, 0));
        let bits = 64 - (max.wrapping_sub(min) as u64).leading_zeros();
        fields.push(Field { min, max, shift });
        shift += bits;
        if shift > 63 {
            return None;
        }
    }
    Some(fields)
}

/// Packs row by row; a row with a value outside its field's range gets -1, which no build row has.
fn pack<'a>(fields: &[Field], columns: impl Iterator<Item = &'a [i64]>, rows: usize) -> Vec<i64> {
    let mut packed = vec![0i64; rows];
    for (field, column) in fields.iter().zip(columns) {
        for (packed, &value) in packed.iter_mut().zip(column) {
            let outside = value < field.min || value > field.max;
            *packed |= if outside {
                -1
            } else {
                value.wrapping_sub(field.min) << field.shift
            };
        }
    }
    packed
}
