//! What arrays hold in memory: one account for all that keep batches.
//!
//! Arrow's own `get_slice_memory_size` leaves out the strings behind views, and `get_array_memory_size` counts the whole
//! of what a slice is cut from.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// What may be wasted without a copy being worth its while.
const SLACK: usize = 4096;

/// Bytes that the rows of `array` take: those of views are the strings, or the buffers where these are smaller (rows that
/// share a dictionary's strings).
pub fn array_bytes(array: &dyn Array) -> usize {
    let viewed = |used: usize, buffers: &[arrow::buffer::Buffer]| {
        used.min(buffers.iter().map(|buffer| buffer.capacity()).sum()) + array.len() * size_of::<u128>()
    };
    let validity = array.nulls().map_or(0, |_| array.len().div_ceil(8));
    match array.data_type() {
        DataType::Utf8View => {
            let views = array.as_string_view();
            viewed(views.total_buffer_bytes_used(), views.data_buffers()) + validity
        }
        DataType::BinaryView => {
            let views = array.as_binary_view();
            viewed(views.total_buffer_bytes_used(), views.data_buffers()) + validity
        }
        DataType::Struct(_) => {
            let fields = array.as_struct().columns();
            fields.iter().map(|field| array_bytes(field)).sum::<usize>() + validity
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (start, end) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
            let values = list.values().slice(start as usize, (end - start) as usize);
            array_bytes(&values) + size_of_val(list.value_offsets()) + validity
        }
        _ => array.to_data().get_slice_memory_size().unwrap_or_default(),
    }
}

pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column)).sum()
}

/// `array` in memory of its own, if what it is cut from is more than twice as large as its rows.
pub fn compacted(array: &ArrayRef) -> Result<ArrayRef> {
    let owned = array.get_buffer_memory_size();
    if owned <= 2 * array_bytes(array) + SLACK {
        return Ok(array.clone());
    }
    Ok(match array.data_type() {
        DataType::Utf8View => std::sync::Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => std::sync::Arc::new(array.as_binary_view().gc()),
        _ => take(array, &UInt32Array::from_iter_values(0..array.len() as u32), None)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, ListArray, StringViewArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;
    use std::sync::Arc;

    fn strings(rows: usize) -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(
            (0..rows).map(|row| format!("{row:0100}")),
        ))
    }

    #[test]
    fn strings_behind_views_are_counted_once() {
        let all = strings(1000);
        assert_eq!(array_bytes(&all), 1000 * (16 + 100));
        assert_eq!(array_bytes(&all.slice(10, 5)), 5 * (16 + 100));
        let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let list = ListArray::new(
            Arc::clone(&field),
            OffsetBuffer::from_lengths([400, 600]),
            Arc::clone(&all),
            None,
        );
        assert_eq!(array_bytes(&list), 1000 * 116 + 3 * 4);
        assert_eq!(array_bytes(&list.slice(0, 1)), 400 * 116 + 2 * 4);
        let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let both = StructArray::from(vec![
            (field, all),
            (Arc::new(Field::new("number", DataType::Int64, false)), number),
        ]);
        assert_eq!(array_bytes(&both), 1000 * (116 + 8));
        // A thousand rows of one string of a dictionary: the block that it is in.
        let one = strings(1);
        let same = take(&one, &UInt32Array::from(vec![0; 1000]), None).unwrap();
        assert!(array_bytes(&same) < 1000 * 16 + 20_000, "{}", array_bytes(&same));
    }

    #[test]
    fn few_rows_of_a_long_array_are_copied() {
        for long in [
            strings(10_000),
            Arc::new(Int64Array::from_iter_values(0..10_000)) as ArrayRef,
        ] {
            let few = compacted(&long.slice(5000, 100)).unwrap();
            assert_eq!(&few, &long.slice(5000, 100));
            assert!(
                few.get_buffer_memory_size() < 100 * 150,
                "{}",
                few.get_buffer_memory_size()
            );
            let most = compacted(&long.slice(0, 9000)).unwrap();
            assert!(most.get_buffer_memory_size() > 9500 * 8);
        }
    }
}
