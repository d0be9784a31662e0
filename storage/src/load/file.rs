//! Files as tables: their columns, and loading them.

use super::{CopyLoader, CopyOptions, Loaded, arrow_file, infer, parquet_file};
use crate::catalog::{ColumnDef, TableDefinition};
use crate::error::{ErrorKind, Result, StorageError};
use crate::memory::MemoryBudget;
use crate::types::SqlType;
use arrow::array::{ArrayRef, UInt32Array, new_null_array};
use arrow::datatypes::{DataType, Schema};
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Bytes read from a CSV file at a time.
const READ_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    Csv,
    Parquet,
    /// Arrow IPC, the file or the stream format.
    Arrow,
}

impl FileFormat {
    /// By the name's ending: csv, tsv, tbl, txt; parquet; arrow, feather, ipc, arrows.
    pub fn of_path(path: &Path) -> Option<FileFormat> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" | "tsv" | "tbl" | "txt" => Some(FileFormat::Csv),
            "parquet" | "pq" => Some(FileFormat::Parquet),
            "arrow" | "feather" | "ipc" | "arrows" => Some(FileFormat::Arrow),
            _ => None,
        }
    }
}

/// Is told of bytes done and bytes in all, from any thread.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// The columns that a table of the file's rows has. A CSV file's types are guessed from its beginning, and its dialect
/// where `options` is None; the options to load it with are given back.
pub fn file_columns(
    path: &Path,
    format: FileFormat,
    options: Option<CopyOptions>,
) -> Result<(Vec<ColumnDef>, CopyOptions)> {
    guarded(path, || match format {
        FileFormat::Csv => infer::csv_columns(&mut open(path)?, options),
        FileFormat::Parquet => Ok((columns_of(parquet_file::schema(path)?.as_ref())?, CopyOptions::csv())),
        FileFormat::Arrow => Ok((columns_of(arrow_file::schema(path)?.as_ref())?, CopyOptions::csv())),
    })
}

/// Where a file's rows go.
pub struct Target<'a> {
    pub definition: &'a Arc<TableDefinition>,
    /// The table's columns that the file fills. CSV fields are these, in that order; columns of other files are taken by
    /// name, or by position where no name matches and there are as many.
    pub columns: &'a [usize],
    /// Values of the other columns, as for `CopyLoader::new`.
    pub defaults: Vec<Option<ArrayRef>>,
    pub budget: &'a Arc<MemoryBudget>,
}

/// Loads a file's rows for a table. Waits for rayon's threads.
pub fn load_file(
    path: &Path,
    format: FileFormat,
    options: CopyOptions,
    target: Target<'_>,
    progress: Progress<'_>,
) -> Result<Loaded> {
    guarded(path, || match format {
        FileFormat::Csv => {
            let mut file = open(path)?;
            let total = file.metadata().map_or(0, |metadata| metadata.len());
            let mut loader = CopyLoader::new(
                target.definition,
                target.columns,
                target.defaults,
                options,
                target.budget,
            )?;
            let mut buffer = vec![0; READ_BYTES];
            let mut done = 0;
            loop {
                let read = file.read(&mut buffer).map_err(|error| io_error(path, &error))?;
                if read == 0 {
                    return loader.finish();
                }
                loader.push(&buffer[..read])?;
                done += read as u64;
                progress(done, total);
            }
        }
        FileFormat::Parquet => parquet_file::load(path, &target, progress),
        FileFormat::Arrow => arrow_file::load(path, &target, progress),
    })
}

/// The readers of foreign formats panic on some damage: that is an error of the file.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(malformed(path, "its contents are damaged")))
}

pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| io_error(path, &error))
}

pub(super) fn io_error(path: &Path, error: &std::io::Error) -> StorageError {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::UndefinedFile,
        _ => ErrorKind::Io,
    };
    let reason = match error.kind() {
        std::io::ErrorKind::NotFound => "No such file or directory".to_string(),
        std::io::ErrorKind::PermissionDenied => "Permission denied".to_string(),
        _ => error.to_string(),
    };
    StorageError::new(
        kind,
        format!("could not open file \"{}\" for reading: {reason}", path.display()),
    )
}

/// A file that is not what its format says (22P04).
pub(super) fn malformed(path: &Path, error: impl std::fmt::Display) -> StorageError {
    let message = format!("could not read file \"{}\"", path.display());
    StorageError::new(ErrorKind::BadCopyFormat, message).detail(error.to_string())
}

fn columns_of(schema: &Schema) -> Result<Vec<ColumnDef>> {
    let column = |field: &Arc<arrow::datatypes::Field>| {
        let known = match field.data_type() {
            // Of files' byte strings those of 16 bytes alone are something else.
            DataType::Binary | DataType::LargeBinary => Some(SqlType::Bytea),
            DataType::FixedSizeBinary(width) if *width != 16 => Some(SqlType::Bytea),
            _ => SqlType::from_field(field),
        };
        let sql_type = known.ok_or_else(|| {
            let message = format!(
                "column \"{}\" has type {}, which is not supported",
                field.name(),
                field.data_type()
            );
            StorageError::new(ErrorKind::Unsupported, message)
        })?;
        Ok(ColumnDef::new(field.name(), sql_type))
    };
    schema.fields().iter().map(column).collect()
}

/// For each column of the table that the file fills, its position in the file.
pub(super) fn match_columns(schema: &Schema, target: &Target<'_>) -> Result<Vec<Option<usize>>> {
    let Target {
        definition, columns, ..
    } = target;
    let fields = schema.fields();
    let name = |column: &usize| &definition.columns[*column].name;
    let by_name = |column: &usize| {
        let exact = fields.iter().position(|field| field.name() == name(column));
        exact.or_else(|| {
            fields
                .iter()
                .position(|field| field.name().eq_ignore_ascii_case(name(column)))
        })
    };
    let mut positions = vec![None; definition.columns.len()];
    if columns.iter().all(|column| by_name(column).is_some()) {
        columns.iter().for_each(|column| positions[*column] = by_name(column));
    } else if fields.len() == columns.len() && !columns.iter().any(|column| by_name(column).is_some()) {
        columns
            .iter()
            .enumerate()
            .for_each(|(position, column)| positions[*column] = Some(position));
    } else {
        let missing = columns.iter().find(|column| by_name(column).is_none()).map(name);
        let message = format!("the file has no column \"{}\"", missing.map_or("", |name| name));
        let found: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        return Err(StorageError::new(ErrorKind::BadCopyFormat, message)
            .detail(format!("Its columns are {}.", found.join(", "))));
    }
    Ok(positions)
}

impl Target<'_> {
    /// The values of a column that the file does not have.
    pub(super) fn filled(&self, column: usize, rows: usize) -> Result<ArrayRef> {
        Ok(match &self.defaults[column] {
            Some(value) => arrow::compute::take(value, &UInt32Array::from(vec![0; rows]), None)?,
            None => new_null_array(&self.definition.columns[column].sql_type.data_type(), rows),
        })
    }
}
