//! Arrow batches to PostgreSQL values, column by column: every column's type is looked at once a batch, after which
//! rows are written by typed writers with no further dispatch than one `match` a cell.
//!
//! `cell` picks and runs the writers; `number`, `numeric`, `datetime`, `interval` and `array` know how PostgreSQL writes
//! one value; `row` makes DataRow messages and `copy` the three COPY formats.

pub mod array;
mod binary;
pub mod cell;
pub mod copy;
pub mod datetime;
pub mod interval;
pub mod number;
pub mod numeric;
pub mod oid;
pub mod row;
mod text;

#[cfg(test)]
mod tests;

use arrow::array::timezone::Tz;

/// The two wire formats of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Binary,
}

impl Format {
    /// The wire's format code.
    pub fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// Session settings that change how values are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// The zone in which `timestamptz` text is shown; `None` is UTC.
    pub time_zone: Option<Tz>,
    /// Whether `bytea` text is written with octal escapes instead of in hexadecimal digits.
    pub escaped_bytea: bool,
}
