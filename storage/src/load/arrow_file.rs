//! Arrow IPC, the file format or the stream format.
//!
//! A file is a stream between a magic number and a footer, and is read as one: the whole file in memory, the batches
//! referring to it, so that no length in a damaged file makes an allocation.

use super::Loaded;
use super::file::{Progress, Target, io_error, malformed, match_columns, open};
use crate::error::{Result, StorageError};
use crate::writer::TableWriter;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamDecoder;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8] = b"ARROW1";
/// The magic number is padded with zeros to a multiple of this at the file's start.
const MAGIC_BYTES: usize = 8;
/// The footer's length and the magic number end a file.
const TRAILER_BYTES: usize = 10;
/// Enough for the schema of most files.
const HEAD_BYTES: u64 = 1 << 20;

pub(super) fn schema(path: &Path) -> Result<SchemaRef> {
    for limit in [HEAD_BYTES, u64::MAX] {
        let mut head = Vec::new();
        open(path)?
            .take(limit)
            .read_to_end(&mut head)
            .map_err(|error| io_error(path, &error))?;
        let start = if head.starts_with(MAGIC) {
            MAGIC_BYTES.min(head.len())
        } else {
            0
        };
        let mut decoder = StreamDecoder::new();
        let mut buffer = Buffer::from_vec(head).slice(start);
        let decoded = decoder.decode(&mut buffer);
        if let Some(schema) = decoder.schema() {
            return Ok(schema);
        }
        decoded.map_err(|error| malformed(path, error))?;
    }
    Err(malformed(path, "it is no Arrow IPC file"))
}

/// The stream in a file's bytes.
fn stream(path: &Path, bytes: Vec<u8>) -> Result<Buffer> {
    let length = bytes.len();
    let bytes = Buffer::from_vec(bytes);
    if !bytes.starts_with(MAGIC) {
        return Ok(bytes);
    }
    let cut = || malformed(path, "its footer is damaged");
    let trailer = length
        .checked_sub(TRAILER_BYTES)
        .filter(|_| bytes.ends_with(MAGIC))
        .ok_or_else(cut)?;
    let footer: [u8; 4] = bytes[trailer..trailer + 4].try_into().map_err(|_| cut())?;
    let end = usize::try_from(i32::from_le_bytes(footer))
        .ok()
        .and_then(|footer| trailer.checked_sub(footer));
    let start = stream_start(&bytes);
    let end = end.filter(|end| *end >= start).ok_or_else(cut)?;
    Ok(bytes.slice_with_length(start, end - start))
}

/// Where the stream begins: after the magic number and its padding, if there is one.
fn stream_start(bytes: &[u8]) -> usize {
    if !bytes.starts_with(MAGIC) {
        return 0;
    }
    let padding = bytes
        .chunks_exact(MAGIC_BYTES)
        .skip(1)
        .take_while(|chunk| chunk.iter().all(|byte| *byte == 0));
    ((1 + padding.count()) * MAGIC_BYTES).min(bytes.len())
}

pub(super) fn load(path: &Path, target: &Target<'_>, progress: Progress<'_>) -> Result<Loaded> {
    let mut file = open(path)?;
    let total = file.metadata().map_or(0, |metadata| metadata.len());
    let _held = target.budget.reserve(usize::try_from(total).unwrap_or(usize::MAX))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| io_error(path, &error))?;
    let mut rest = stream(path, bytes)?;
    let mut decoder = StreamDecoder::new();
    let mut writer = TableWriter::new(target.definition.clone(), target.budget.clone());
    let mut rows = 0;
    while !rest.is_empty() {
        if let Some(batch) = decoder.decode(&mut rest).map_err(|error| malformed(path, error))? {
            let schema = decoder.schema().ok_or_else(|| malformed(path, "it has no schema"))?;
            append(&batch, &schema, target, &mut writer)?;
            rows += batch.num_rows() as u64;
            progress(total.saturating_sub(rest.len() as u64), total);
        }
    }
    decoder.finish().map_err(|error| malformed(path, error))?;
    let schema = decoder.schema().ok_or_else(|| malformed(path, "it has no schema"))?;
    match_columns(&schema, target)?;
    Ok(Loaded {
        rows,
        segments: writer.finish()?,
    })
}

fn append(batch: &RecordBatch, schema: &Schema, target: &Target<'_>, writer: &mut TableWriter) -> Result<()> {
    let positions = match_columns(schema, target)?;
    let arrays = positions.iter().enumerate().map(|(column, position)| match position {
        Some(position) => Ok(batch.column(*position).clone()),
        None => target.filled(column, batch.num_rows()),
    });
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
    let fields: Vec<Field> = arrays
        .iter()
        .map(|array| Field::new("", array.data_type().clone(), true))
        .collect();
    writer.append(&RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(StorageError::from)?)
}
