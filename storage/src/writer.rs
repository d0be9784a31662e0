//! From record batches to segments: types are made the table's, constraints checked, rows gathered.

use crate::bits;
use crate::catalog::{ColumnDef, TableDef, TableDefinition, TableVersion};
use crate::composite_type::{CompositeType, items, record_of};
use crate::datetime;
use crate::enum_type::EnumType;
use crate::error::{ErrorKind, Result, StorageError, Subject};
use crate::memory::{MemoryBudget, Reservation};
use crate::numeric::column::{convert, is_number};
use crate::parse::{numeric_overflow, parse_column};
use crate::quote::cut_name;
use crate::segment::{SEGMENT_ROWS_MAX, Segment, segment_bytes_max};
use crate::types::{NUMERIC, SqlType};
use arrow::array::*;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use std::sync::Arc;

/// Gathers batches of one table's rows into segments. Several may write for one table at a time, each on its thread;
/// nothing is visible before a transaction appends what `finish` gives.
pub struct TableWriter {
    definition: Arc<TableDefinition>,
    budget: Arc<MemoryBudget>,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: Option<Reservation>,
    segments: Vec<Arc<Segment>>,
}

impl TableWriter {
    pub fn new(definition: Arc<TableDefinition>, budget: Arc<MemoryBudget>) -> Self {
        Self {
            definition,
            budget,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: None,
            segments: Vec::new(),
        }
    }

