//! `COPY TO STDOUT`: text, CSV and binary, one CopyData message a row as PostgreSQL sends them.

use super::Style;
use super::array::write_field;
use super::cell::Column;
use super::row::patch_length;
use arrow::record_batch::RecordBatch;
use tenon_planner::error::Result;
use tenon_planner::outcome::{ColumnDesc, CopyOutFormat, PgType};

/// Signature, flags and header length of the binary format.
const BINARY_HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// What every batch of one COPY shares.
pub struct CopyEncoder {
    names: Vec<String>,
    types: Vec<PgType>,
    format: CopyOutFormat,
    style: Style,
}

impl CopyEncoder {
    pub fn new(columns: &[ColumnDesc], format: CopyOutFormat, style: Style) -> Self {
        let names = columns.iter().map(|c| c.name.clone()).collect();
        Self {
            names,
            types: columns.iter().map(|c| c.pg_type).collect(),
            format,
            style,
        }
    }

    /// The header line. (The binary signature is in the message of the first row, as PostgreSQL sends it.)
    pub fn write_start(&self, out: &mut Vec<u8>) {
        let (CopyOutFormat::Text {
            delimiter,
            header: true,
            ..
        }
        | CopyOutFormat::Csv {
            delimiter,
            header: true,
            ..
        }) = self.format
        else {
            return;
        };
        message(out, |out| {
            for (i, name) in self.names.iter().enumerate() {
                if i > 0 {
                    out.push(delimiter);
                }
                let start = out.len();
                out.extend_from_slice(&self.style.charset.encode_lossy(name));
                self.escape(start, i, false, out);
            }
            out.push(b'\n');
        });
    }

    /// What comes after the last row: the binary format's end mark. `is_first`: no row has been sent.
    pub fn write_end(&self, is_first: bool, out: &mut Vec<u8>) {
        if let CopyOutFormat::Binary = self.format {
            message(out, |out| {
                self.signature(is_first, out);
                out.extend_from_slice(&(-1i16).to_be_bytes());
            });
        }
    }

    /// What a message begins with, if it is the first one.
    fn signature(&self, is_first: bool, out: &mut Vec<u8>) {
        if is_first && self.format == CopyOutFormat::Binary {
            out.extend_from_slice(BINARY_HEADER);
        }
    }

    /// Looks at the batch's column types, once for all its rows.
    pub fn bind<'a>(&'a self, batch: &'a RecordBatch) -> Result<CopyRows<'a>> {
        let columns = batch.columns().iter().zip(&self.types).map(|(array, pg)| {
            let mut column = Column::new(array.as_ref(), *pg)?;
            column.speak(self.style.charset);
            Ok(column)
        });
        Ok(CopyRows {
            encoder: self,
            columns: columns.collect::<Result<_>>()?,
            rows: batch.num_rows(),
        })
    }

    /// Rewrites a value's text, from `start` on, as the format needs it.
    fn escape(&self, start: usize, column: usize, force: bool, out: &mut Vec<u8>) {
        match &self.format {
            CopyOutFormat::Text { delimiter, .. } => {
                let special = |b: u8| matches!(b, b'\\' | 8..=13) || b == *delimiter;
                let Some(first) = out[start..].iter().position(|b| special(*b)) else {
                    return;
                };
                for byte in out.split_off(start + first) {
                    let escaped = match byte {
                        8 => b'b',
                        9 => b't',
                        10 => b'n',
                        11 => b'v',
                        12 => b'f',
                        13 => b'r',
                        _ => byte,
                    };
                    if special(byte) {
                        out.push(b'\\');
                    }
                    out.push(escaped);
                }
            }
            CopyOutFormat::Csv {
                delimiter,
                quote,
                escape,
                null,
                force_quote,
                ..
            } => {
                let text = &out[start..];
                let special = |b: &u8| b == delimiter || b == quote || matches!(b, b'\n' | b'\r');
                let needed = force && force_quote.get(column).copied().unwrap_or(false)
                    || text == null.as_bytes()
                    || (self.types.len() == 1 && text == b"\\.")
                    || text.iter().any(special);
                if needed {
                    let text = out.split_off(start);
                    out.push(*quote);
                    for byte in text {
                        if byte == *quote || byte == *escape {
                            out.push(*escape);
                        }
                        out.push(byte);
                    }
                    out.push(*quote);
                }
            }
            CopyOutFormat::Binary | CopyOutFormat::Bytes => {}
        }
    }
}

/// A batch's rows, ready to be written.
pub struct CopyRows<'a> {
    encoder: &'a CopyEncoder,
    columns: Vec<Column<'a>>,
    rows: usize,
}

impl CopyRows<'_> {
    /// Appends CopyData messages from row `start` until the batch's end, or until `out` holds `full_bytes`. Gives the
    /// first row not written. `sent`: the rows of batches before this one.
    pub fn write(&self, sent: usize, start: usize, full_bytes: usize, out: &mut Vec<u8>) -> Result<usize> {
        let mut row = start;
        while row < self.rows && out.len() < full_bytes {
            let at = out.len();
            let mut result = Ok(());
            message(out, |out| {
                self.encoder.signature(sent + row == 0, out);
                result = self.write_row(row, out);
            });
            if result.is_err() {
                out.truncate(at);
                result?;
            }
            row += 1;
        }
        Ok(row)
    }

    fn write_row(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let line = out.len();
        let (delimiter, null) = match &self.encoder.format {
            CopyOutFormat::Text { delimiter, null, .. } | CopyOutFormat::Csv { delimiter, null, .. } => {
                (*delimiter, null)
            }
            CopyOutFormat::Binary => {
                out.extend_from_slice(&(self.columns.len() as i16).to_be_bytes());
                return self.columns.iter().try_for_each(|column| write_field(column, row, out));
            }
            CopyOutFormat::Bytes => return self.columns.iter().try_for_each(|column| column.write_binary(row, out)),
        };
        for (i, column) in self.columns.iter().enumerate() {
            if i > 0 {
                out.push(delimiter);
            }
            if column.is_null(row) {
                out.extend_from_slice(null.as_bytes());
            } else {
                let start = out.len();
                column.write_text(row, &self.encoder.style, out);
                self.encoder.escape(start, i, true, out);
            }
        }
        out.push(b'\n');
        self.encoder.style.charset.encode(line, out)
    }
}

/// One CopyData message.
fn message(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[b'd', 0, 0, 0, 0]);
    body(out);
    patch_length(start + 1, 0, out);
}
