//! Columns of lists, of ranges, of records, of `jsonb` and of bit strings: their buffers at every level copied into the segment's memory.

use crate::arena::Piece;
use crate::error::Result;
use arrow::array::*;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use std::sync::Arc;

/// The rows of many arrays as one, which holds nothing besides them.
pub(super) fn gather(arrays: &[ArrayRef]) -> Result<ArrayData> {
    // Beside an empty array even a single one is copied, without what its slice leaves out.
    let empty = arrays.first().map(|array| new_empty_array(array.data_type()));
    let all: Vec<&dyn Array> = arrays
        .iter()
        .map(|array| array.as_ref())
        .chain(empty.as_deref())
        .collect();
    Ok(compact(&concat(&all)?)?.to_data())
}

/// Strings without the buffers' parts that no view refers to.
fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let values = compact(list.values())?;
            Arc::new(ListArray::try_new(
                item.clone(),
                list.offsets().clone(),
                values,
                list.nulls().cloned(),
            )?)
        }
        DataType::Struct(fields) if !fields.is_empty() => {
            let records = array.as_struct();
            let columns = records.columns().iter().map(compact).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, records.nulls().cloned())?)
        }
        _ => array.clone(),
    })
}

/// Bytes of each buffer, in the order that `copy` fills them.
pub(super) fn sizes(data: &ArrayData, out: &mut Vec<usize>) {
    if let Some(nulls) = data.nulls() {
        out.push(nulls.len().div_ceil(8));
    }
    out.extend(data.buffers().iter().map(|buffer| buffer.len()));
    data.child_data().iter().for_each(|child| sizes(child, out));
}

/// The same array in the pieces that `next` gives.
pub(super) fn copy(data: &ArrayData, next: &mut impl FnMut() -> Result<Piece>) -> Result<ArrayData> {
    let nulls = match data.nulls() {
        Some(nulls) => {
            let mut piece = next()?;
            let mut bits = BooleanBufferBuilder::new(nulls.len());
            bits.append_buffer(nulls.inner());
            let bits = bits.finish();
            let target = piece.bytes_mut();
            target.copy_from_slice(&bits.values()[..target.len()]);
            Some(NullBuffer::new(BooleanBuffer::new(piece.freeze(), 0, nulls.len())))
        }
        None => None,
    };
    let mut buffers = Vec::with_capacity(data.buffers().len());
    for buffer in data.buffers() {
        let mut piece = next()?;
        piece.bytes_mut().copy_from_slice(buffer.as_slice());
        buffers.push(piece.freeze());
    }
    let children = data.child_data().iter().map(|child| copy(child, next));
    let children = children.collect::<Result<Vec<_>>>()?;
    let built = ArrayData::builder(data.data_type().clone())
        .len(data.len())
        .offset(data.offset())
        .nulls(nulls)
        .buffers(buffers)
        .child_data(children);
    Ok(built.build()?)
}
