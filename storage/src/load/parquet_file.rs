//! Parquet: the row groups of about one segment at a time, their columns in parallel.

use super::Loaded;
use super::file::{Progress, Target, malformed, match_columns, open};
use crate::error::{ErrorKind, Result, StorageError};
use crate::segment::{SEGMENT_ROWS_MAX, Segment};
use crate::writer::{column_not_null, conform_array};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use rayon::prelude::*;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Rows decoded at a time.
const BATCH_ROWS: usize = 1 << 16;

fn metadata(path: &Path) -> Result<ArrowReaderMetadata> {
    let plain = ArrowReaderOptions::new();
    let found = ArrowReaderMetadata::load(&open(path)?, plain).map_err(|error| malformed(path, error))?;
    // Strings are decoded straight to views, which is what tables hold.
    let fields = found.schema().fields().iter().map(|field| {
        let data_type = match plain_type(field.data_type()) {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            other => other.clone(),
        };
        Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone())
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    ArrowReaderMetadata::try_new(found.metadata().clone(), options).or(Ok(found))
}

fn plain_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

pub(super) fn schema(path: &Path) -> Result<SchemaRef> {
    metadata(path).map(|metadata| metadata.schema().clone())
}

pub(super) fn load(path: &Path, target: &Target<'_>, progress: Progress<'_>) -> Result<Loaded> {
    let (definition, budget) = (target.definition, target.budget);
    let metadata = metadata(path)?;
    let positions = match_columns(metadata.schema(), target)?;
    let groups = metadata.metadata().row_groups();
    let size = |range: &Range<usize>| {
        groups[range.clone()]
            .iter()
            .map(|group| group.total_byte_size().max(0) as u64)
            .sum::<u64>()
    };
    let total = size(&(0..groups.len()));
    let mut done = 0;
    let mut segments = Vec::new();
    let mut start = 0;
    while start < groups.len() {
        let rows = |index: usize| groups[index].num_rows().max(0) as usize;
        let (mut end, mut held) = (start + 1, rows(start));
        while end < groups.len() && held + rows(end) <= SEGMENT_ROWS_MAX {
            held += rows(end);
            end += 1;
        }
        let range = start..end;
        // What decoding takes is about what the file says of it.
        let _decoded = budget.reserve(usize::try_from(size(&range)).unwrap_or(usize::MAX))?;
        let decode = |column: usize| -> Result<Vec<ArrayRef>> {
            let arrays = match positions[column] {
                Some(position) => read_column(path, &metadata, range.clone(), position)?,
                None => vec![target.filled(column, held)?],
            };
            let arrays: Vec<ArrayRef> = arrays
                .iter()
                .map(|array| conform_array(array, &definition.columns[column]))
                .collect::<Result<_>>()?;
            column_not_null(definition, column, &arrays)?;
            if arrays.iter().map(|array| array.len()).sum::<usize>() != held {
                return Err(malformed(path, "a column has fewer rows than its row group says"));
            }
            Ok(arrays)
        };
        let decoded = (0..definition.columns.len())
            .into_par_iter()
            .map(decode)
            .collect::<Result<Vec<_>>>()?;
        for offset in (0..held).step_by(SEGMENT_ROWS_MAX) {
            let rows = (held - offset).min(SEGMENT_ROWS_MAX);
            let slices: Vec<Vec<ArrayRef>> = decoded.iter().map(|arrays| slice_all(arrays, offset, rows)).collect();
            let slices: Vec<Vec<&ArrayRef>> = slices.iter().map(|arrays| arrays.iter().collect()).collect();
            segments.push(Segment::build(&slices, &definition.dictionaries, rows, budget)?);
        }
        done += size(&range);
        progress(done, total);
        start = end;
    }
    Ok(Loaded {
        rows: segments.iter().map(|segment| segment.rows() as u64).sum(),
        segments,
        first_line: None,
    })
}

fn read_column(
    path: &Path,
    metadata: &ArrowReaderMetadata,
    groups: Range<usize>,
    position: usize,
) -> Result<Vec<ArrayRef>> {
    let mask = ProjectionMask::roots(metadata.parquet_schema(), [position]);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(open(path)?, metadata.clone())
        .with_row_groups(groups.collect())
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|error| malformed(path, error))?;
    let column = |batch: Result<arrow::array::RecordBatch, _>| match batch {
        Ok(batch) if batch.num_columns() == 1 => Ok(batch.column(0).clone()),
        Ok(_) => Err(StorageError::new(
            ErrorKind::Internal,
            "a projection of one column gave another number",
        )),
        Err(error) => Err(malformed(path, error)),
    };
    reader.map(column).collect()
}

/// `rows` rows from `offset` of arrays in sequence.
fn slice_all(arrays: &[ArrayRef], mut offset: usize, mut rows: usize) -> Vec<ArrayRef> {
    let mut slices = Vec::new();
    for array in arrays {
        if offset >= array.len() {
            offset -= array.len();
            continue;
        }
        let taken = rows.min(array.len() - offset);
        if taken > 0 {
            slices.push(array.slice(offset, taken));
        }
        (offset, rows) = (0, rows - taken);
    }
    slices
}
