//! Strings and byte strings one behind the other, each found by a 32-bit offset. Whoever reads rows gets views (16 bytes a
//! row) that refer to the segment's own bytes.

use super::rows::RowSelection;
use crate::arena::Piece;
use crate::error::{ErrorKind, Result, StorageError};
use arrow::array::*;
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{ByteViewType, DataType};
use std::sync::Arc;

/// A column of texts.
#[derive(Clone, Debug)]
pub struct TextColumn {
    /// Where each row's bytes begin, and where the last one's end.
    offsets: ScalarBuffer<u32>,
    /// The texts, and behind them `PADDING_BYTES` more.
    data: Buffer,
    /// What views refer to: that buffer, or none where every view holds its text.
    buffers: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
    /// `Utf8View` or `BinaryView`.
    data_type: DataType,
}

/// So many bytes are read from where any row's begin.
const PADDING_BYTES: usize = 16;
/// Most bytes of a column; views hold offsets of 31 bits.
const DATA_BYTES_MAX: usize = 1 << 30;

/// The sizes of the buffers for these rows, which are strings or byte strings as views; None: they are too long.
pub(super) fn sizes<T: ByteViewType>(arrays: &[ArrayRef]) -> Option<[usize; 2]> {
    let rows: usize = arrays.iter().map(|array| array.len()).sum();
    let bytes = |array: &ArrayRef| -> usize {
        let array = array.as_byte_view::<T>();
        array
            .lengths()
            .enumerate()
            .map(|(row, length)| if array.is_valid(row) { length as usize } else { 0 })
            .sum()
    };
    let bytes: usize = arrays.iter().map(bytes).sum();
    (bytes <= DATA_BYTES_MAX).then_some([(rows + 1) * size_of::<u32>(), bytes + PADDING_BYTES])
}

/// `sizes` of rows that lie one behind the other between these offsets.
pub(super) fn sizes_of_offsets(offsets: &[i32]) -> Option<[usize; 2]> {
    let bytes = offsets.last()?.checked_sub(*offsets.first()?)? as usize;
    (bytes <= DATA_BYTES_MAX).then_some([size_of_val(offsets), bytes + PADDING_BYTES])
}

impl TextColumn {
    /// The rows between these offsets of `data` in pieces of the sizes that `sizes_of_offsets` says. What cannot be offsets is
    /// an error.
    ///
    /// # Safety
    /// For `Utf8View`, each row is a valid string.
    pub(super) unsafe fn of_offsets(
        data_type: DataType,
        offsets: &[i32],
        data: &[u8],
        nulls: Option<NullBuffer>,
        mut to_offsets: Piece,
        mut to_data: Piece,
    ) -> Result<TextColumn> {
        let wrong = || StorageError::new(ErrorKind::DataCorrupted, "texts do not lie one behind the other");
        let (first, last) = (*offsets.first().ok_or_else(wrong)?, *offsets.last().ok_or_else(wrong)?);
        let texts = data.get(first as usize..last as usize).filter(|_| first >= 0);
        let texts = texts.ok_or_else(wrong)?;
        let slots = to_offsets.bytes_mut().chunks_exact_mut(size_of::<u32>());
        for (slot, offset) in slots.zip(offsets) {
            slot.copy_from_slice(&(offset.wrapping_sub(first) as u32).to_ne_bytes());
        }
        let lengths = offsets.windows(2).map(|ends| ends[1].wrapping_sub(ends[0]));
        let (shortest, longest) = lengths.fold((0, 0), |(low, high), length| (length.min(low), length.max(high)));
        if shortest < 0 {
            return Err(wrong());
        }
        let target = to_data.bytes_mut().get_mut(..texts.len()).ok_or_else(wrong)?;
        target.copy_from_slice(texts);
        let data = to_data.freeze();
        Ok(TextColumn {
            offsets: ScalarBuffer::new(to_offsets.freeze(), 0, offsets.len()),
            buffers: TextColumn::buffers(&data, longest as usize),
            data,
            nulls,
            data_type,
        })
    }

    /// What the views of texts of which the longest has so many bytes refer to.
    fn buffers(data: &Buffer, longest: usize) -> Arc<[Buffer]> {
        match longest <= MAX_INLINE_VIEW_LEN as usize {
            true => [].into(),
            false => [data.clone()].into(),
        }
    }

