//! How the key columns of a join become the one integer key that its table is keyed by.
//!
//! One exact column is its own integer key. Several exact columns are packed side by side into 63 bits if the ranges that the
//! build side really has allow it; no columns at all are packed into no bits, so that all rows share one integer key. Anything
//! else is a hash of the row, and matches are compared column by column.

use arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::and;
use arrow::compute::kernels::cmp::eq;
use datafusion::common::Result;
use tenon_cpu::Stop;

use crate::gather::pick;
use crate::keys::{all_valid, append_integer_keys, hashed_keys, integer_keys, is_integer_key, key_range};
use crate::offload::check;

pub enum Packing {
    Single,
    Packed(Vec<Field>),
    /// The build side's key columns, to compare matches with.
    Hashed(Vec<ArrayRef>),
}

/// One column's place in a packed integer key.
pub struct Field {
    min: i64,
    max: i64,
    shift: u32,
}

/// The build side's integer keys, and which rows have no null key.
pub struct IntegerKeys {
    pub values: ScalarBuffer<i64>,
    pub valid: Option<NullBuffer>,
}

impl Packing {
    /// Packs the build side's key columns. Also returns the integer keys of each exact single column, from which runtime
    /// filters are made.
    pub fn of_build(
        whole: Vec<ArrayRef>,
        rows: usize,
        stop: Stop<'_>,
    ) -> Result<(Self, IntegerKeys, Vec<Option<IntegerKeys>>)> {
        let exact = whole.iter().all(|column| is_integer_key(column.data_type()));
        let valid = all_valid(&whole);
        let mut singles = vec![];
        for column in &whole {
            check(stop)?;
            let integers = match is_integer_key(column.data_type()) {
                true => Some(integer_keys(column, stop)?),
                false => None,
            };
            singles.push(integers.map(|integers| IntegerKeys {
                values: integers,
                valid: valid.clone(),
            }));
        }
        if let ([Some(single)], true) = (&singles[..], exact) {
            let integers = single.values.clone();
            return Ok((
                Self::Single,
                IntegerKeys {
                    values: integers,
                    valid,
                },
                singles,
            ));
        }
        if exact && let Some(fields) = fields(&singles) {
            let integers = pack(&fields, singles.iter().flatten().map(|l| &l.values[..]), rows).into();
            return Ok((
                Self::Packed(fields),
                IntegerKeys {
                    values: integers,
                    valid,
                },
                singles,
            ));
        }
        let integers = hashed_keys(&whole, rows, stop)?.into();
        Ok((
            Self::Hashed(whole),
            IntegerKeys {
                values: integers,
                valid,
            },
            singles,
        ))
    }

    /// The integer keys of a probe batch, into `integers`; returns the rows that can match, if not all can.
    pub fn of_probe(&self, columns: &[ArrayRef], rows: usize, integers: &mut Vec<i64>) -> Result<Option<NullBuffer>> {
        integers.clear();
        match self {
            Self::Single => append_integer_keys(&columns[0], integers)?,
            Self::Packed(fields) => {
                let mut unpacked = vec![];
                for column in columns {
                    let mut integers = Vec::with_capacity(column.len());
                    append_integer_keys(column, &mut integers)?;
                    unpacked.push(integers);
                }
                *integers = pack(fields, unpacked.iter().map(Vec::as_slice), rows);
            }
            Self::Hashed(_) => *integers = hashed_keys(columns, rows, Stop::never())?,
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
fn fields(columns: &[Option<IntegerKeys>]) -> Option<Vec<Field>> {
    let mut shift = 0;
    let mut fields = vec![];
    for column in columns.iter().flatten() {
        let (min, max) = key_range(&column.values, column.valid.as_ref()).unwrap_or((0, 0));
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
