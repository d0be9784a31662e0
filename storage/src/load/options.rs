//! The options of COPY.

use crate::datetime::Conventions;
use crate::error::{ErrorKind, Result, StorageError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    Text,
    Csv,
    Binary,
}

/// What the first line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// A row.
    Absent,
    /// Skipped.
    Skip,
    /// Must name the columns.
    Match,
}

/// Options with PostgreSQL's meanings and defaults; the encoding is UTF-8.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    pub header: Header,
    pub quote: u8,
    pub escape: u8,
    /// Columns whose quoted fields may be NULL.
    pub force_null: Vec<String>,
    /// Columns whose fields never are NULL.
    pub force_not_null: Vec<String>,
    /// How dates are read.
    pub conventions: Conventions,
}

impl CopyOptions {
    pub fn new(format: CopyFormat) -> Self {
        let csv = format == CopyFormat::Csv;
        Self {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".into() },
            header: Header::Absent,
            quote: b'"',
            escape: b'"',
            force_null: Vec::new(),
            force_not_null: Vec::new(),
            conventions: Conventions::default(),
        }
    }

    pub fn csv() -> Self {
        Self::new(CopyFormat::Csv)
    }

    /// Refuses combinations that would be ambiguous, with PostgreSQL's words.
    pub fn check(&self) -> Result<()> {
        if self.format == CopyFormat::Binary {
            return Ok(());
        }
        let csv = self.format == CopyFormat::Csv;
        let refuse = |message: &str| Err(StorageError::new(ErrorKind::InvalidParameter, message));
        if matches!(self.delimiter, b'\n' | b'\r') {
            return refuse("COPY delimiter cannot be newline or carriage return");
        }
        if !self.delimiter.is_ascii() || self.delimiter == 0 {
            return refuse("COPY delimiter must be a single one-byte character");
        }
        if self.null.contains(['\n', '\r']) {
            return refuse("COPY null representation cannot use newline or carriage return");
        }
        if !csv && (self.delimiter.is_ascii_alphanumeric() || matches!(self.delimiter, b'\\' | b'.')) {
            return refuse(&format!("COPY delimiter cannot be \"{}\"", char::from(self.delimiter)));
        }
        if self.null.contains(char::from(self.delimiter)) {
            return refuse("COPY delimiter character must not appear in the NULL specification");
        }
        let forced = !self.force_null.is_empty() || !self.force_not_null.is_empty();
        if forced && !csv {
            return refuse("COPY FORCE_NULL and FORCE_NOT_NULL are available only in CSV mode");
        }
        if csv {
            if !self.quote.is_ascii() || self.quote == 0 || matches!(self.quote, b'\n' | b'\r') {
                return refuse("COPY quote must be a single one-byte character");
            }
            if !self.escape.is_ascii() || self.escape == 0 || matches!(self.escape, b'\n' | b'\r') {
                return refuse("COPY escape must be a single one-byte character");
            }
            if self.delimiter == self.quote {
                return refuse("COPY delimiter and quote must be different");
            }
            if self.null.contains(char::from(self.quote)) {
                return refuse("CSV quote character must not appear in the NULL specification");
            }
        }
        Ok(())
    }
}
