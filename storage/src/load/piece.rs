//! Parses one piece of a COPY stream to a batch of the table.

use super::fields::{Records, shorten};
use super::line_end::{LineEnd, first_record};
use super::options::{CopyFormat, CopyOptions, Header};
use super::{binary, csv, text};
use crate::catalog::TableDefinition;
use crate::error::{ErrorKind, Result, StorageError};
use crate::parse::{FieldError, decode_column, invalid_utf8, parse_column_by};
use crate::writer::not_null_violation;
use arrow::array::*;
use std::sync::Arc;

/// What is needed to parse any piece of one load.
pub struct PieceParser {
    pub definition: Arc<TableDefinition>,
    /// Table positions of the fields of a record.
    pub columns: Vec<usize>,
    pub names: Vec<String>,
    /// Per field: FORCE_NULL, FORCE_NOT_NULL.
    pub forced: Vec<(bool, bool)>,
    /// Per table column: the value of rows that have no field for it; None is NULL.
    pub defaults: Vec<Option<ArrayRef>>,
    pub options: CopyOptions,
}

/// One piece's rows, and the error that follows them.
pub struct Parsed {
    pub batch: Option<RecordBatch>,
    pub lines: u64,
    /// Whether each record, the header among them, is one line.
    pub by_line: bool,
    pub ended: bool,
    pub error: Option<PieceError>,
}

/// An error whose line is counted from its piece's start.
pub struct PieceError {
    pub line: u64,
    /// What follows the line in the context: `: "text"` or `, column a: "x"`.
    pub place: String,
    pub error: StorageError,
}

impl PieceParser {
    /// Parses a piece of whole records, the first of the input or a later one; `line_end`: what lines end with, where that is
    /// known from those before.
    pub fn parse(&self, first: bool, line_end: Option<LineEnd>, piece: &[u8]) -> Parsed {
        if self.options.format == CopyFormat::Binary {
            return self.parse_binary(first, piece);
        }
        let fail = |line: u64, place: String, error: StorageError| Parsed {
            batch: None,
            lines: 0,
            by_line: false,
            ended: false,
            error: Some(PieceError { line, place, error }),
        };
        let sound = simdutf8::basic::from_utf8(piece)
            .ok()
            .filter(|text| memchr::memchr(0, text.as_bytes()).is_none());
        let text = match sound {
            Some(text) => text,
            None => {
                // Rows before the bad bytes may hold an earlier error; keep it simple: the bytes are the error.
                let valid = std::str::from_utf8(piece).map_or_else(|error| error.valid_up_to(), str::len);
                let at = memchr::memchr(0, &piece[..valid]).unwrap_or(valid);
                let line = memchr::memchr_iter(b'\n', &piece[..at]).count() as u64 + 1;
                return fail(line, String::new(), invalid_utf8(&piece[at..]));
            }
        };
        let (header_end, line_end) = if first && self.options.header != Header::Absent {
            first_record(text.as_bytes(), &self.options)
        } else {
            (0, line_end)
        };
        let (header, body) = text.split_at(header_end);
        if first
            && self.options.header == Header::Match
            && let Err(error) = self.match_header(header)
        {
            return fail(1, String::new(), error);
        }
        let newline = line_end.map_or(b'\n', LineEnd::last);
        let header_lines = memchr::memchr_iter(newline, header.as_bytes()).count() as u64;
        let mut records = self.scan(body, line_end);
        let structural = records.error.take().map(|failure| PieceError {
            line: header_lines + records.line(failure.record),
            place: format!(": \"{}\"", records.excerpt(failure.record)),
            error: failure.error,
        });
        let lines = memchr::memchr_iter(records.newline, piece).count() as u64;
        let ended = records.ended;
        let unended = piece.last().is_some_and(|last| *last != records.newline);
        let records_there = records.rows() as u64 + u64::from(header_end > 0) + u64::from(ended);
        let by_line = records_there == lines + u64::from(unended);
        if records.rows() == 0 {
            return Parsed {
                batch: None,
                lines,
                by_line,
                ended,
                error: structural,
            };
        }
        match self.columns_of(&records) {
            Ok(batch) => Parsed {
                batch: Some(batch),
                lines,
                by_line,
                ended,
                error: structural,
            },
            Err(placed) => {
                let (row, place, error) = *placed;
                fail(header_lines + records.line(row), place, error)
            }
        }
    }

