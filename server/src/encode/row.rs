//! DataRow messages from a batch.

use super::array::write_field;
use super::cell::Column;
use super::{Format, Style};
use arrow::record_batch::RecordBatch;
use tenon_planner::error::{Result, SqlError, state};
use tenon_planner::outcome::{ColumnDesc, PgType};

/// Longest row on the wire, bytes: as in PostgreSQL, what one allocation may hold.
const ROW_BYTES_MAX: usize = 0x3fff_ffff;

/// What every batch of one result shares.
#[derive(Clone)]
pub struct RowEncoder {
    columns: Vec<(PgType, Format)>,
    style: Style,
}

impl RowEncoder {
    /// `formats` has one entry a column.
    pub fn new(columns: &[ColumnDesc], formats: &[Format], style: Style) -> Self {
        let columns = columns.iter().zip(formats).map(|(c, f)| (c.pg_type, *f)).collect();
        Self { columns, style }
    }

    /// Looks at the batch's column types, once for all its rows.
    pub fn bind<'a>(&self, batch: &'a RecordBatch) -> Result<BatchRows<'a>> {
        if batch.num_columns() != self.columns.len() {
            let (got, announced) = (batch.num_columns(), self.columns.len());
            return Err(SqlError::internal(format!(
                "a batch has {got} columns where {announced} were announced"
            )));
        }
        let columns = batch.columns().iter().zip(&self.columns);
        let columns = columns.map(|(array, (pg, format))| {
            let mut column = Column::new(array.as_ref(), *pg)?;
            column.speak(self.style.charset);
            Ok((column, *format))
        });
        Ok(BatchRows {
            columns: columns.collect::<Result<_>>()?,
            rows: batch.num_rows(),
            style: self.style.clone(),
        })
    }
}

/// A batch's rows, ready to be written.
pub struct BatchRows<'a> {
    columns: Vec<(Column<'a>, Format)>,
    rows: usize,
    style: Style,
}

impl BatchRows<'_> {
    /// Appends DataRow messages of the rows from `start`, until `end`, the batch's end, or `out` holds `full_bytes`.
    /// Gives the first row not written.
    ///
    /// # Errors
    /// Leaves only whole messages in `out`.
    pub fn write(&self, start: usize, end: usize, full_bytes: usize, out: &mut Vec<u8>) -> Result<usize> {
        let mut row = start;
        while row < end.min(self.rows) && out.len() < full_bytes {
            let message = out.len();
            if let Err(error) = self.write_row(row, out) {
                out.truncate(message);
                return Err(error);
            }
            row += 1;
        }
        Ok(row)
    }

    #[inline]
    fn write_row(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let message = out.len();
        let count = (self.columns.len() as u16).to_be_bytes();
        out.extend_from_slice(&[b'D', 0, 0, 0, 0, count[0], count[1]]);
        for (column, format) in &self.columns {
            if *format == Format::Text {
                let start = out.len();
                out.extend_from_slice(&(-1i32).to_be_bytes());
                if !column.is_null(row) {
                    column.write_text(row, &self.style, out);
                    self.style.charset.encode(start + 4, out)?;
                    patch_length(start, 4, out);
                }
            } else {
                write_field(column, row, out)?;
            }
        }
        if out.len() - message > ROW_BYTES_MAX {
            let bytes = out.len() - message;
            return Err(SqlError::new(
                state::PROGRAM_LIMIT_EXCEEDED,
                format!("a row of {bytes} bytes is too long to send"),
            ));
        }
        patch_length(message + 1, 0, out);
        Ok(())
    }
}

/// Writes the i32 length at `at`: of all that follows it, less `left_out` bytes of its own four.
#[inline]
pub fn patch_length(at: usize, left_out: usize, out: &mut [u8]) {
    let length = (out.len() - at - left_out) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}