    /// The rows of `arrays` in pieces of the sizes that `sizes` says.
    pub(super) fn new<T: ByteViewType>(
        arrays: &[ArrayRef],
        nulls: Option<NullBuffer>,
        mut offsets: Piece,
        mut data: Piece,
    ) -> Result<TextColumn> {
        let rows = arrays.iter().map(|array| array.len()).sum::<usize>();
        let mut slots = offsets.bytes_mut().chunks_exact_mut(size_of::<u32>());
        let target = data.bytes_mut();
        let (mut end, mut longest) = (0_usize, 0_usize);
        let mut put = |end: usize| {
            if let Some(slot) = slots.next() {
                slot.copy_from_slice(&(end as u32).to_ne_bytes());
            }
        };
        put(0);
        for array in arrays {
            let array = array.as_byte_view::<T>();
            for row in 0..array.len() {
                if array.is_valid(row) {
                    // SAFETY: `row` is within the array.
                    let value: &[u8] = unsafe { array.value_unchecked(row) }.as_ref();
                    let place = target.get_mut(end..end + value.len());
                    place
                        .ok_or_else(|| StorageError::internal("a column's texts are longer than they were"))?
                        .copy_from_slice(value);
                    end += value.len();
                    longest = longest.max(value.len());
                }
                put(end);
            }
        }
        let data = data.freeze();
        Ok(TextColumn {
            offsets: ScalarBuffer::new(offsets.freeze(), 0, rows + 1),
            buffers: TextColumn::buffers(&data, longest),
            data,
            nulls,
            data_type: T::DATA_TYPE,
        })
    }

    /// Where texts end in `data`: one entry more than rows, the first 0.
    pub fn offsets(&self) -> &ScalarBuffer<u32> {
        &self.offsets
    }

    /// The texts' bytes, one after the other.
    pub fn data(&self) -> &Buffer {
        &self.data
    }

    /// Which rows are not null; None: all.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Bytes of the values that do not fit into a view.
    pub(super) fn long_bytes(&self) -> usize {
        let lengths = self.offsets.windows(2).map(|ends| ends[1] - ends[0]);
        lengths
            .filter(|length| *length > MAX_INLINE_VIEW_LEN)
            .map(|length| length as usize)
            .sum()
    }

    /// The rows as views.
    pub(super) fn decode(&self, rows: RowSelection<'_>) -> ArrayRef {
        let data = self.data.as_slice();
        let view = |start: u32, end: u32| view(data, start, end - start);
        let views: Vec<u128> = match rows {
            RowSelection::Run { offset, rows } => {
                let offsets = &self.offsets[offset..=offset + rows];
                offsets.windows(2).map(|ends| view(ends[0], ends[1])).collect()
            }
            RowSelection::Picked(picked) => {
                let row = |row: &u32| view(self.offsets[*row as usize], self.offsets[*row as usize + 1]);
                picked.iter().map(row).collect()
            }
            RowSelection::Runs(runs) => {
                let mut views = Vec::with_capacity(runs.rows());
                for run in runs.iter() {
                    let offsets = &self.offsets[run.start..=run.end];
                    views.extend(offsets.windows(2).map(|ends| view(ends[0], ends[1])));
                }
                views
            }
        };
        let (views, nulls) = (ScalarBuffer::from(views), rows.nulls(self.nulls.as_ref()));
        let buffers = self.buffers.clone();
        // SAFETY: each view is of bytes that were one valid value, and long ones refer to the only buffer.
        unsafe {
            match self.data_type {
                DataType::Utf8View => Arc::new(StringViewArray::new_unchecked(views, buffers, nulls)),
                _ => Arc::new(BinaryViewArray::new_unchecked(views, buffers, nulls)),
            }
        }
    }
}

/// The view of `length` bytes from `start` of buffer 0.
fn view(data: &[u8], start: u32, length: u32) -> u128 {
    let at = start as usize;
    let mut first = [0; PADDING_BYTES];
    first.copy_from_slice(&data[at..at + PADDING_BYTES]);
    let first = u128::from_le_bytes(first);
    match length <= MAX_INLINE_VIEW_LEN {
        true => (first & !(u128::MAX << (8 * length))) << 32 | u128::from(length),
        false => u128::from(start) << 96 | u128::from(first as u32) << 32 | u128::from(length),
    }
}
