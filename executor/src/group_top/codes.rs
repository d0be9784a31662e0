//! Values of a sort key as 64-bit integers in its order, as far as these tell them apart.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use datafusion::common::Result;

use crate::keys::{append_integer_keys, is_integer_key};

/// Whether `append_codes` takes columns of this type.
pub fn has_codes(data_type: &DataType) -> bool {
    is_integer_key(data_type)
        || matches!(
            data_type,
            DataType::Decimal128(..)
                | DataType::Float32
                | DataType::Float64
                | DataType::Utf8View
                | DataType::BinaryView
                | DataType::LargeBinary
        )
}

/// Appends a code for each row. Where one row sorts before another, its code is not greater; of rows that are equal by
/// PostgreSQL's comparison the codes are equal.
pub fn append_codes(array: &ArrayRef, options: SortOptions, codes: &mut Vec<u64>) -> Result<()> {
    let start = codes.len();
    match array.data_type() {
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            codes.extend(values.iter().map(|&value| of_float(value.into())));
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            codes.extend(values.iter().map(|&value| of_float(value)));
        }
        DataType::Decimal128(precision, _) if *precision > 18 => {
            let values = array.as_primitive::<Decimal128Type>().values();
            let narrow = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            codes.extend(values.iter().map(|&value| of_integer(narrow(value))));
        }
        DataType::Utf8View => {
            let values = array.as_string_view();
            codes.extend((0..values.len()).map(|row| of_bytes(values.value(row).as_bytes())));
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            codes.extend((0..values.len()).map(|row| of_bytes(values.value(row))));
        }
        DataType::LargeBinary => {
            let values = array.as_binary::<i64>();
            codes.extend((0..values.len()).map(|row| of_bytes(values.value(row))));
        }
        _ => {
            let mut integers = Vec::with_capacity(array.len());
            append_integer_keys(array.as_ref(), &mut integers)?;
            codes.extend(integers.into_iter().map(of_integer));
        }
    }
    let codes = &mut codes[start..];
    if options.descending {
        codes.iter_mut().for_each(|code| *code = !*code);
    }
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        let of_null = if options.nulls_first { 0 } else { u64::MAX };
        for (row, code) in codes.iter_mut().enumerate() {
            if nulls.is_null(row) {
                *code = of_null;
            }
        }
    }
    Ok(())
}

fn of_integer(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

/// In the total order of IEEE 754, but for the two zeros, which are one.
fn of_float(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
}

fn of_bytes(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(first)
}
