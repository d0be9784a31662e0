//! Strings and byte strings as views (16 bytes a row), and byte strings with 64-bit offsets: columns that are kept as their
//! arrays are.

use crate::arena::Piece;
use arrow::array::*;
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::ByteViewType;

/// Most bytes of one buffer of string data; views hold 32-bit offsets.
const DATA_BYTES_MAX: usize = 1 << 30;

/// Strings up to this length stand in their views.
const INLINE_BYTES_MAX: usize = 12;

/// Sizes of the buffers that strings too long for their views take, in the order that `copy_views` fills them.
pub(super) fn data_sizes<'a>(
    arrays: impl Iterator<Item = (&'a ScalarBuffer<u128>, Option<&'a NullBuffer>)>,
) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut last = 0_usize;
    for (views, nulls) in arrays {
        for (row, view) in views.iter().enumerate() {
            let length = *view as u32 as usize;
            if length > INLINE_BYTES_MAX && nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                if last + length > DATA_BYTES_MAX && last > 0 {
                    sizes.push(last);
                    last = 0;
                }
                last += length;
            }
        }
    }
    if last > 0 {
        sizes.push(last);
    }
    sizes
}

/// Writes the offsets and bytes of all rows.
pub(super) fn copy_offsets(arrays: &[ArrayRef], offsets: &mut Piece, data: &mut Piece) {
    let mut slots = offsets.bytes_mut().chunks_exact_mut(size_of::<i64>());
    let mut target = data.bytes_mut();
    let mut end = 0_i64;
    let mut put = |end: i64| {
        if let Some(slot) = slots.next() {
            slot.copy_from_slice(&end.to_ne_bytes());
        }
    };
    put(0);
    for array in arrays {
        let array = array.as_binary::<i64>();
        let own = array.value_offsets();
        let (start, stop) = (own[0], own[array.len()]);
        let bytes = &array.value_data()[start as usize..stop as usize];
        let (now, rest) = target.split_at_mut(bytes.len());
        now.copy_from_slice(bytes);
        target = rest;
        own[1..=array.len()].iter().for_each(|offset| put(end + offset - start));
        end += stop - start;
    }
}

/// Writes a view for every row, with the bytes of long values into `data`.
pub(super) fn copy_views<T: ByteViewType>(arrays: &[ArrayRef], views: &mut Piece, data: &mut [Piece]) {
    let mut slots = views.bytes_mut().chunks_exact_mut(size_of::<u128>());
    let mut data: Vec<&mut [u8]> = data.iter_mut().map(Piece::bytes_mut).collect();
    let (mut buffer, mut used) = (0_usize, 0_usize);
    for array in arrays {
        let array = array.as_byte_view::<T>();
        let buffers = array.data_buffers();
        for (row, (view, slot)) in array.views().iter().zip(&mut slots).enumerate() {
            let length = *view as u32 as usize;
            if length <= INLINE_BYTES_MAX {
                slot.copy_from_slice(&view.to_le_bytes());
            } else if array.is_valid(row) {
                let old = ByteView::from(*view);
                let start = old.offset as usize;
                let value = &buffers[old.buffer_index as usize].as_slice()[start..start + length];
                if used + length > data[buffer].len() {
                    (buffer, used) = (buffer + 1, 0);
                }
                data[buffer][used..used + length].copy_from_slice(value);
                let new = ByteView {
                    buffer_index: buffer as u32,
                    offset: used as u32,
                    ..old
                };
                slot.copy_from_slice(&new.as_u128().to_le_bytes());
                used += length;
            }
        }
    }
}
