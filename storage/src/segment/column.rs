//! One column of a segment in the form that it is kept in.

use super::narrow::{Differences, NarrowColumn};
use super::rows::{Rows, Runs};
use super::text::TextColumn;
use crate::error::Result;
use crate::statistics::ColumnStatistics;
use arrow::array::*;
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use std::sync::Arc;

/// A column with its statistics.
#[derive(Clone, Debug)]
pub struct SegmentColumn {
    pub(super) data: ColumnData,
    pub(super) statistics: Arc<ColumnStatistics>,
    /// Of the segment's memory.
    pub(super) bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) enum ColumnData {
    Plain(ArrayRef),
    Narrow(NarrowColumn),
    Text(TextColumn),
    Dictionary(DictionaryColumn),
}

/// A low-cardinality string column as codes into the table's dictionary of that column.
#[derive(Clone, Debug)]
pub struct DictionaryColumn {
    /// Those of NULLs mean nothing but index `values`.
    pub codes: Codes,
    pub nulls: Option<NullBuffer>,
    /// What codes index: the dictionary as it was when the segment was built; a later segment's begins with an earlier
    /// one's.
    pub values: Arc<StringViewArray>,
    /// Names the dictionary: columns with equal ids share the meaning of codes.
    pub dictionary_id: u64,
}

/// Codes, in bytes where each fits one.
#[derive(Clone, Debug)]
pub enum Codes {
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
}

impl DictionaryColumn {
    /// Rows as strings: 16 bytes a row, which refer to the dictionary.
    fn strings(&self, rows: Rows<'_>) -> StringViewArray {
        let (dictionary, buffers, _) = self.values.as_ref().clone().into_parts();
        macro_rules! views {
            ($codes:expr) => {{
                let of = |code| dictionary[usize::from(code)];
                match rows {
                    Rows::Run { offset, rows } => $codes[offset..offset + rows]
                        .iter()
                        .map(|code| of(*code))
                        .collect(),
                    Rows::Picked(picked) => picked.iter().map(|row| of($codes[*row as usize])).collect(),
                    Rows::Runs(runs) => {
                        let mut views = Vec::with_capacity(runs.rows());
                        runs.iter()
                            .for_each(|run| views.extend($codes[run].iter().map(|code| of(*code))));
                        views
                    }
                }
            }};
        }
        let views: Vec<u128> = match &self.codes {
            Codes::U8(codes) => views!(codes),
            Codes::U16(codes) => views!(codes),
        };
        // SAFETY: the views are valid for these buffers in the dictionary's array, and there are as many as rows.
        unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), buffers, rows.nulls(self.nulls.as_ref())) }
    }
}

impl ColumnData {
    /// Rows one behind the other: without copying where the column is plain.
    pub(super) fn slice(&self, offset: usize, rows: usize) -> ArrayRef {
        match self {
            ColumnData::Plain(array) => array.slice(offset, rows),
            ColumnData::Narrow(column) => column.decode(Rows::Run { offset, rows }),
            ColumnData::Text(column) => column.decode(Rows::Run { offset, rows }),
            ColumnData::Dictionary(column) => Arc::new(column.strings(Rows::Run { offset, rows })),
        }
    }
}

impl SegmentColumn {
    /// The rows of these numbers, of which none is null.
    pub(super) fn take(&self, rows: &UInt32Array) -> Result<ArrayRef> {
        Ok(match &self.data {
            ColumnData::Plain(array) => take(array, rows, None)?,
            ColumnData::Narrow(column) => column.decode(Rows::picked(rows)),
            ColumnData::Text(column) => column.decode(Rows::picked(rows)),
            ColumnData::Dictionary(column) => Arc::new(column.strings(Rows::picked(rows))),
        })
    }

    /// The rows of stretches; None where the column is plain.
    pub(super) fn runs(&self, runs: &Runs) -> Option<ArrayRef> {
        Some(match &self.data {
            ColumnData::Plain(_) => return None,
            ColumnData::Narrow(column) => column.decode(Rows::Runs(runs)),
            ColumnData::Text(column) => column.decode(Rows::Runs(runs)),
            ColumnData::Dictionary(column) => Arc::new(column.strings(Rows::Runs(runs))),
        })
    }

    /// Whether rows are read as they are kept.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.data, ColumnData::Plain(_))
    }

    pub(super) fn plain_bytes(&self, rows: usize) -> usize {
        let views = rows * size_of::<u128>();
        let nulls = if self.statistics.null_count > 0 {
            rows.div_ceil(8)
        } else {
            0
        };
        nulls
            + match &self.data {
                ColumnData::Plain(_) => return self.bytes,
                ColumnData::Narrow(column) => rows * column.data_type().primitive_width().unwrap_or(0),
                ColumnData::Text(column) => views + column.long_bytes(),
                ColumnData::Dictionary(_) => views,
            }
    }

    pub(super) fn encoding(&self) -> &'static str {
        match &self.data {
            ColumnData::Plain(_) => "plain",
            ColumnData::Narrow(column) => match column.differences() {
                Differences::None(_) => "constant",
                Differences::U8(_) => "differences of 8 bits",
                Differences::U16(_) => "differences of 16 bits",
                Differences::U32(_) => "differences of 32 bits",
                Differences::U64(_) => "differences of 64 bits",
            },
            ColumnData::Text(_) => "text",
            ColumnData::Dictionary(column) => match column.codes {
                Codes::U8(_) => "codes of 8 bits",
                Codes::U16(_) => "codes of 16 bits",
            },
        }
    }

    pub(super) fn data_type(&self) -> &DataType {
        match &self.data {
            ColumnData::Plain(array) => array.data_type(),
            ColumnData::Narrow(column) => column.data_type(),
            ColumnData::Text(column) => column.data_type(),
            ColumnData::Dictionary(column) => column.values.data_type(),
        }
    }
}
