//! The host's reading of a column of a table that a pipeline made.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, UInt32Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{nullif, take};
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use tenon_gpu::memory::{DeviceBuffer, Element};
use tenon_storage::numeric::column::collect;

use super::super::fragment::Fragment;
use super::super::result::{at_positions, numeric};
use super::super::run::Running;
use super::column::{Column, Form, Shown};
use crate::gpu_error::to_datafusion;
use crate::keys::from_integer_keys;

/// What reads the arrays of a table's columns.
pub struct Reader<'a> {
    pub running: &'a Running,
    pub rows: usize,
    pub order: Option<&'a DeviceBuffer<u32>>,
}

impl Reader<'_> {
    fn words<T: Element>(&self, array: usize) -> Result<Vec<T>> {
        let words = match self.order {
            Some(order) => self.running.words_in(array, order),
            None => self.running.words(array, self.rows),
        };
        words.map_err(to_datafusion)
    }
}

impl Column {
    /// Its values, of the rows that are read.
    pub fn read(&self, fragment: &Fragment, reader: &Reader<'_>) -> Result<ArrayRef> {
        let nulls = match self.nulls {
            Some(id) => {
                let flags = reader.words::<u8>(id)?;
                Some(flags.iter().map(|flag| *flag == 0).collect::<NullBuffer>()).filter(|nulls| nulls.null_count() > 0)
            }
            None => None,
        };
        macro_rules! words {
            ($t:ty, $id:expr) => {
                reader.words::<$t>(*$id)?
            };
        }
        match &self.form {
            Form::Values(id, "f64") => Ok(Arc::new(Float64Array::new(words!(f64, id).into(), nulls))),
            Form::Values(id, "f32") => Ok(Arc::new(Float32Array::new(words!(f32, id).into(), nulls))),
            Form::Values(id, element) => {
                let wide: Vec<i128> = match *element {
                    "u8" => words!(u8, id).into_iter().map(i128::from).collect(),
                    "i32" => words!(i32, id).into_iter().map(i128::from).collect(),
                    "i64" => words!(i64, id).into_iter().map(i128::from).collect(),
                    _ => words!(i128, id),
                };
                if let (Some(shown), DataType::Decimal128(_, after)) = (self.numeric, &self.data_type) {
                    let shown: Vec<i64> = match shown {
                        Shown::All => vec![i64::from(*after); wide.len()],
                        Shown::Each(id) => words!(u8, &id).into_iter().map(i64::from).collect(),
                    };
                    let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                    let values = wide.into_iter().zip(shown).enumerate();
                    let values = values.map(|(row, (value, shown))| match is_null(row) {
                        true => Ok(None),
                        false => numeric(value, *after, shown).map(Some),
                    });
                    return Ok(collect(values.collect::<Result<Vec<_>>>()?.into_iter()));
                }
                if let DataType::Decimal128(..) = self.data_type {
                    let array = Decimal128Array::new(wide.into(), nulls);
                    return Ok(Arc::new(array.with_data_type(self.data_type.clone())));
                }
                let lanes: Vec<i64> = wide.into_iter().map(|value| value as i64).collect();
                if self.data_type == DataType::UInt64 {
                    let values: Vec<u64> = lanes.into_iter().map(|value| value as u64).collect();
                    return Ok(Arc::new(UInt64Array::new(values.into(), nulls)));
                }
                from_integer_keys(&lanes, nulls, &self.data_type)
            }
            Form::Codes(id, element, texts) => {
                let codes: Vec<u32> = match *element {
                    "u8" => words!(u8, id).into_iter().map(u32::from).collect(),
                    "u16" => words!(u16, id).into_iter().map(u32::from).collect(),
                    _ => words!(u32, id),
                };
                Ok(take(texts, &UInt32Array::new(codes.into(), nulls), None)?)
            }
            Form::State(aggregated, cells) => {
                let words = cells
                    .iter()
                    .map(|arrays| arrays.iter().map(|id| reader.words::<u64>(*id)).collect());
                aggregated.values(&words.collect::<Result<Vec<_>>>()?, reader.rows, &self.data_type)
            }
            Form::OnHost(own, columns) => {
                let columns = columns.iter().map(|column| column.read(fragment, reader));
                let values = own.values(columns.collect::<Result<_>>()?, reader.rows)?;
                let Some(nulls) = nulls else { return Ok(values) };
                let is_null = BooleanArray::new(!nulls.inner(), None);
                Ok(nullif(&values, &is_null)?)
            }
            Form::Text(_) => internal_err!("texts that are on the device alone"),
            Form::Position(id) => {
                let Some((scan, column)) = self.origin else {
                    return internal_err!("a text of no table");
                };
                let nulls = nulls.map(|nulls| nulls.iter().map(|valid| u8::from(!valid)).collect());
                at_positions(&fragment.scans[scan], column, &words!(u32, id), nulls)
            }
            Form::InPlace => {
                let Some((scan, column)) = self.origin else {
                    return internal_err!("a column of no table");
                };
                let all = || (0..reader.rows as u32).collect();
                let rows = reader.order.map(|order| reader.running.places(order)).transpose();
                let rows = rows.map_err(to_datafusion)?.unwrap_or_else(all);
                at_positions(&fragment.scans[scan], column, &rows, None)
            }
        }
    }
}
