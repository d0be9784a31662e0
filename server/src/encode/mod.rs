//! Arrow batches to PostgreSQL values, column by column: every column's type is looked at once a batch, after which
//! rows are written by typed writers with no further dispatch than one `match` a cell.
//!
//! `cell` picks and runs the writers; `number`, `numeric`, `interval` and `array` know how PostgreSQL writes
//! one value; `row` makes DataRow messages and `copy` the three COPY formats.

pub mod array;
mod binary;
pub mod cell;
pub mod copy;
pub mod interval;
pub mod number;
pub mod numeric;
pub mod oid;
pub mod row;
mod text;

#[cfg(test)]
mod tests;

use tenon_planner::settings::Charset;
use tenon_storage::datetime::Conventions;

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
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// How dates, times and intervals are shown.
    pub conventions: Conventions,
    /// `extra_float_digits` where it is 0 or less: so many significant digits more than 15, or 6, are written. Else the
    /// shortest that read back the same.
    pub extra_float_digits: Option<i32>,
    /// Whether `bytea` text is written with octal escapes instead of in hexadecimal digits.
    pub escaped_bytea: bool,
    /// What texts are written in.
    pub charset: Charset,
}
