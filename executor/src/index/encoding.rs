//! Keys in a form whose order is that of unsigned numbers or of bytes.
//!
//! A key of one column of at most 8 bytes is a word. Other keys are bytes: one column after the other in Arrow's row
//! format, whose byte order is the columns' order, so that the encoding of the first columns is a prefix of the whole.
//! Floats that SQL takes as equal (zeros, NaNs) get one encoding.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;

use tenon_storage::numeric::compare_key;

use crate::keys::{append_integer_keys, is_integer_key};

/// Flips the sign: two's complement in the order of unsigned numbers.
const SIGN: u64 = 1 << 63;

/// What a NULL's encoding begins with: nothing else does.
const NULL: u8 = 0xFF;

/// How the keys of some column types are encoded.
#[derive(Debug)]
pub struct KeyEncoding {
    types: Vec<DataType>,
    whole: RowConverter,
    /// One a column.
    single: Vec<RowConverter>,
}

/// Keys of some rows.
pub enum EncodedKeys {
    /// Those of NULLs are any words.
    Words(Vec<u64>),
    Rows(Rows),
}

/// A set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRange {
    Words {
        low: u64,
        high: u64,
    },
    /// `high` is beyond the range; None: there is no end.
    Bytes {
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    },
}

impl KeyRange {
    /// All keys that begin with some bytes.
    pub fn beginning_with(prefix: Vec<u8>) -> Self {
        let mut high = prefix.clone();
        increment(&mut high);
        KeyRange::Bytes {
            low: prefix,
            high: (!high.is_empty()).then_some(high),
        }
    }
}

impl KeyEncoding {
    /// None where the order of a type's encoding is not the order that SQL compares it in.
    pub fn of(types: Vec<DataType>) -> Option<Self> {
        let fits = |data_type: &DataType| {
            is_word(data_type)
                || matches!(
                    data_type,
                    DataType::Utf8View
                        | DataType::BinaryView
                        | DataType::Binary
                        | DataType::FixedSizeBinary(_)
                        | DataType::Decimal128(..)
                        | DataType::LargeBinary
                )
        };
        if !types.iter().all(fits) {
            return None;
        }
        let options = SortOptions {
            descending: false,
            nulls_first: false,
        };
        let fields = |types: &[DataType]| {
            let fields = types.iter().map(|t| SortField::new_with_options(t.clone(), options));
            RowConverter::new(fields.collect()).ok()
        };
        Some(Self {
            whole: fields(&types)?,
            single: types
                .iter()
                .map(|t| fields(std::slice::from_ref(t)))
                .collect::<Option<_>>()?,
            types,
        })
    }

    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Whether keys are words.
    pub fn is_word(&self) -> bool {
        matches!(&self.types[..], [data_type] if is_word(data_type))
    }

    /// The keys of rows.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<EncodedKeys> {
        if self.is_word() {
            return Ok(EncodedKeys::Words(words(&columns[0])?));
        }
        let columns: Vec<ArrayRef> = columns.iter().map(normalized).collect();
        Ok(EncodedKeys::Rows(self.whole.convert_columns(&columns)?))
    }

    /// The keys whose first columns have the values of `prefix` (each an array of one), and whose next column lies
    /// between `low` and `high`, both among them. Without NULLs in the next column if it is bounded.
    pub fn range(&self, prefix: &[ArrayRef], low: Option<&ArrayRef>, high: Option<&ArrayRef>) -> Result<KeyRange> {
        if self.is_word() {
            let word = |value: &ArrayRef| Ok::<_, datafusion::error::DataFusionError>(words(value)?[0]);
            let (low, high) = match prefix.first() {
                Some(value) => (Some(value), Some(value)),
                None => (low, high),
            };
            return Ok(KeyRange::Words {
                low: low.map(word).transpose()?.unwrap_or(0),
                high: high.map(word).transpose()?.unwrap_or(u64::MAX),
            });
        }
        let mut equal = Vec::new();
        for (at, value) in prefix.iter().enumerate() {
            self.append(at, value, &mut equal)?;
        }
        let (mut from, mut to) = (equal.clone(), equal);
        match high {
            Some(high) => {
                self.append(prefix.len(), high, &mut to)?;
                increment(&mut to);
            }
            None if low.is_some() => to.push(NULL),
            None => increment(&mut to),
        }
        if let Some(low) = low {
            self.append(prefix.len(), low, &mut from)?;
        }
        Ok(KeyRange::Bytes {
            low: from,
            high: (!to.is_empty()).then_some(to),
        })
    }

    /// For keys that are bytes: what the keys begin with whose first columns have these values.
    pub fn prefixes(&self, columns: &[ArrayRef]) -> Result<Vec<Vec<u8>>> {
        let mut prefixes = vec![vec![]; columns.first().map_or(0, |column| column.len())];
        for (converter, column) in self.single.iter().zip(columns) {
            let rows = converter.convert_columns(&[normalized(column)])?;
            for (prefix, row) in prefixes.iter_mut().zip(rows.iter()) {
                prefix.extend_from_slice(row.data());
            }
        }
        Ok(prefixes)
    }

    fn append(&self, column: usize, value: &ArrayRef, out: &mut Vec<u8>) -> Result<()> {
        let rows = self.single[column].convert_columns(&[normalized(value)])?;
        out.extend_from_slice(rows.row(0).data());
        Ok(())
    }
}

fn is_word(data_type: &DataType) -> bool {
    is_integer_key(data_type) || matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// The words of a column.
fn words(column: &ArrayRef) -> Result<Vec<u64>> {
    Ok(match column.data_type() {
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>().values();
            values.iter().map(|value| float_word(f64::from(*value))).collect()
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().values();
            values.iter().map(|value| float_word(*value)).collect()
        }
        _ => {
            let mut integers = Vec::with_capacity(column.len());
            append_integer_keys(column, &mut integers)?;
            integers.into_iter().map(|integer| integer as u64 ^ SIGN).collect()
        }
    })
}

/// The bits of a float in the order of unsigned numbers.
fn float_word(value: f64) -> u64 {
    let bits = canonical(value).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn canonical(value: f64) -> f64 {
    if value.is_nan() {
        f64::NAN.copysign(1.0)
    } else {
        // -0 + 0 is 0.
        value + 0.0
    }
}

fn normalized(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let floats = column.as_primitive::<Float32Type>();
            Arc::new(floats.unary::<_, Float32Type>(|value| canonical(f64::from(value)) as f32))
        }
        DataType::Float64 => Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(canonical)),
        // By their keys alone, so that values of different display scales are equal.
        DataType::LargeBinary => {
            let values = column.as_binary::<i64>();
            Arc::new(LargeBinaryArray::from_iter(
                values.iter().map(|value| value.map(compare_key)),
            ))
        }
        _ => Arc::clone(column),
    }
}

/// The first bytes after all that begin with these; empty where there are none.
fn increment(bytes: &mut Vec<u8>) {
    while let Some(last) = bytes.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return;
        }
        bytes.pop();
    }
}