    /// Takes rows whose columns are the table's in order. Other representations of the same types are cast.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = conform(batch, &self.definition)?;
        let mut offset = 0;
        while offset < batch.num_rows() {
            let rows = (batch.num_rows() - offset).min(SEGMENT_ROWS_MAX - self.pending_rows);
            let piece = batch.slice(offset, rows);
            let bytes = piece.columns().iter().map(held_bytes).sum();
            match &mut self.pending_bytes {
                Some(reservation) => reservation.grow(bytes)?,
                None => self.pending_bytes = Some(self.budget.reserve(bytes)?),
            }
            self.pending.push(piece);
            self.pending_rows += rows;
            offset += rows;
            let held = self.pending_bytes.as_ref().map_or(0, Reservation::bytes);
            if self.pending_rows == SEGMENT_ROWS_MAX || held > segment_bytes_max() {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// How many rows were taken.
    pub fn rows(&self) -> usize {
        self.pending_rows + self.segments.iter().map(|segment| segment.rows()).sum::<usize>()
    }

    /// The segments of all rows taken.
    pub fn finish(mut self) -> Result<Vec<Arc<Segment>>> {
        self.flush()?;
        Ok(self.segments)
    }

    fn flush(&mut self) -> Result<()> {
        if self.pending_rows == 0 {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        self.segments
            .push(segment_of_batches(&self.definition, pending, &self.budget)?);
        self.pending_rows = 0;
        self.pending_bytes = None;
        Ok(())
    }
}

/// Rows that no catalog knows of as a table, whose columns are called by their places.
pub fn table_of_rows(
    name: &str,
    types: &[SqlType],
    batches: &[RecordBatch],
    budget: &Arc<MemoryBudget>,
) -> Result<Arc<TableVersion>> {
    let column = |(at, sql_type): (usize, &SqlType)| ColumnDef {
        name: at.to_string(),
        sql_type: *sql_type,
        not_null: false,
        default: None,
        generated: None,
        domain: None,
        collation: None,
    };
    let columns = types.iter().enumerate().map(column).collect();
    let def = TableDef {
        columns,
        ..TableDef::default()
    };
    let definition = TableDefinition::new(0, 0, "", name, def)?;
    let mut writer = TableWriter::new(Arc::clone(&definition), Arc::clone(budget));
    batches.iter().try_for_each(|batch| writer.append(batch))?;
    Ok(TableVersion::new(definition, writer.finish()?))
}

/// What an array, which may be a slice, holds of its values.
fn held_bytes(array: &ArrayRef) -> usize {
    let views = array.len() * size_of::<u128>();
    match array.data_type() {
        DataType::Utf8View => views + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => views + array.as_binary_view().total_buffer_bytes_used(),
        _ => array.to_data().get_slice_memory_size().unwrap_or(0),
    }
}

/// One segment of batches that have the table's types.
pub(crate) fn segment_of_batches(
    definition: &TableDefinition,
    batches: Vec<RecordBatch>,
    budget: &Arc<MemoryBudget>,
) -> Result<Arc<Segment>> {
    let rows = batches.iter().map(|batch| batch.num_rows()).sum();
    let columns: Vec<Vec<&ArrayRef>> = (0..definition.columns.len())
        .map(|column| batches.iter().map(|batch| batch.column(column)).collect())
        .collect();
    Segment::build(&columns, &definition.dictionaries, rows, budget)
}

/// Brings a batch to the table's types and checks NOT NULL, lengths and precisions.
pub fn conform(batch: &RecordBatch, definition: &TableDefinition) -> Result<RecordBatch> {
    if batch.num_columns() != definition.columns.len() {
        let (found, wanted) = (batch.num_columns(), definition.columns.len());
        return Err(StorageError::internal(format!(
            "a batch has {found} columns, the table {wanted}"
        )));
    }
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (array, column) in batch.columns().iter().zip(&definition.columns) {
        columns.push(conform_array(array, column)?);
    }
    if let Some((_, error)) = not_null_violation(definition, &columns) {
        return Err(error);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        definition.schema.clone(),
        columns,
        &options,
    )?)
}

/// One column of `conform`, NULLs aside.
pub(crate) fn conform_array(array: &ArrayRef, column: &ColumnDef) -> Result<ArrayRef> {
    conform_to(array, column.sql_type)
}

fn conform_to(array: &ArrayRef, sql_type: SqlType) -> Result<ArrayRef> {
    match sql_type {
        _ if array.data_type().is_null() => Ok(new_null_array(&sql_type.data_type(), array.len())),
        SqlType::Composite(of) => conform_records(array, of),
        SqlType::Array(of) if let SqlType::Composite(own) = of.element() => {
            items(array, &mut |records| conform_records(records, own))
        }
        _ => {
            let array = fit_length(cast(array, &sql_type.data_type(), sql_type)?, sql_type)?;
            datetime::limited(array, sql_type)
        }
    }
}

/// Records column by column, whatever their columns are called.
fn conform_records(array: &ArrayRef, of: &CompositeType) -> Result<ArrayRef> {
    let records = array.as_struct_opt();
    let records = records.filter(|own| own.num_columns() == of.attributes().len());
    let records = records.ok_or_else(|| {
        let message = format!("a value of {} as one of {}", array.data_type(), of.name());
        StorageError::internal(message)
    })?;
    let columns = records.columns().iter().zip(of.attributes());
    let columns = columns.map(|(column, own)| conform_to(column, own.sql_type));
    record_of(of, columns.collect::<Result<_>>()?, records)
}

/// Refuses NULLs in arrays of a NOT NULL column.
pub(crate) fn column_not_null(definition: &TableDefinition, column: usize, arrays: &[ArrayRef]) -> Result<()> {
    if definition.columns[column].not_null && arrays.iter().any(|array| array.null_count() > 0) {
        return Err(null_in(&definition.columns[column].name, definition));
    }
    Ok(())
}

fn null_in(column: &str, definition: &TableDefinition) -> StorageError {
    let table = &definition.name;
    let message = format!("null value in column \"{column}\" of relation \"{table}\" violates not-null constraint");
    let subject = Subject::table(&definition.schema_name, table).column(column);
    StorageError::new(ErrorKind::NotNullViolation, message).about(subject)
}

/// Brings an array to a column's type; a value that does not fit is an error, never NULL.
fn cast(array: &ArrayRef, data_type: &DataType, sql_type: SqlType) -> Result<ArrayRef> {
    let given = array.data_type();
    let fits = given == data_type && !matches!(sql_type, SqlType::NumericWide(..));
    if fits {
        return Ok(array.clone());
    }
    if let (Some(from), Some(to)) = (EnumType::of(given), EnumType::of(data_type))
        && from.oid == to.oid
    {
        return Ok(to.adopt(array, from));
    }
    if is_number(given) && is_number(data_type) && (*given == NUMERIC || *data_type == NUMERIC) {
        return convert(array, sql_type);
    }
    if *data_type == NUMERIC {
        let texts = cast_with_options(array, &DataType::Utf8View, &CastOptions::default())?;
        return parse_column(sql_type, texts.as_string_view().iter()).map_err(|(_, error)| error);
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, data_type, &options).map_err(|error| match (data_type, StorageError::from(error)) {
        (DataType::Decimal128(precision, scale), error) if error.kind != ErrorKind::Unsupported => {
            numeric_overflow((*precision).into(), (*scale).into())
        }
        (_, error) if error.kind == ErrorKind::InvalidText && array.data_type().is_numeric() => {
            let message = format!("{} out of range", sql_type.base_name());
            StorageError::new(ErrorKind::NumericOutOfRange, message)
        }
        (_, error) => error,
    })
}

/// `varchar(n)` and `char(n)`: an error (22001) where more than n characters are left after trailing blanks;
/// `char(n)` is kept without its trailing blanks. A `name` is cut. So are the items of arrays of these.
fn fit_length(array: ArrayRef, sql_type: SqlType) -> Result<ArrayRef> {
    let (limit, strip) = match sql_type {
        SqlType::Array(of) if of.element().has_length() => return fit_items(&array, of.element()),
        SqlType::Name => {
            let strings = array.as_string_view();
            let cut = |value: &str| cut_name(value).len() < value.len();
            return Ok(match strings.iter().flatten().any(cut) {
                true => Arc::new(
                    strings
                        .iter()
                        .map(|value| value.map(cut_name))
                        .collect::<StringViewArray>(),
                ),
                false => array,
            });
        }
        SqlType::VarcharOf(limit) => (limit as usize, false),
        SqlType::CharOf(limit) => (limit as usize, true),
        SqlType::BitOf(_) | SqlType::VarBitOf(_) => return bits::check_lengths(array, sql_type),
        _ => return Ok(array),
    };
    let strings = array.as_string_view();
    let fits = |value: &str| value.len() <= limit && !(strip && value.ends_with(' '));
    if strings.iter().flatten().all(fits) {
        return Ok(array);
    }
    let fitted = strings
        .iter()
        .map(|value| value.map(|value| fit_string(value, limit, strip, sql_type)).transpose());
    Ok(Arc::new(fitted.collect::<Result<StringViewArray>>()?))
}

/// An array's items, in all its dimensions.
fn fit_items(array: &ArrayRef, element: SqlType) -> Result<ArrayRef> {
    let Some(lists) = array.as_list_opt::<i32>() else {
        return fit_length(array.clone(), element);
    };
    let items = fit_items(lists.values(), element)?;
    let DataType::List(item) = array.data_type() else {
        return Err(StorageError::internal("an array is no list"));
    };
    let fitted = ListArray::try_new(item.clone(), lists.offsets().clone(), items, lists.nulls().cloned())?;
    Ok(Arc::new(fitted))
}

/// One value of `fit_length`.
pub fn fit_string(value: &str, limit: usize, strip: bool, sql_type: SqlType) -> Result<&str> {
    let fitted = match value.char_indices().nth(limit) {
        Some((end, _)) if value[end..].bytes().all(|byte| byte == b' ') => &value[..end],
        Some(_) => {
            let message = format!("value too long for type {sql_type}");
            return Err(StorageError::new(ErrorKind::StringTooLong, message));
        }
        None => value,
    };
    Ok(if strip { fitted.trim_end_matches(' ') } else { fitted })
}

/// The first NULL in a NOT NULL column, by its row.
pub(crate) fn not_null_violation(definition: &TableDefinition, columns: &[ArrayRef]) -> Option<(usize, StorageError)> {
    let nulls = definition
        .columns
        .iter()
        .zip(columns)
        .filter(|(column, array)| column.not_null && array.null_count() > 0);
    let first = nulls.filter_map(|(column, array)| {
        (0..array.len())
            .find(|row| array.is_null(*row))
            .map(|row| (row, column))
    });
    let (row, column) = first.min_by_key(|(row, _)| *row)?;
    let detail = format!("Failing row contains ({}).", datetime::shown_row(columns, row));
    Some((row, null_in(&column.name, definition).detail(detail)))
}
