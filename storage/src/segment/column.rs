//! One column of a segment in the form that it is kept in.

use super::dictionary::Dictionary;
use super::live::Live;
use super::narrow::{Differences, NarrowColumn};
use super::rows::{RowSelection, Runs};
use super::run_length::RunLengthColumn;
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
    RunLength(RunLengthColumn),
}

/// A column of strings that repeat as codes into the table's dictionary of that column.
#[derive(Clone, Debug)]
pub struct DictionaryColumn {
    /// Those of NULLs mean nothing but index `values`.
    pub codes: Codes,
    pub nulls: Option<NullBuffer>,
    /// How many values the dictionary had when the segment was built, at least: codes are below it.
    pub(super) len: usize,
    pub(super) dictionary: Arc<Dictionary>,
}

/// Codes, in as few bytes as the largest takes.
#[derive(Clone, Debug)]
pub enum Codes {
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
}

impl DictionaryColumn {
    /// How many values there are: codes are below it.
    pub fn values_len(&self) -> usize {
        self.len
    }

    /// What codes index. A later segment's begin with an earlier one's.
    pub fn values(&self) -> StringViewArray {
        self.dictionary.values().slice(0, self.len)
    }

    /// Names the dictionary: columns with equal ids share the meaning of codes.
    pub fn dictionary_id(&self) -> u64 {
        self.dictionary.id()
    }

    /// The same with the rows of these numbers.
    pub(super) fn picked(&self, rows: &[u32]) -> Self {
        macro_rules! picked {
            ($codes:expr) => {
                rows.iter()
                    .map(|row| $codes[*row as usize])
                    .collect::<Vec<_>>()
                    .into()
            };
        }
        Self {
            codes: match &self.codes {
                Codes::U8(codes) => Codes::U8(picked!(codes)),
                Codes::U16(codes) => Codes::U16(picked!(codes)),
                Codes::U32(codes) => Codes::U32(picked!(codes)),
            },
            nulls: RowSelection::Picked(rows).nulls(self.nulls.as_ref()),
            len: self.len,
            dictionary: Arc::clone(&self.dictionary),
        }
    }

    /// Rows as strings: 16 bytes a row, which refer to the dictionary.
    fn strings(&self, rows: RowSelection<'_>) -> StringViewArray {
        let (dictionary, buffers, _) = self.dictionary.values().as_ref().clone().into_parts();
        macro_rules! views {
            ($codes:expr) => {{
                let of = |code| dictionary[code as usize];
                match rows {
                    RowSelection::Run { offset, rows } => $codes[offset..offset + rows]
                        .iter()
                        .map(|code| of(*code))
                        .collect(),
                    RowSelection::Picked(picked) => picked.iter().map(|row| of($codes[*row as usize])).collect(),
                    RowSelection::Runs(runs) => {
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
            Codes::U32(codes) => views!(codes),
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
            encoded => encoded.decode(RowSelection::Run { offset, rows }),
        }
    }

    /// The rows of these numbers, of which none is null.
    pub(super) fn take(&self, rows: &UInt32Array) -> Result<ArrayRef> {
        Ok(match self {
            ColumnData::Plain(array) => take(array, rows, None)?,
            encoded => encoded.decode(RowSelection::picked(rows)),
        })
    }

    /// The rows of stretches.
    pub(super) fn of_stretches(&self, stretches: &Runs) -> ArrayRef {
        match self {
            ColumnData::Plain(array) => match stretches.only() {
                Some(run) => array.slice(run.start, run.len()),
                None => joined(array, stretches),
            },
            encoded => encoded.decode(RowSelection::Runs(stretches)),
        }
    }

    /// The column that has the rows left alone, in a form that is read as fast as this one.
    pub(super) fn left(&self, live: &Live) -> ColumnData {
        let rows = || -> Vec<u32> { live.bits().set_indices_u32().collect() };
        match self {
            ColumnData::Narrow(column) => ColumnData::Narrow(column.picked(&rows())),
            ColumnData::Dictionary(column) => ColumnData::Dictionary(column.picked(&rows())),
            ColumnData::RunLength(column) => column.expanded().data().left(live),
            ColumnData::Plain(_) | ColumnData::Text(_) => {
                ColumnData::Plain(self.of_stretches(&live.stretches(0, live.rows())))
            }
        }
    }

    /// Rows of a column that is not plain; of one that is, all.
    fn decode(&self, rows: RowSelection<'_>) -> ArrayRef {
        match self {
            ColumnData::Plain(array) => Arc::clone(array),
            ColumnData::Narrow(column) => column.decode(rows),
            ColumnData::Text(column) => column.decode(rows),
            ColumnData::Dictionary(column) => Arc::new(column.strings(rows)),
            ColumnData::RunLength(column) => column.decode(rows),
        }
    }

    pub(super) fn form(&self) -> Form<'_> {
        match self {
            ColumnData::Plain(array) => Form::Plain(array),
            ColumnData::Narrow(column) => Form::Narrow(column),
            ColumnData::Text(column) => Form::Text(column),
            ColumnData::Dictionary(column) => Form::Dictionary(column),
            ColumnData::RunLength(column) => Form::RunLength(column),
        }
    }

    pub(super) fn data_type(&self) -> &DataType {
        match self {
            ColumnData::Plain(array) => array.data_type(),
            ColumnData::Narrow(column) => column.data_type(),
            ColumnData::Text(column) => column.data_type(),
            ColumnData::Dictionary(_) => &DataType::Utf8View,
            ColumnData::RunLength(column) => column.values().data_type(),
        }
    }

    /// Whether a column whose codes are of `dictionary` and whose type is `data_type` may be kept so.
    pub(super) fn fits(&self, data_type: &DataType, dictionary: Option<&Arc<Dictionary>>) -> bool {
        match self {
            ColumnData::Dictionary(own) => {
                dictionary.is_some_and(|dictionary| Arc::ptr_eq(dictionary, &own.dictionary))
            }
            ColumnData::RunLength(own) => own.values().fits(data_type, dictionary),
            _ => self.data_type() == data_type,
        }
    }
}

/// Stretches of an array, one behind the other. Strings share the buffers of the array.
fn joined(array: &ArrayRef, stretches: &Runs) -> ArrayRef {
    let data = array.to_data();
    let mut all = MutableArrayData::new(vec![&data], false, stretches.rows());
    for run in stretches.iter() {
        let extended = all.try_extend(0, run.start, run.end);
        extended.expect("fewer rows than the array has overflow nothing that it does not");
    }
    make_array(all.freeze())
}

/// How a segment keeps a column.
#[derive(Clone, Copy, Debug)]
pub enum Form<'a> {
    Plain(&'a ArrayRef),
    Narrow(&'a NarrowColumn),
    Text(&'a TextColumn),
    Dictionary(&'a DictionaryColumn),
    RunLength(&'a RunLengthColumn),
}

impl SegmentColumn {
    /// The rows of stretches; None where the column is plain.
    pub(super) fn runs(&self, runs: &Runs) -> Option<ArrayRef> {
        (!self.is_plain()).then(|| self.data.decode(RowSelection::Runs(runs)))
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
                ColumnData::RunLength(column) => column.plain_bytes(),
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
                Codes::U32(_) => "codes of 32 bits",
            },
            ColumnData::RunLength(column) if column.runs() == 1 => "constant",
            ColumnData::RunLength(_) => "runs",
        }
    }
}
