//! A segment's rows as bytes: an Arrow IPC stream of one batch, in which columns are as narrow as the segment keeps them.
//! A segment is built anew of what is read, so that files do not depend on the forms that segments have in memory.
//!
//! | the segment's form | a column of the batch |
//! | --- | --- |
//! | differences | unsigned integers, with the base in the field's metadata |
//! | one value for all rows | booleans that say which rows are null, likewise |
//! | text | strings or byte strings |
//! | codes | a dictionary of those strings that the segment has |
//! | runs | as their rows would be, one for each row |
//! | any other | as it is |

use super::image::corrupted;
use crate::catalog::TableDefinition;
use crate::error::{Result, StorageError};
use crate::memory::MemoryBudget;
use crate::segment::{Codes, DictionaryColumn, Differences, Form, NarrowColumn, Segment, TextColumn};
use arrow::array::*;
use arrow::buffer::{BooleanBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;

/// Names what differences are added to.
const BASE: &str = "base";

/// The rows of a segment.
pub(super) fn encode(segment: &Segment) -> Result<Vec<u8>> {
    let columns = (0..segment.columns()).map(|at| match segment.form(at) {
        Form::RunLength(column) => kept(column.expanded().form(), || segment.column(at)),
        form => kept(form, || segment.column(at)),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fields = columns.iter().enumerate().map(|(at, (array, base))| {
        let field = Field::new(at.to_string(), array.data_type().clone(), true);
        let metadata = base.map(|base| (BASE.to_string(), base.to_string()));
        field.with_metadata(metadata.into_iter().collect())
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(array, _)| array).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(segment.rows()));
    let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?;
    let mut writer = StreamWriter::try_new(Vec::with_capacity(segment.bytes() + 4096), &schema)?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

/// The column of a form, or as it is.
fn kept(form: Form<'_>, plain: impl FnOnce() -> ArrayRef) -> Result<(ArrayRef, Option<i128>)> {
    match form {
        Form::Narrow(column) => Ok(narrow(column)),
        Form::Text(column) => text(column),
        Form::Dictionary(column) => coded(column),
        Form::Plain(_) | Form::RunLength(_) => Ok((plain(), None)),
    }
}

fn narrow(column: &NarrowColumn) -> (ArrayRef, Option<i128>) {
    let nulls = column.nulls().cloned();
    let array: ArrayRef = match column.differences() {
        Differences::None(rows) => Arc::new(BooleanArray::new(BooleanBuffer::new_set(*rows), nulls)),
        Differences::U8(of) => Arc::new(UInt8Array::new(of.clone(), nulls)),
        Differences::U16(of) => Arc::new(UInt16Array::new(of.clone(), nulls)),
        Differences::U32(of) => Arc::new(UInt32Array::new(of.clone(), nulls)),
        Differences::U64(of) => Arc::new(UInt64Array::new(of.clone(), nulls)),
    };
    (array, Some(column.base()))
}

fn text(column: &TextColumn) -> Result<(ArrayRef, Option<i128>)> {
    let offsets = column.offsets();
    // Offsets of a column of texts fit 31 bits.
    let offsets = ScalarBuffer::<i32>::new(offsets.inner().clone(), 0, offsets.len());
    let offsets = OffsetBuffer::new(offsets);
    let (data, nulls) = (column.data().clone(), column.nulls().cloned());
    let array: ArrayRef = match column.data_type() {
        DataType::Utf8View => {
            // SAFETY: the texts were valid strings, one behind the other, and are not changed.
            Arc::new(unsafe { StringArray::new_unchecked(offsets, data, nulls) })
        }
        _ => Arc::new(BinaryArray::try_new(offsets, data, nulls)?),
    };
    Ok((array, None))
}

fn coded(column: &DictionaryColumn) -> Result<(ArrayRef, Option<i128>)> {
    let codes: Vec<u32> = match &column.codes {
        Codes::U8(codes) => codes.iter().map(|code| u32::from(*code)).collect(),
        Codes::U16(codes) => codes.iter().map(|code| u32::from(*code)).collect(),
        Codes::U32(codes) => codes.to_vec(),
    };
    let all = column.values();
    let mut places: Vec<Option<u32>> = vec![None; all.len()];
    let mut used = Vec::new();
    let mut keys = Vec::with_capacity(codes.len());
    for (row, code) in codes.into_iter().enumerate() {
        let valid = column.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        keys.push(valid.then(|| {
            *places[code as usize].get_or_insert_with(|| {
                used.push(code);
                (used.len() - 1) as u32
            })
        }));
    }
    let values = used.iter().map(|code| Some(all.value(*code as usize)));
    let values = Arc::new(values.collect::<StringArray>());
    let array: ArrayRef = match used.len() <= 1 << 16 {
        true => {
            let keys = keys.iter().map(|key| key.map(|key| key as u16));
            Arc::new(DictionaryArray::try_new(keys.collect::<UInt16Array>(), values)?)
        }
        false => Arc::new(DictionaryArray::try_new(UInt32Array::from(keys), values)?),
    };
    Ok((array, None))
}

/// The segment of rows that `encode` gave, for a table of this definition.
pub(super) fn decode(
    bytes: &[u8],
    id: u64,
    definition: &TableDefinition,
    budget: &Arc<MemoryBudget>,
) -> Result<Arc<Segment>> {
    let mut reader = StreamReader::try_new(bytes, None)?;
    let batch = reader.next().ok_or_else(|| corrupted("a segment has no rows"))??;
    if batch.num_columns() != definition.columns.len() {
        return Err(corrupted(format!(
            "a segment has {} columns, its table {}",
            batch.num_columns(),
            definition.columns.len()
        )));
    }
    let schema = batch.schema();
    let columns = batch.columns().iter().zip(schema.fields()).zip(&definition.columns);
    let columns = columns.map(|((array, field), column)| {
        let data_type = column.sql_type.data_type();
        match field.metadata().get(BASE) {
            Some(base) => widened(array, base, data_type),
            None if *array.data_type() == data_type => Ok(array.clone()),
            None => Ok(cast(array, &data_type)?),
        }
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let columns: Vec<Vec<&ArrayRef>> = columns.iter().map(|array| vec![array]).collect();
    Segment::restore(id, &columns, &definition.dictionaries, batch.num_rows(), budget)
}

/// Values of differences from a base.
fn widened(array: &ArrayRef, base: &str, data_type: DataType) -> Result<ArrayRef> {
    let base = base.parse().map_err(|_| corrupted(format!("a base is \"{base}\"")))?;
    let differences = match array.data_type() {
        DataType::Boolean => Differences::None(array.len()),
        DataType::UInt8 => Differences::U8(array.as_primitive::<UInt8Type>().values().clone()),
        DataType::UInt16 => Differences::U16(array.as_primitive::<UInt16Type>().values().clone()),
        DataType::UInt32 => Differences::U32(array.as_primitive::<UInt32Type>().values().clone()),
        DataType::UInt64 => Differences::U64(array.as_primitive::<UInt64Type>().values().clone()),
        other => return Err(StorageError::internal(format!("differences of type {other}"))),
    };
    NarrowColumn::decoded(data_type, base, differences, array.nulls().cloned())
}