    fn scan<'a>(&self, text: &'a str, line_end: Option<LineEnd>) -> Records<'a> {
        match self.options.format {
            CopyFormat::Csv => csv::scan(text, &self.options, &self.names, line_end),
            _ => text::scan(text, &self.options, &self.names, line_end),
        }
    }

    fn match_header(&self, header: &str) -> Result<()> {
        let mut records = self.scan(header, None);
        if let Some(failure) = records.error.take() {
            return Err(failure.error);
        }
        let found = records.first().unwrap_or_default();
        if found.is_empty() {
            let message = format!(
                "wrong number of fields in header line: got 0, expected {}",
                self.names.len()
            );
            return Err(StorageError::new(ErrorKind::BadCopyFormat, message));
        }
        for (number, (found, wanted)) in found.iter().zip(&self.names).enumerate() {
            if found != wanted {
                let number = number + 1;
                let message = format!(
                    "column name mismatch in header line field {number}: got \"{found}\", expected \"{wanted}\""
                );
                return Err(StorageError::new(ErrorKind::BadCopyFormat, message));
            }
        }
        Ok(())
    }

    /// Parses all columns; of several errors the one of the first row, then of the first column, counts.
    fn columns_of(&self, records: &Records<'_>) -> Result<RecordBatch, Box<(usize, String, StorageError)>> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        let mut first: Option<(usize, usize, StorageError)> = None;
        for (field, column) in self.columns.iter().enumerate() {
            let (force_null, force_not_null) = self.forced[field];
            let fields = records.column(field, force_null, force_not_null);
            match parse_column_by(
                self.definition.columns[*column].sql_type,
                fields,
                &self.options.conventions,
            ) {
                Ok(array) => arrays.push(array),
                Err((row, error)) if first.as_ref().is_none_or(|(first, ..)| row < *first) => {
                    first = Some((row, field, error));
                }
                Err(_) => {}
            }
        }
        if let Some((row, field, error)) = first {
            let text = records
                .column(field, true, false)
                .nth(row)
                .flatten()
                .map(shorten)
                .unwrap_or_default();
            return Err(Box::new((
                row,
                format!(", column {}: \"{text}\"", self.names[field]),
                error,
            )));
        }
        let rows = records.rows();
        self.batch_of(arrays, rows)
            .map_err(|(row, error)| Box::new((row, format!(": \"{}\"", records.excerpt(row)), error)))
    }

    /// Fields' arrays with the defaults of other columns, as a batch of the table; checks NOT NULL.
    fn batch_of(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, FieldError> {
        let mut table: Vec<Option<ArrayRef>> = vec![None; self.definition.columns.len()];
        for (column, array) in self.columns.iter().zip(arrays) {
            table[*column] = Some(array);
        }
        let filled = table
            .into_iter()
            .enumerate()
            .map(|(column, array)| match (array, &self.defaults[column]) {
                (Some(array), _) => Ok(array),
                (None, Some(value)) => arrow::compute::take(value, &UInt32Array::from(vec![0; rows]), None),
                (None, None) => Ok(new_null_array(
                    &self.definition.columns[column].sql_type.data_type(),
                    rows,
                )),
            });
        let filled = filled
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| (0, error.into()))?;
        if let Some((row, error)) = not_null_violation(&self.definition, &filled) {
            return Err((row, error));
        }
        RecordBatch::try_new(self.definition.schema.clone(), filled).map_err(|error| (0, error.into()))
    }

    fn parse_binary(&self, first: bool, piece: &[u8]) -> Parsed {
        let fail = |row: usize, place: String, error: StorageError| PieceError {
            line: row as u64 + 1,
            place,
            error,
        };
        let failed = |error: PieceError| Parsed {
            batch: None,
            lines: 0,
            by_line: false,
            ended: false,
            error: Some(error),
        };
        let tuples = match first.then(|| binary::header_length(piece)) {
            None => piece,
            Some(Ok(Some(length))) => &piece[length..],
            Some(Ok(None)) => {
                let error = StorageError::new(ErrorKind::BadCopyFormat, "COPY file signature not recognized");
                return failed(fail(0, String::new(), error));
            }
            Some(Err(error)) => return failed(fail(0, String::new(), error)),
        };
        let width = self.columns.len();
        let binary::Tuples { fields, error, ended } = binary::scan(tuples, width);
        let rows = fields.len() / width;
        let structural = error.map(|(row, error)| fail(row, String::new(), error));
        let mut arrays = Vec::with_capacity(width);
        let mut worst: Option<PieceError> = None;
        for (field, column) in self.columns.iter().enumerate() {
            let values = (0..rows).map(|row| fields[row * width + field]);
            match decode_column(self.definition.columns[*column].sql_type, values) {
                Ok(array) => arrays.push(array),
                Err((row, error)) if worst.as_ref().is_none_or(|worst| row as u64 + 1 < worst.line) => {
                    worst = Some(fail(row, format!(", column {}", self.names[field]), error));
                }
                Err(_) => {}
            }
        }
        if let Some(worst) = worst {
            return failed(worst);
        }
        if rows == 0 {
            return Parsed {
                batch: None,
                lines: 0,
                by_line: true,
                ended,
                error: structural,
            };
        }
        match self.batch_of(arrays, rows) {
            Ok(batch) => Parsed {
                batch: Some(batch),
                lines: rows as u64,
                by_line: true,
                ended,
                error: structural,
            },
            Err((row, error)) => failed(fail(row, String::new(), error)),
        }
    }
}
