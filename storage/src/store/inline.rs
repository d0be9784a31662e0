//! Rows within the record of their commit: those of a transaction that adds few take one record, and one write.
//!
//! ```text
//! payload = number of segments: u32, for each its number: u64 and bytes: u32, their rows, what the transaction changed (JSON)
//! rows    = bytes of the metadata: u32, an Arrow IPC record batch: metadata, data
//! ```
//! The batch has no schema: its columns are those of the table, with strings as they are without views. A table whose columns
//! become others has other segments.

use crate::catalog::TableDefinition;
use crate::error::{Result, StorageError};
use crate::memory::MemoryBudget;
use crate::segment::Segment;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::read_record_batch;
use arrow::ipc::root_as_message;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use std::collections::HashMap;
use std::sync::Arc;

/// Segments of so many rows lie in a record of their own.
const ROWS_MAX: usize = 1 << 10;
/// So do those whose rows take so many bytes, or more with others of their commit.
const BYTES_MAX: usize = 1 << 15;

/// Alignment of a batch's buffers.
const ALIGNMENT: usize = 8;

/// Segments that a commit brings, with their rows.
#[derive(Debug, Default)]
pub(crate) struct Inline(Vec<(u64, Vec<u8>)>);

impl Inline {
    /// Adds the rows of a segment, which `known` may have; false: it should have a record of its own.
    pub fn add(&mut self, segment: &Segment, known: &mut Inline) -> Result<bool> {
        if segment.rows() >= ROWS_MAX || segment.bytes() > BYTES_MAX {
            return Ok(false);
        }
        let known = known
            .0
            .iter()
            .position(|(id, _)| *id == segment.id())
            .map(|at| known.0.swap_remove(at));
        let own = match known {
            Some(own) => own,
            None => (segment.id(), encode(segment)?),
        };
        let bytes: usize = self.0.iter().map(|(_, rows)| rows.len()).sum();
        let fits = bytes + own.1.len() <= BYTES_MAX;
        if fits {
            self.0.push(own);
        }
        Ok(fits)
    }

    /// What stands before the changes in the payload.
    pub fn head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(4 + self.0.iter().map(|(_, rows)| rows.len() + 12).sum::<usize>());
        head.extend((self.0.len() as u32).to_le_bytes());
        for (id, rows) in &self.0 {
            head.extend(id.to_le_bytes());
            head.extend((rows.len() as u32).to_le_bytes());
        }
        self.0.iter().for_each(|(_, rows)| head.extend(rows));
        head
    }
}

/// A payload's segments with their rows, and the changes.
pub(super) struct Parts<'a> {
    pub segments: Vec<(u64, &'a [u8])>,
    pub changes: &'a [u8],
}

/// The parts of a payload; None: it has not all of them.
pub(super) fn parts(payload: &[u8]) -> Option<Parts<'_>> {
    let (count, mut heads) = payload.split_first_chunk()?;
    let count = u32::from_le_bytes(*count) as usize;
    let mut rows = heads.get(count.checked_mul(12)?..)?;
    let mut segments = vec![];
    for _ in 0..count {
        let (id, rest) = heads.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        heads = rest;
        let (own, others) = rows.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
        segments.push((u64::from_le_bytes(*id), own));
        rows = others;
    }
    Some(Parts {
        segments,
        changes: rows,
    })
}

/// What a column of strings is in the file.
fn stored_type(data_type: DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other,
    }
}

fn encode(segment: &Segment) -> Result<Vec<u8>> {
    let columns = (0..segment.columns()).map(|at| {
        let array = segment.column(at);
        match stored_type(array.data_type().clone()) {
            stored if stored == *array.data_type() => Ok(array),
            stored => Ok(cast(&array, &stored)?),
        }
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let fields = columns
        .iter()
        .map(|array| Field::new("", array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(segment.rows()));
    let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, arrow::ipc::MetadataVersion::V5)?;
    let mut tracker = DictionaryTracker::new(false);
    let generator = IpcDataGenerator::default();
    let (_, encoded) = generator.encode(&batch, &mut tracker, &options, &mut IpcWriteContext::default())?;
    let mut bytes = Vec::with_capacity(4 + encoded.ipc_message.len() + encoded.arrow_data.len());
    bytes.extend((encoded.ipc_message.len() as u32).to_le_bytes());
    bytes.extend(encoded.ipc_message);
    bytes.extend(encoded.arrow_data);
    Ok(bytes)
}

/// The segment of this number that a commit's payload has, for a table of this definition.
pub(super) fn decode(
    payload: &[u8],
    id: u64,
    definition: &TableDefinition,
    budget: &Arc<MemoryBudget>,
) -> Result<Arc<Segment>> {
    let segments = parts(payload).map_or_else(Vec::new, |parts| parts.segments);
    let rows = segments.into_iter().find(|(own, _)| *own == id);
    let (_, rows) = rows.ok_or_else(|| StorageError::corrupted("a commit has no such rows"))?;
    let parts = rows
        .split_first_chunk()
        .and_then(|(bytes, rest)| rest.split_at_checked(u32::from_le_bytes(*bytes) as usize));
    let (message, data) = parts.ok_or_else(|| StorageError::corrupted("a commit's rows are not whole"))?;
    let message = root_as_message(message).map_err(|error| StorageError::corrupted(error.to_string()))?;
    let batch = message.header_as_record_batch();
    let batch = batch.ok_or_else(|| StorageError::corrupted("a commit's rows are none"))?;
    let columns = definition.columns.iter().map(|column| column.sql_type.data_type());
    let fields = columns.map(|data_type| Field::new("", stored_type(data_type), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = read_record_batch(
        &Buffer::from(data),
        batch,
        schema,
        &HashMap::new(),
        None,
        &message.version(),
    )?;
    let columns =
        batch
            .columns()
            .iter()
            .zip(&definition.columns)
            .map(|(array, column)| match column.sql_type.data_type() {
                data_type if data_type == *array.data_type() => Ok(array.clone()),
                data_type => Ok(cast(array, &data_type)?),
            });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let columns: Vec<Vec<&ArrayRef>> = columns.iter().map(|array| vec![array]).collect();
    Segment::restore(id, &columns, &definition.dictionaries, batch.num_rows(), budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_that_were_joined() {
        let all = Inline(vec![(7, vec![1, 2, 3]), (9, vec![]), (8, vec![4])]);
        let payload = [&all.head()[..], b"{}"].concat();
        let found = parts(&payload).unwrap();
        let expected: [(u64, &[u8]); 3] = [(7, &[1, 2, 3]), (9, &[]), (8, &[4])];
        assert_eq!(found.segments, expected);
        assert_eq!(found.changes, b"{}");
        // Whatever is cut off, there is no panic.
        for end in 0..payload.len() - 2 {
            assert!(parts(&payload[..end]).is_none_or(|parts| parts.segments.len() < 3 || parts.changes.is_empty()));
        }
        assert!(parts(&[255; 64]).is_none());
    }
}
