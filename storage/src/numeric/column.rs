//! Columns of numerics, and numbers of other types as numerics and back.

use super::average::write_average;
use super::{Int, Numeric};
use crate::error::{ErrorKind, Result, StorageError};
use crate::parse::numeric_overflow;
use crate::types::{NUMERIC, SqlType};
use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::*;
use std::sync::Arc;

/// Whether `Values` reads arrays of this type.
pub fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || matches!(data_type, DataType::Null) || *data_type == NUMERIC
}

/// The values of an array of numbers of any type.
pub struct Values<'a> {
    array: &'a dyn Array,
    scale: i8,
}

impl<'a> Values<'a> {
    /// None for an array of something else.
    pub fn of(array: &'a dyn Array) -> Option<Values<'a>> {
        let scale = match array.data_type() {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => *scale,
            _ => 0,
        };
        is_number(array.data_type()).then_some(Values { array, scale })
    }

    pub fn len(&self) -> usize {
        self.array.len()
    }

    pub fn is_empty(&self) -> bool {
        self.array.is_empty()
    }

    pub fn get(&self, row: usize) -> Option<Numeric> {
        if self.array.is_null(row) {
            return None;
        }
        macro_rules! exact {
            ($type:ty) => {
                Numeric::of_i128(self.array.as_primitive::<$type>().value(row).into(), self.scale)
            };
        }
        Some(match self.array.data_type() {
            DataType::Null => return None,
            DataType::Int8 => exact!(Int8Type),
            DataType::Int16 => exact!(Int16Type),
            DataType::Int32 => exact!(Int32Type),
            DataType::Int64 => exact!(Int64Type),
            DataType::UInt8 => exact!(UInt8Type),
            DataType::UInt16 => exact!(UInt16Type),
            DataType::UInt32 => exact!(UInt32Type),
            DataType::UInt64 => exact!(UInt64Type),
            DataType::Decimal32(..) => exact!(Decimal32Type),
            DataType::Decimal64(..) => exact!(Decimal64Type),
            DataType::Decimal128(..) => exact!(Decimal128Type),
            DataType::Decimal256(..) => {
                let text = self.array.as_primitive::<Decimal256Type>().value(row).to_string();
                let unscaled = Int::parse(text.trim_start_matches('-').as_bytes());
                let value = super::Finite::new(unscaled, self.scale.max(0) as u32);
                if text.starts_with('-') {
                    Numeric::from(value).neg()
                } else {
                    value.into()
                }
            }
            DataType::Float16 => Numeric::of_float(self.array.as_primitive::<Float16Type>().value(row).to_f64(), 4),
            DataType::Float32 => Numeric::of_float(self.array.as_primitive::<Float32Type>().value(row).into(), 6),
            DataType::Float64 => Numeric::of_float(self.array.as_primitive::<Float64Type>().value(row), 15),
            _ => Numeric::from_bytes(self.array.as_binary::<i64>().value(row)),
        })
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<Numeric>> + '_ {
        (0..self.array.len()).map(|row| self.get(row))
    }
}

/// A column of values.
pub struct Builder {
    offsets: Vec<i64>,
    bytes: Vec<u8>,
    valid: Vec<bool>,
}

impl Builder {
    pub fn with_capacity(rows: usize) -> Builder {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Builder {
            offsets,
            bytes: Vec::with_capacity(rows * 12),
            valid: Vec::with_capacity(rows),
        }
    }

    pub fn append(&mut self, value: Option<&Numeric>) {
        if let Some(value) = value {
            value.write_bytes(&mut self.bytes);
        }
        self.valid.push(value.is_some());
        self.offsets.push(self.bytes.len() as i64);
    }

    /// Appends `sum` / 10^`scale` by `count`: NULL where that is 0.
    pub fn append_average(&mut self, sum: i128, scale: i8, count: u64) -> super::Result<()> {
        if count == 0 {
            self.append(None);
            return Ok(());
        }
        let written = u32::try_from(scale).ok();
        match written.and_then(|scale| write_average(sum, scale, count, &mut self.bytes)) {
            Some(()) => {
                self.valid.push(true);
                self.offsets.push(self.bytes.len() as i64);
            }
            None => {
                let count = Numeric::of_i128(count.into(), 0);
                self.append(Some(&Numeric::of_i128(sum, scale).div(&count)?));
            }
        }
        Ok(())
    }

