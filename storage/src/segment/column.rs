//! One column of a segment: arrays in the arena, or codes into a dictionary.

use crate::statistics::ColumnStatistics;
use arrow::array::*;
use arrow::buffer::ScalarBuffer;
use std::sync::Arc;

/// A column with its statistics.
#[derive(Clone, Debug)]
pub struct SegmentColumn {
    pub(super) data: ColumnData,
    pub(super) statistics: Arc<ColumnStatistics>,
}

#[derive(Clone, Debug)]
pub(super) enum ColumnData {
    Plain(ArrayRef),
    Dictionary(DictionaryColumn),
}

/// A low-cardinality string column as codes into the table's dictionary of that column.
#[derive(Clone, Debug)]
pub struct DictionaryColumn {
    /// With the column's NULLs, whose codes mean nothing but index `values`.
    pub codes: UInt16Array,
    /// What codes index: the dictionary as it was when the segment was built; a later segment's begins with an earlier
    /// one's.
    pub values: Arc<StringViewArray>,
    /// Names the dictionary: columns with equal ids share the meaning of codes.
    pub dictionary_id: u64,
}

impl DictionaryColumn {
    /// Rows as strings: 16 bytes a row, which refer to the dictionary.
    pub fn strings(&self, offset: usize, rows: usize) -> StringViewArray {
        let (dictionary, buffers, _) = self.values.as_ref().clone().into_parts();
        let codes = &self.codes.values()[offset..offset + rows];
        let views: Vec<u128> = codes.iter().map(|code| dictionary[usize::from(*code)]).collect();
        let nulls = self.codes.nulls().map(|nulls| nulls.slice(offset, rows));
        // SAFETY: the views are valid for these buffers in the dictionary's array, and there are as many as rows.
        unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), buffers, nulls) }
    }
}

impl SegmentColumn {
    pub(super) fn slice(&self, offset: usize, rows: usize) -> ArrayRef {
        match &self.data {
            ColumnData::Plain(array) => array.slice(offset, rows),
            ColumnData::Dictionary(column) => Arc::new(column.strings(offset, rows)),
        }
    }
}
