//! Columns on both sides of the bus.

use std::ops::Range;

use crate::error::Result;
use crate::join::triton::{HostKeys, HostSide, HostValues};
use crate::join::{Keys, Side};
use crate::memory::{DeviceBuffer, DeviceView, host_to_device};
use crate::primitives::fill::iota;
use crate::stream::Stream;

/// A column of 4 or 8 bytes in host memory.
pub type HostColumn<'a> = HostKeys<'a>;

impl HostColumn<'_> {
    pub(super) fn rows(&self) -> u64 {
        match self {
            HostKeys::U32(column) => column.len() as u64,
            HostKeys::U64(column) => column.len() as u64,
        }
    }
}

/// Room for some rows of a column in device memory.
pub(super) enum DeviceColumn {
    U32(DeviceBuffer<u32>),
    U64(DeviceBuffer<u64>),
}

impl DeviceColumn {
    /// Of the host column's type.
    pub fn alloc(stream: &Stream, column: HostColumn<'_>, rows: u64) -> Result<DeviceColumn> {
        Ok(match column {
            HostKeys::U32(_) => DeviceColumn::U32(stream.alloc(rows)?),
            HostKeys::U64(_) => DeviceColumn::U64(stream.alloc(rows)?),
        })
    }

    /// Puts the copy of these rows into the stream.
    ///
    /// # Safety
    /// The column stays until the stream has passed the copy; it is of this type, and the rows fit.
    pub unsafe fn fill(&mut self, copies: &Stream, column: HostColumn<'_>, rows: &Range<u64>) -> Result<()> {
        let target = self.part(rows.end - rows.start)?.address();
        let places = rows.start as usize..rows.end as usize;
        let (source, bytes) = match column {
            HostKeys::U32(column) => (column[places.clone()].as_ptr().cast(), places.len() * 4),
            HostKeys::U64(column) => (column[places.clone()].as_ptr().cast(), places.len() * 8),
        };
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the slice above has these bytes; the target was checked, and stays by the caller's promise.
        unsafe { host_to_device(copies, target, source, bytes) }
    }

    /// The first rows.
    pub fn part(&self, rows: u64) -> Result<Keys<'_>> {
        Ok(match self {
            DeviceColumn::U32(column) => Keys::U32(column.slice(..rows)?),
            DeviceColumn::U64(column) => Keys::U64(column.slice(..rows)?),
        })
    }
}

/// The columns of a side: its keys, and its row numbers where they are not those of the keys' places.
pub(super) fn columns<'a>(side: &HostSide<'a>) -> Vec<HostColumn<'a>> {
    match side.values {
        HostValues::Rows => vec![side.keys],
        HostValues::U32(rows) => vec![side.keys, HostKeys::U32(rows)],
        HostValues::U64(values) => vec![side.keys, HostKeys::U64(values)],
    }
}

/// The build side of a join, arrived.
pub struct DeviceSide {
    pub(super) columns: Vec<DeviceColumn>,
    pub(super) keys: u64,
    pub(super) row_count: u64,
}

impl DeviceSide {
    /// The join's side.
    pub fn side(&self) -> Result<Side<'_>> {
        let keys = self.columns[0].part(self.keys)?;
        let rows: Option<DeviceView<'_, u32>> = match self.columns.get(1) {
            Some(DeviceColumn::U32(rows)) => Some(rows.slice(..self.keys)?),
            _ => None,
        };
        Side::with_rows(keys, rows, self.row_count)
    }
}

/// The numbers of a chunk's rows, where the keys' places are their rows.
pub(super) fn row_numbers(stream: &Stream, chunk: &Range<u64>) -> Result<DeviceBuffer<u32>> {
    let mut rows = stream.alloc::<u32>(chunk.end - chunk.start)?;
    iota(stream, rows.view_mut(), chunk.start as u32)?;
    Ok(rows)
}
