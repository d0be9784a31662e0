//! One input of a join.

use std::ops::Range;

use crate::error::{GpuError, Result};
use crate::memory::{DevicePtr, DeviceView};

/// Keys in device memory, compared as unsigned numbers.
#[derive(Clone, Copy)]
pub enum Keys<'a> {
    U32(DeviceView<'a, u32>),
    U64(DeviceView<'a, u64>),
}

impl<'a> From<DeviceView<'a, u32>> for Keys<'a> {
    fn from(keys: DeviceView<'a, u32>) -> Self {
        Keys::U32(keys)
    }
}

impl<'a> From<DeviceView<'a, u64>> for Keys<'a> {
    fn from(keys: DeviceView<'a, u64>) -> Self {
        Keys::U64(keys)
    }
}

impl<'a> Keys<'a> {
    pub fn len(&self) -> u64 {
        match self {
            Keys::U32(keys) => keys.len(),
            Keys::U64(keys) => keys.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address, for a kernel's parameters.
    pub(crate) fn address(&self) -> u64 {
        match self {
            Keys::U32(keys) => keys.ptr().0,
            Keys::U64(keys) => keys.ptr().0,
        }
    }

    /// The type's name in kernel sources.
    pub fn c_name(&self) -> &'static str {
        match self {
            Keys::U32(_) => "u32",
            Keys::U64(_) => "u64",
        }
    }

    /// A part of them.
    pub fn slice(&self, range: Range<u64>) -> Result<Keys<'a>> {
        Ok(match self {
            Keys::U32(keys) => Keys::U32(keys.slice(range)?),
            Keys::U64(keys) => Keys::U64(keys.slice(range)?),
        })
    }

    /// For a kernel's parameters.
    pub fn ptr(&self) -> DevicePtr<u8> {
        DevicePtr::new(match self {
            Keys::U32(keys) => keys.ptr().0,
            Keys::U64(keys) => keys.ptr().0,
        })
    }

    /// Bytes of one key.
    pub fn width(&self) -> u64 {
        match self {
            Keys::U32(_) => 4,
            Keys::U64(_) => 8,
        }
    }
}

/// The keys of one input, and which of its rows they belong to.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub keys: Keys<'a>,
    /// The row of each key; `None`: key `i` is row `i`'s. Rows with a null key are left out.
    pub rows: Option<DeviceView<'a, u32>>,
    /// Rows of the input, with those left out. Below 2^32 - 1: row numbers are 32 bits, and all ones is no row.
    pub row_count: u64,
}

impl<'a> Side<'a> {
    /// A side where every row has a key.
    pub fn new(keys: Keys<'a>) -> Result<Side<'a>> {
        Side::with_rows(keys, None, keys.len())
    }

    /// A side whose key `i` belongs to row `rows[i]`, in ascending order, of `row_count` rows.
    pub fn with_rows(keys: Keys<'a>, rows: Option<DeviceView<'a, u32>>, row_count: u64) -> Result<Side<'a>> {
        let named = rows.map_or(keys.len(), |rows| rows.len());
        if named != keys.len() || row_count < keys.len() {
            return Err(GpuError::Invalid(format!(
                "a join side of {} keys with {named} row numbers and {row_count} rows",
                keys.len()
            )));
        }
        if row_count >= u32::MAX as u64 {
            return Err(GpuError::Invalid(format!(
                "a join side of {row_count} rows, at most 2^32 - 2"
            )));
        }
        Ok(Side { keys, rows, row_count })
    }
}