    pub fn finish(self) -> ArrayRef {
        let nulls = self.valid.contains(&false).then(|| NullBuffer::from(self.valid));
        let offsets = OffsetBuffer::new(self.offsets.into());
        Arc::new(LargeBinaryArray::new(offsets, self.bytes.into(), nulls))
    }
}

/// A column of these values.
pub fn collect(values: impl ExactSizeIterator<Item = Option<Numeric>>) -> ArrayRef {
    let mut out = Builder::with_capacity(values.len());
    values.for_each(|value| out.append(value.as_ref()));
    out.finish()
}

/// Numbers of any type as numerics without a declared precision.
pub fn to_numeric(array: &ArrayRef) -> Result<ArrayRef> {
    if *array.data_type() == NUMERIC {
        return Ok(array.clone());
    }
    let values =
        Values::of(array).ok_or_else(|| StorageError::internal(format!("{} as numeric", array.data_type())))?;
    Ok(collect(values.iter()))
}

fn out_of_range(sql_type: SqlType) -> StorageError {
    StorageError::new(
        ErrorKind::NumericOutOfRange,
        format!("{} out of range", sql_type.base_name()),
    )
}

/// Numbers of any type as a number type of storage: rounded, and an error (22003) where they do not fit.
pub fn convert(array: &ArrayRef, target: SqlType) -> Result<ArrayRef> {
    let values =
        Values::of(array).ok_or_else(|| StorageError::internal(format!("{} as {target}", array.data_type())))?;
    macro_rules! integers {
        ($type:ty, $native:ty) => {{
            let whole = |value: Option<Numeric>| -> Result<Option<$native>> {
                let Some(value) = value else { return Ok(None) };
                let Ok(whole) = value.to_i128() else {
                    let what = if value.is_nan() { "NaN" } else { "infinity" };
                    let message = format!("cannot convert {what} to {}", target.base_name());
                    return Err(StorageError::new(ErrorKind::Unsupported, message));
                };
                let fits = whole.and_then(|whole| <$native>::try_from(whole).ok());
                fits.map(Some).ok_or_else(|| out_of_range(target))
            };
            Arc::new(values.iter().map(whole).collect::<Result<PrimitiveArray<$type>>>()?) as ArrayRef
        }};
    }
    Ok(match target {
        SqlType::Int2 => integers!(Int16Type, i16),
        SqlType::Int4 => integers!(Int32Type, i32),
        SqlType::Int8 => integers!(Int64Type, i64),
        SqlType::Float8 => {
            let float = |value: Option<Numeric>| -> Result<Option<f64>> {
                let Some(value) = value else { return Ok(None) };
                let float = value.to_f64();
                let lost = float.is_infinite() && value.scale().is_some() || float == 0.0 && !value.is_zero();
                if lost {
                    Err(not_of_float(&value, target))
                } else {
                    Ok(Some(float))
                }
            };
            Arc::new(values.iter().map(float).collect::<Result<Float64Array>>()?)
        }
        SqlType::Float4 => {
            let float = |value: Option<Numeric>| -> Result<Option<f32>> {
                let Some(value) = value else { return Ok(None) };
                // By the text, as rounding twice would not give the nearest.
                let float: f32 = match value.scale() {
                    Some(_) => value.to_string().parse().unwrap_or(f32::NAN),
                    None => value.to_f64() as f32,
                };
                let lost = float.is_infinite() && value.scale().is_some() || float == 0.0 && !value.is_zero();
                if lost {
                    Err(not_of_float(&value, target))
                } else {
                    Ok(Some(float))
                }
            };
            Arc::new(values.iter().map(float).collect::<Result<Float32Array>>()?)
        }
        SqlType::NumericOf(precision, scale) => {
            let fit = |value: Option<Numeric>| -> Result<Option<i128>> {
                let Some(value) = value else { return Ok(None) };
                if value.is_nan() {
                    let message = format!("NaN is not supported in columns of {target}");
                    return Err(StorageError::new(ErrorKind::Unsupported, message));
                }
                let fitted = value.to_decimal(precision, scale);
                fitted
                    .map(Some)
                    .ok_or_else(|| does_not_fit(&value, precision.into(), scale.into()))
            };
            let fitted = values.iter().map(fit).collect::<Result<Decimal128Array>>()?;
            Arc::new(fitted.with_data_type(target.data_type()))
        }
        SqlType::NumericWide(precision, scale) => {
            let mut out = Builder::with_capacity(array.len());
            for value in values.iter() {
                let Some(value) = value else {
                    out.append(None);
                    continue;
                };
                let fitted = value.fitted(precision.into(), scale.into());
                let fitted = fitted.ok_or_else(|| does_not_fit(&value, precision.into(), scale.into()))?;
                out.append(Some(&fitted));
            }
            out.finish()
        }
        SqlType::Numeric => to_numeric(array)?,
        other => return Err(StorageError::internal(format!("a number as {other}"))),
    })
}

fn not_of_float(value: &Numeric, target: SqlType) -> StorageError {
    let message = format!("\"{value}\" is out of range for type {}", target.base_name());
    StorageError::new(ErrorKind::NumericOutOfRange, message)
}

/// 22003 for a value that `numeric(precision, scale)` does not hold.
pub(crate) fn does_not_fit(value: &Numeric, precision: i32, scale: i32) -> StorageError {
    match value {
        Numeric::Finite(_) => numeric_overflow(precision, scale),
        _ => StorageError::new(ErrorKind::NumericOutOfRange, "numeric field overflow").detail(format!(
            "A field with precision {precision}, scale {scale} cannot hold an infinite value."
        )),
    }
}
