//! Arrow IPC, the file format or the stream format.
//!
//! The whole file is read to memory and the batches refer to it, so that no length in a damaged file makes an allocation.

use super::Loaded;
use super::file::{Progress, Target, io_error, malformed, match_columns, open};
use crate::error::{Result, StorageError};
use crate::types::NUMERIC;
use crate::writer::TableWriter;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::Block;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, StreamDecoder, read_footer_length};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8] = b"ARROW1";
/// The footer's length and the magic number end a file.
const TRAILER_BYTES: usize = 10;

/// Batches of a file's bytes, in order.
struct Batches {
    schema: SchemaRef,
    source: Source,
}

enum Source {
    File {
        bytes: Buffer,
        decoder: Box<FileDecoder>,
        blocks: std::vec::IntoIter<Block>,
    },
    Stream {
        rest: Buffer,
        decoder: Box<StreamDecoder>,
    },
}

fn damaged(what: &str) -> ArrowError {
    ArrowError::IpcError(what.to_string())
}

impl Batches {
    fn new(bytes: Buffer) -> Result<Batches, ArrowError> {
        if bytes.starts_with(MAGIC) {
            Self::of_file(bytes)
        } else {
            Self::of_stream(bytes)
        }
    }

    fn of_file(bytes: Buffer) -> Result<Batches, ArrowError> {
        let cut = || damaged("the footer is damaged");
        let trailer = bytes.len().checked_sub(TRAILER_BYTES).ok_or_else(cut)?;
        let length = read_footer_length(bytes[trailer..].try_into().map_err(|_| cut())?)?;
        let start = trailer.checked_sub(length).ok_or_else(cut)?;
        let footer = arrow::ipc::root_as_footer(&bytes[start..trailer]).map_err(|_| cut())?;
        let schema = Arc::new(fb_to_schema(footer.schema().ok_or_else(cut)?));
        let mut decoder = FileDecoder::new(schema.clone(), footer.version());
        for block in footer.dictionaries().iter().flatten() {
            decoder.read_dictionary(block, &block_bytes(&bytes, block)?)?;
        }
        let blocks: Vec<Block> = footer.recordBatches().iter().flatten().copied().collect();
        Ok(Batches {
            schema,
            source: Source::File {
                bytes,
                decoder: decoder.into(),
                blocks: blocks.into_iter(),
            },
        })
    }

    fn of_stream(bytes: Buffer) -> Result<Batches, ArrowError> {
        let mut decoder = StreamDecoder::new();
        // The schema is the first message: walk to it byte by byte, so that no batch is decoded with it.
        let mut rest = bytes;
        while decoder.schema().is_none() && !rest.is_empty() {
            let mut first = rest.slice_with_length(0, 1);
            decoder.decode(&mut first)?;
            rest.advance(1);
        }
        let schema = decoder.schema().ok_or_else(|| damaged("there is no schema"))?;
        Ok(Batches {
            schema,
            source: Source::Stream {
                rest,
                decoder: decoder.into(),
            },
        })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        match &mut self.source {
            Source::File { bytes, decoder, blocks } => match blocks.next() {
                Some(block) => decoder.read_record_batch(&block, &block_bytes(bytes, &block)?),
                None => Ok(None),
            },
            Source::Stream { rest, decoder } => match decoder.decode(rest)? {
                Some(batch) => Ok(Some(batch)),
                None => decoder.finish().map(|()| None),
            },
        }
    }
}

fn block_bytes(bytes: &Buffer, block: &Block) -> Result<Buffer, ArrowError> {
    let range = || {
        let start = usize::try_from(block.offset()).ok()?;
        let length = usize::try_from(block.bodyLength())
            .ok()?
            .checked_add(usize::try_from(block.metaDataLength()).ok()?)?;
        (start.checked_add(length)? <= bytes.len()).then_some((start, length))
    };
    let (start, length) = range().ok_or_else(|| damaged("a batch lies outside the file"))?;
    Ok(bytes.slice_with_length(start, length))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?
        .read_to_end(&mut bytes)
        .map_err(|error| io_error(path, &error))?;
    Ok(bytes)
}

pub(super) fn schema(path: &Path) -> Result<SchemaRef> {
    let batches = Batches::new(Buffer::from_vec(read(path)?)).map_err(|error| malformed(path, error))?;
    Ok(batches.schema)
}

pub(super) fn load(path: &Path, target: &Target<'_>, progress: Progress<'_>) -> Result<Loaded> {
    let total = open(path)?.metadata().map_or(0, |metadata| metadata.len());
    let _held = target.budget.reserve(usize::try_from(total).unwrap_or(usize::MAX))?;
    let damaged = |error: ArrowError| malformed(path, error);
    let mut batches = Batches::new(Buffer::from_vec(read(path)?)).map_err(damaged)?;
    let positions = match_columns(&batches.schema, target)?;
    let mut writer = TableWriter::new(target.definition.clone(), target.budget.clone());
    let (mut rows, mut done) = (0, 0);
    while let Some(batch) = batches.next().map_err(damaged)? {
        let arrays = positions.iter().enumerate().map(|(column, position)| match position {
            // The type that holds numerics is no byte string's here.
            Some(position) => match batch.column(*position) {
                bytes if *bytes.data_type() == NUMERIC => Ok(cast(bytes, &DataType::BinaryView)?),
                other => Ok(other.clone()),
            },
            None => target.filled(column, batch.num_rows()),
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        let fields: Vec<Field> = arrays
            .iter()
            .map(|array| Field::new("", array.data_type().clone(), true))
            .collect();
        writer.append(&RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(StorageError::from)?)?;
        rows += batch.num_rows() as u64;
        done += batch.get_array_memory_size() as u64;
        progress(done.min(total), total);
    }
    Ok(Loaded {
        rows,
        segments: writer.finish()?,
        first_line: None,
    })
}
