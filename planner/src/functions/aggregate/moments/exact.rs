//! Sums of integers and numerics, and of their squares, without rounding.

use super::{Moment, fail_out_of_range};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Builder, Decimal256Array, Decimal256Builder, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal256Type, UInt64Type, i256};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use std::sync::Arc;
use tenon_storage::numeric::{QUOTIENT_SCALE, divide, quotient_digits, quotient_type};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    count: u64,
    sum: i256,
    squares: i256,
}

/// The type in which an argument is taken that is summed exactly.
pub(super) fn input_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => DataType::Int16,
        DataType::UInt16 | DataType::Int32 => DataType::Int32,
        DataType::UInt32 | DataType::Int64 => DataType::Int64,
        DataType::Decimal128(..) | DataType::Decimal256(..) => data_type.clone(),
        _ => return None,
    })
}

pub(super) fn scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(0),
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

pub(super) fn result_type(moment: Moment, data_type: &DataType) -> DataType {
    let (whole, scale) = match data_type {
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Decimal128(precision, scale) => (i32::from(*precision) - i32::from(*scale), *scale),
        _ => (19, scale(data_type).unwrap_or(0)),
    };
    match moment {
        // A root has the digits of what it is taken of: their number does not follow from its own size.
        Moment::StddevPop | Moment::StddevSamp => DataType::Decimal256(76, scale.max(QUOTIENT_SCALE)),
        _ => quotient_type(2 * whole, scale.saturating_mul(2)),
    }
}

pub(super) fn state_types(scale: i8) -> Vec<DataType> {
    vec![
        DataType::UInt64,
        DataType::Decimal256(76, scale),
        DataType::Decimal256(76, scale.saturating_mul(2).min(76)),
    ]
}

fn overflow() -> DataFusionError {
    fail_out_of_range("value overflows numeric format")
}

pub(super) fn add(sums: &mut [Sums], values: &ArrayRef, group: impl Fn(usize) -> Option<usize>) -> Result<()> {
    let scale = scale(values.data_type()).unwrap_or(0);
    let values = cast(values, &DataType::Decimal256(76, scale))?;
    let values = values.as_primitive::<Decimal256Type>();
    for row in 0..values.len() {
        if values.is_null(row) {
            continue;
        }
        let Some(group) = group(row) else { continue };
        let (own, value) = (&mut sums[group], values.value(row));
        own.count += 1;
        own.sum = own.sum.checked_add(value).ok_or_else(overflow)?;
        let square = value.checked_mul(value).ok_or_else(overflow)?;
        own.squares = own.squares.checked_add(square).ok_or_else(overflow)?;
    }
    Ok(())
}

pub(super) fn state(scale: i8, sums: &[Sums]) -> Vec<ArrayRef> {
    let types = state_types(scale);
    let wide = |of: fn(&Sums) -> i256, data_type: &DataType| -> ArrayRef {
        let values = Decimal256Array::from_iter_values(sums.iter().map(of));
        Arc::new(values.with_data_type(data_type.clone()))
    };
    vec![
        Arc::new(UInt64Array::from_iter_values(sums.iter().map(|sums| sums.count))),
        wide(|sums| sums.sum, &types[1]),
        wide(|sums| sums.squares, &types[2]),
    ]
}

pub(super) fn combine(sums: &mut [Sums], states: &[ArrayRef], group: impl Fn(usize) -> usize) -> Result<()> {
    let counts = states[0].as_primitive::<UInt64Type>();
    let [sum, squares] = [1, 2].map(|at| states[at].as_primitive::<Decimal256Type>());
    for row in 0..counts.len() {
        let own = &mut sums[group(row)];
        own.count += counts.value(row);
        own.sum = own.sum.checked_add(sum.value(row)).ok_or_else(overflow)?;
        own.squares = own.squares.checked_add(squares.value(row)).ok_or_else(overflow)?;
    }
    Ok(())
}

pub(super) fn results(sums: &[Sums], scale: i8, moment: Moment, data_type: &DataType) -> Result<ArrayRef> {
    let results = sums.iter().map(|sums| sums.result(scale, moment, data_type));
    match data_type {
        DataType::Decimal128(..) => {
            let mut out = Decimal128Builder::new().with_data_type(data_type.clone());
            for result in results {
                out.append_option(result?.map(|wide| wide.to_i128().ok_or_else(overflow)).transpose()?);
            }
            Ok(Arc::new(out.finish()))
        }
        _ => {
            let mut out = Decimal256Builder::new().with_data_type(data_type.clone());
            for result in results {
                out.append_option(result?);
            }
            Ok(Arc::new(out.finish()))
        }
    }
}

impl Sums {
    fn result(&self, scale: i8, moment: Moment, data_type: &DataType) -> Result<Option<i256>> {
        let of_sample = matches!(moment, Moment::VarSamp | Moment::StddevSamp);
        if self.count == 0 || of_sample && self.count == 1 {
            return Ok(None);
        }
        let held = match data_type {
            DataType::Decimal128(_, held) | DataType::Decimal256(_, held) => *held,
            _ => 0,
        };
        self.reckoned(scale, (moment, of_sample), held)
            .map(Some)
            .ok_or_else(overflow)
    }

    /// None where it does not fit.
    fn reckoned(&self, scale: i8, (moment, of_sample): (Moment, bool), held: i8) -> Option<i256> {
        let count = i256::from_i128(self.count.into());
        let over = count
            .checked_mul(self.squares)?
            .checked_sub(self.sum.checked_mul(self.sum)?)?;
        if over <= i256::ZERO {
            return Some(i256::ZERO);
        }
        let under = match of_sample {
            true => count.checked_mul(count.checked_sub(i256::ONE)?)?,
            false => count.checked_mul(count)?,
        };
        let (over, under) = ((over, scale.checked_mul(2)?), (under, 0));
        let variance = divide(over, under, held)?;
        if !matches!(moment, Moment::StddevPop | Moment::StddevSamp) {
            return Some(variance);
        }
        // The root has as many digits as the variance.
        let ten = i256::from_i128(10);
        let unit = ten.checked_pow((held - quotient_digits(over, under, held)) as u32)?;
        let root = root(variance.checked_mul(ten.checked_pow(held as u32)?)?)?;
        let half = unit.checked_div(i256::from_i128(2))?;
        root.checked_add(half)?.checked_div(unit)?.checked_mul(unit)
    }
}

/// The square root, rounded.
fn root(value: i256) -> Option<i256> {
    let two = i256::from_i128(2);
    let mut low = i256::ZERO;
    // More than the root of any number of 255 bits.
    let mut high = i256::from_i128(i128::MAX);
    while low < high {
        let middle = low.checked_add(high)?.checked_add(i256::ONE)?.checked_div(two)?;
        match middle.checked_mul(middle) {
            Some(square) if square <= value => low = middle,
            _ => high = middle.checked_sub(i256::ONE)?,
        }
    }
    let rest = value.checked_sub(low.checked_mul(low)?)?;
    Some(if rest > low { low.checked_add(i256::ONE)? } else { low })
}
