//! A segment's rows as bytes: an Arrow IPC stream of one batch, in which columns are as narrow as the segment keeps them.
//! Files do not depend on the forms that segments have in memory: those of many rows tell for each column whether the segment
//! had it as the file does, and restore it so. Whatever else is read, a form is found for it anew.
//!
//! | the segment's form | a column of the batch |
//! | --- | --- |
//! | differences | unsigned integers, with the base in the field's metadata |
//! | one value for all rows | booleans that say which rows are null, likewise |
//! | text | strings or byte strings |
//! | codes | a dictionary of those strings that the segment has |
//! | runs | as their rows would be, one for each row |
//! | any other | as it is |
//!
//! The fields of segments of many rows tell more in their metadata, which servers that do not know it leave aside: the type
//! that the table had, whether the column was in runs, and its statistics where those are small beside it.

use crate::catalog::TableDefinition;
use crate::error::{Result, StorageError};
use crate::memory::MemoryBudget;
use crate::segment::{
    Codes, DictionaryColumn, Differences, Form, NarrowColumn, Segment, StoredColumn, StoredForm, TextColumn, is_encoded,
};
use crate::statistics::ColumnStatistics;
use arrow::array::*;
use arrow::buffer::{BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamEncoder;
use std::sync::Arc;

/// Names what differences are added to.
const BASE: &str = "base";
/// Names the type of the table's column.
const TYPE: &str = "type";
/// Names whether the column was in runs.
const RUNS: &str = "runs";
/// Names the column's statistics.
const STATISTICS: &str = "statistics";
/// Statistics are written where they take no more than so many bytes, and such a part of the column's: of fewer rows they are
/// soon computed.
const STATISTICS_BYTES: usize = 512;
const STATISTICS_PART: usize = 8;

/// The rows of a segment: parts of a stream, most of which are the segment's own memory.
pub(super) fn encode(segment: &Segment) -> Result<Vec<Buffer>> {
    let columns = (0..segment.columns()).map(|at| match segment.form(at) {
        Form::RunLength(column) => kept(column.expanded().form(), || segment.column(at)),
        form => kept(form, || segment.column(at)),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fields = columns.iter().enumerate().map(|(at, (array, base))| {
        let field = Field::new(at.to_string(), array.data_type().clone(), true);
        let metadata = base.map(|base| (BASE.to_string(), base.to_string()));
        field.with_metadata(metadata.into_iter().chain(told(segment, at)).collect())
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(array, _)| array).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(segment.rows()));
    let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?;
    let mut encoder = StreamEncoder::try_new(&schema)?;
    let mut parts = encoder.encode(&batch)?;
    parts.extend(encoder.finish()?);
    Ok(parts)
}

/// What the field of a column says of it besides.
fn told(segment: &Segment, at: usize) -> Vec<(String, String)> {
    if !is_encoded(segment.rows()) {
        return vec![];
    }
    let in_runs = matches!(segment.form(at), Form::RunLength(_));
    let mut told = vec![
        (TYPE.to_string(), segment.data_type(at).to_string()),
        (RUNS.to_string(), in_runs.to_string()),
    ];
    let most = STATISTICS_BYTES + segment.column_bytes(at) / STATISTICS_PART;
    let statistics = segment.statistics(at).to_text();
    let statistics = statistics.filter(|text| !in_runs && text.len() <= most);
    told.extend(statistics.map(|text| (STATISTICS.to_string(), text)));
    told
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

/// The segment of rows that `encode` gave, for a table of this definition. Arrays refer to `bytes` until it is built.
pub(super) fn decode(
    mut bytes: Buffer,
    id: u64,
    definition: &TableDefinition,
    budget: &Arc<MemoryBudget>,
) -> Result<Arc<Segment>> {
    let mut decoder = StreamDecoder::new();
    let mut batch = None;
    while batch.is_none() && !bytes.is_empty() {
        batch = decoder.decode(&mut bytes)?;
    }
    let batch = batch.ok_or_else(|| StorageError::corrupted("a segment has no rows"))?;
    if batch.num_columns() != definition.columns.len() {
        return Err(StorageError::corrupted(format!(
            "a segment has {} columns, its table {}",
            batch.num_columns(),
            definition.columns.len()
        )));
    }
    let schema = batch.schema();
    let data_types = definition.columns.iter().map(|column| column.sql_type.data_type());
    let data_types: Vec<DataType> = data_types.collect();
    let columns = batch.columns().iter().zip(schema.fields()).zip(&data_types);
    let columns = columns.map(|((array, field), data_type)| stored(array, field, data_type));
    let columns = columns.collect::<Result<Vec<StoredColumn>>>()?;
    let (dictionaries, rows) = (&definition.dictionaries, batch.num_rows());
    if is_encoded(rows) {
        return Segment::restore_stored(id, &columns, &data_types, dictionaries, rows, budget);
    }
    let arrays = columns.iter().zip(&data_types).map(|(column, of)| column.rows(of));
    let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
    let arrays: Vec<Vec<&ArrayRef>> = arrays.iter().map(|array| vec![array]).collect();
    Segment::restore(id, &arrays, dictionaries, rows, budget)
}

/// A column with what its field says of it, for a table that has it in this type.
fn stored(array: &ArrayRef, field: &Field, data_type: &DataType) -> Result<StoredColumn> {
    let metadata = field.metadata();
    let base = metadata.get(BASE).map(|base| {
        let read = base.parse::<i128>();
        read.map_err(|_| StorageError::corrupted(format!("a base is \"{base}\"")))
    });
    let same_type = metadata.get(TYPE).is_some_and(|own| *own == data_type.to_string());
    let form = match metadata.get(RUNS).filter(|_| same_type).map(String::as_str) {
        Some("false") => StoredForm::Same,
        Some("true") => StoredForm::Runs,
        _ => StoredForm::Unknown,
    };
    let statistics = metadata
        .get(STATISTICS)
        .filter(|_| form == StoredForm::Same)
        .map(|text| {
            let read = ColumnStatistics::of_text(text);
            read.ok_or_else(|| StorageError::corrupted("statistics of a column cannot be read"))
        });
    Ok(StoredColumn {
        array: array.clone(),
        base: base.transpose()?,
        form,
        statistics: statistics.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Database;
    use crate::catalog::{ColumnDef, TableDef};
    use crate::types::SqlType;
    use arrow::ipc::reader::StreamReader;
    use arrow::ipc::writer::StreamWriter;
    use std::collections::HashMap;

    const ROWS: i64 = 3000;

    /// A table of a column in each form, its rows, and their bytes.
    fn written() -> (Arc<TableDefinition>, Arc<Segment>, Vec<u8>) {
        let database = Database::new(MemoryBudget::unlimited());
        let mut transaction = database.begin();
        let types = [
            SqlType::Int8,
            SqlType::Int8,
            SqlType::Text,
            SqlType::Text,
            SqlType::Float8,
            SqlType::Date,
        ];
        let columns = types.iter().enumerate();
        let def = TableDef {
            columns: columns.map(|(at, of)| ColumnDef::new(format!("c{at}"), *of)).collect(),
            ..TableDef::default()
        };
        let table = transaction.create_table("public", "t", def).unwrap();
        let text = |row: i64| (row % 7 != 3).then(|| format!("text number {row}"));
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter(
                (0..ROWS).map(|row| (row % 5 != 1).then_some(row - 9)),
            )),
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row / 100 * 100))),
            Arc::new((0..ROWS).map(text).collect::<StringViewArray>()),
            Arc::new((0..ROWS).map(|row| text(row % 50)).collect::<StringViewArray>()),
            Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| row as f64))),
            Arc::new(Date32Array::from(vec![7; ROWS as usize])),
        ];
        let mut writer = transaction.writer(&table);
        let batch = RecordBatch::try_new(table.schema().clone(), arrays).unwrap();
        writer.append(&batch).unwrap();
        let segment = writer.finish().unwrap().remove(0);
        let bytes = encode(&segment).unwrap();
        let bytes: Vec<&[u8]> = bytes.iter().map(Buffer::as_slice).collect();
        let bytes = bytes.concat();
        (table.definition().clone(), segment, bytes)
    }

    fn read(bytes: &[u8], definition: &TableDefinition) -> Result<Arc<Segment>> {
        decode(Buffer::from(bytes), 1, definition, &MemoryBudget::unlimited())
    }

    /// The same rows, of which fields say other things.
    fn with_metadata(bytes: &[u8], change: impl Fn(usize, &mut HashMap<String, String>)) -> Vec<u8> {
        let batch = StreamReader::try_new(bytes, None).unwrap().next().unwrap().unwrap();
        let schema = batch.schema();
        let fields = schema.fields().iter().enumerate().map(|(at, field)| {
            let mut metadata = field.metadata().clone();
            change(at, &mut metadata);
            field.as_ref().clone().with_metadata(metadata)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).unwrap();
        let mut writer = StreamWriter::try_new(vec![], &schema).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn assert_same(found: &Segment, segment: &Segment) {
        for at in 0..segment.columns() {
            assert_eq!(&found.column(at), &segment.column(at));
            assert_eq!(found.encoding(at), segment.encoding(at));
            assert_eq!(found.column_bytes(at), segment.column_bytes(at));
            let (found, known) = (found.statistics(at), segment.statistics(at));
            assert_eq!((&found.min, &found.max), (&known.min, &known.max));
            assert_eq!((found.rows, found.null_count), (known.rows, known.null_count));
            assert_eq!(found.distinct(), known.distinct());
            assert_eq!(found.ascending, known.ascending);
        }
    }

    #[test]
    fn rows_without_a_word_on_their_forms_are_read() {
        let (definition, segment, bytes) = written();
        let forms: Vec<&str> = (0..segment.columns()).map(|at| segment.encoding(at)).collect();
        let expected = [
            "differences of 16 bits",
            "runs",
            "text",
            "codes of 8 bits",
            "plain",
            "constant",
        ];
        assert_eq!(forms, expected);
        assert_same(&read(&bytes, &definition).unwrap(), &segment);
        let as_before = with_metadata(&bytes, |_, metadata| metadata.retain(|key, _| key == BASE));
        assert_same(&read(&as_before, &definition).unwrap(), &segment);
        // Nor are they read otherwise where statistics alone are missing, or of another type.
        let none = with_metadata(&bytes, |_, metadata| metadata.retain(|key, _| key != STATISTICS));
        assert_same(&read(&none, &definition).unwrap(), &segment);
        let other = with_metadata(&bytes, |_, metadata| {
            metadata.insert(TYPE.into(), "Int7".into());
        });
        assert_same(&read(&other, &definition).unwrap(), &segment);
    }

    #[test]
    fn statistics_that_are_not_the_columns_are_refused() {
        let (definition, segment, bytes) = written();
        for other in ["{}", "", "null"]
            .map(str::to_string)
            .into_iter()
            .chain([1, 2, 4].into_iter().filter_map(|at| segment.statistics(at).to_text()))
        {
            let wrong = with_metadata(&bytes, |at, metadata| {
                if at == 0 {
                    metadata.insert(STATISTICS.into(), other.clone());
                }
            });
            let error = read(&wrong, &definition).unwrap_err();
            assert_eq!(error.kind, crate::error::ErrorKind::DataCorrupted, "{other}: {error}");
        }
    }

    /// Offsets, keys and texts that no checksum covers: an error, or rows that are valid.
    #[test]
    fn wrong_bytes_are_never_read_past() {
        let (definition, segment, bytes) = written();
        let bodies = 2 * bytes.len() / 3;
        for step in 0..400_usize {
            let mut wrong = bytes.clone();
            let at = bodies + step * 7919 % (bytes.len() - bodies);
            wrong[at] ^= 1 << (step % 8);
            if let Ok(found) = read(&wrong, &definition) {
                for column in 0..segment.columns() {
                    found.column(column).to_data().validate_full().unwrap();
                }
            }
        }
    }
}
