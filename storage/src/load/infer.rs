//! Guesses a CSV file's dialect and column types from its first megabytes.

use super::line_end::first_record;
use super::{CopyFormat, CopyOptions, Header, csv};
use crate::catalog::ColumnDef;
use crate::datetime::{Conventions, parse_date, parse_timestamp};
use crate::error::{ErrorKind, Result, StorageError};
use crate::parse::{invalid_utf8, parse_bool, parse_float8, parse_int8};
use crate::types::SqlType;
use std::io::Read;

/// Bytes looked at.
const SAMPLE_BYTES: u64 = 4 << 20;

/// The columns that the sample suggests: bigint, double precision, boolean, date, timestamp or text.
pub fn csv_columns(file: &mut dyn Read, options: Option<CopyOptions>) -> Result<(Vec<ColumnDef>, CopyOptions)> {
    let mut sample = Vec::new();
    let read = file.take(SAMPLE_BYTES).read_to_end(&mut sample);
    read.map_err(|error| StorageError::new(ErrorKind::Io, error.to_string()))?;
    if sample.len() as u64 == SAMPLE_BYTES {
        // The last record is cut.
        let whole = memchr::memrchr(b'\n', &sample).map_or(sample.len(), |newline| newline + 1);
        sample.truncate(whole);
    }
    let text = std::str::from_utf8(&sample).map_err(|_| invalid_utf8(&sample))?;
    let given = options.is_some();
    let mut options = options.unwrap_or_else(CopyOptions::csv);
    if options.format != CopyFormat::Csv {
        return Err(StorageError::new(
            ErrorKind::Unsupported,
            "columns are guessed only of CSV files",
        ));
    }
    let (first, _) = text.split_at(first_record(text.as_bytes(), &options).0);
    if !given {
        let count = |delimiter: &u8| memchr::memchr_iter(*delimiter, first.as_bytes()).count();
        options.delimiter = *b",|\t;"
            .iter()
            .rev()
            .max_by_key(|delimiter| count(delimiter))
            .unwrap_or(&b',');
    }
    // The scanner wants to know the number of fields: find it by scanning the first record for more and more.
    let names = field_count(first, &options)?;
    let header_fields = csv::scan(first, &options, &names, None)
        .first()
        .unwrap_or_default()
        .join("\u{0}");
    let header_fields: Vec<&str> = header_fields.split('\u{0}').collect();
    if !given {
        let named = |field: &&str| !field.is_empty() && guess(std::iter::once(Some(*field))) == SqlType::Text;
        let distinct = header_fields.iter().collect::<std::collections::HashSet<_>>().len() == header_fields.len();
        options.header = if distinct && header_fields.iter().all(named) {
            Header::Skip
        } else {
            Header::Absent
        };
    }
    let body = if options.header == Header::Absent {
        text
    } else {
        &text[first.len()..]
    };
    let records = csv::scan(body, &options, &names, None);
    let mut columns: Vec<ColumnDef> = Vec::with_capacity(names.len());
    for (index, header) in header_fields.iter().enumerate() {
        let mut name = match options.header {
            Header::Absent => format!("column{}", index + 1),
            _ if header.is_empty() => format!("column{}", index + 1),
            _ => header.to_string(),
        };
        while columns.iter().any(|column| column.name == name) {
            name.push_str("_1");
        }
        columns.push(ColumnDef::new(name, guess(records.column(index, false, false))));
    }
    Ok((columns, options))
}

/// Placeholder names, as many as the record has fields.
fn field_count(record: &str, options: &CopyOptions) -> Result<Vec<String>> {
    let malformed = || StorageError::new(ErrorKind::BadCopyFormat, "the first line of the file is no CSV record");
    if record.is_empty() {
        return Err(malformed());
    }
    let limit = crate::catalog::table::COLUMNS_MAX;
    let names: Vec<String> = (1..=limit).map(|number| format!("column{number}")).collect();
    let fields = match csv::scan(record, options, &names, None).error {
        // "missing data for column": its number is the count.
        Some(failure) => names
            .iter()
            .position(|name| failure.error.message.ends_with(&format!("\"{name}\""))),
        None => Some(limit),
    };
    match fields {
        Some(count) if count > 0 => Ok(names[..count].to_vec()),
        _ => Err(malformed()),
    }
}

/// The narrowest type that all values have; text where there is no value.
fn guess<'a>(values: impl Iterator<Item = Option<&'a str>>) -> SqlType {
    type Test = fn(&[u8]) -> bool;
    let tests: [(SqlType, Test); 5] = [
        (SqlType::Int8, |text| parse_int8(text).is_ok() && !leading_zero(text)),
        (SqlType::Float8, |text| {
            parse_float8(text).is_ok() && text.iter().any(u8::is_ascii_digit) && !leading_zero(text)
        }),
        (SqlType::Date, |text| {
            text.len() == 10 && text[4] == b'-' && parse_date(text, &Conventions::default()).is_ok()
        }),
        (SqlType::Timestamp, |text| {
            text.len() >= 16 && text[4] == b'-' && parse_timestamp(text, &Conventions::default()).is_ok()
        }),
        (SqlType::Bool, |text| {
            matches!(text, b"true" | b"false" | b"t" | b"f" | b"TRUE" | b"FALSE") && parse_bool(text).is_ok()
        }),
    ];
    let mut possible = [true; 5];
    let mut any = false;
    for value in values.flatten() {
        any = true;
        for ((_, test), possible) in tests.iter().zip(&mut possible) {
            *possible = *possible && test(value.as_bytes());
        }
        if possible == [false; 5] {
            break;
        }
    }
    let first = tests.iter().zip(possible).find(|(_, possible)| *possible);
    first
        .filter(|_| any)
        .map_or(SqlType::Text, |((sql_type, _), _)| *sql_type)
}

/// Numbers such as post codes, whose zeros matter.
fn leading_zero(text: &[u8]) -> bool {
    matches!(text, [b'0', b'0'..=b'9', ..])
}
