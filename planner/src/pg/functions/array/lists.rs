//! Columns of arrays, seen as PostgreSQL sees them, and made.

use super::leaf;
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, UInt32Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, interleave};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};
use std::ops::Range;
use std::sync::Arc;
use tenon_storage::numeric::compare_key;
use tenon_storage::parse::nested_offsets;

/// A column of arrays.
pub(super) struct Lists {
    /// Offsets of each dimension's lists, the outermost first.
    offsets: Vec<Vec<i32>>,
    nulls: Option<NullBuffer>,
    /// The items of all rows.
    pub(super) items: ArrayRef,
    rows: usize,
}

impl Lists {
    pub(super) fn of(array: &ArrayRef) -> Result<Lists> {
        if array.data_type().is_null() {
            return Ok(Lists {
                offsets: vec![vec![0; array.len() + 1]],
                nulls: Some(NullBuffer::new_null(array.len())),
                items: datafusion::arrow::array::new_empty_array(&DataType::Null),
                rows: array.len(),
            });
        }
        let (mut offsets, mut inner) = (Vec::new(), array.clone());
        loop {
            inner = match inner.data_type() {
                DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                    cast(&inner, &DataType::List(item.clone()))?
                }
                _ => inner,
            };
            let DataType::List(_) = inner.data_type() else { break };
            let list = inner.as_list::<i32>();
            offsets.push(list.value_offsets().to_vec());
            let values = list.values().clone();
            inner = values;
        }
        if offsets.is_empty() {
            return plan_err!("no array: {}", array.data_type());
        }
        Ok(Lists {
            offsets,
            nulls: array.nulls().cloned(),
            items: inner,
            rows: array.len(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// How many dimensions the type has.
    pub(super) fn depth(&self) -> usize {
        self.offsets.len()
    }

    /// Where a row's items are among `items`: nowhere for NULL.
    pub(super) fn span(&self, row: usize) -> Range<usize> {
        if self.is_null(row) {
            return 0..0;
        }
        let (mut start, mut end) = (row, row + 1);
        for offsets in &self.offsets {
            (start, end) = (offsets[start] as usize, offsets[end] as usize);
        }
        start..end
    }

    /// The sizes of a row's dimensions; none where it is empty or NULL.
    pub(super) fn sizes(&self, row: usize) -> Vec<usize> {
        if self.span(row).is_empty() {
            return Vec::new();
        }
        let (mut at, mut sizes) = (row, Vec::with_capacity(self.offsets.len()));
        for offsets in &self.offsets {
            sizes.push((offsets[at + 1] - offsets[at]) as usize);
            at = offsets[at] as usize;
        }
        sizes
    }
}

/// What is compared of items: of numerics their keys, which do not tell scales apart.
pub(super) fn comparable(items: &ArrayRef) -> ArrayRef {
    // The order of a range's bytes is that of ranges, and Arrow's kernels compare no structs.
    if let Some(ranges) = tenon_storage::range::Values::of(items) {
        return Arc::new(LargeBinaryArray::from_iter(ranges.iter()));
    }
    match items.data_type() {
        DataType::LargeBinary => {
            let keys = items.as_binary::<i64>().iter().map(|value| value.map(compare_key));
            Arc::new(LargeBinaryArray::from_iter(keys))
        }
        _ => items.clone(),
    }
}

/// The type of arrays of `depth` dimensions.
pub(super) fn list_type(item: &DataType, depth: usize) -> DataType {
    (0..depth).fold(item.clone(), |inner, _| {
        DataType::List(Arc::new(Field::new("item", inner, true)))
    })
}

/// Rows of arrays, made of items of other columns.
pub(super) struct Builder {
    picks: Vec<(usize, usize)>,
    sizes: Vec<Vec<usize>>,
    valid: Vec<bool>,
}

impl Builder {
    pub(super) fn new(rows: usize) -> Builder {
        Builder {
            picks: Vec::new(),
            sizes: Vec::with_capacity(rows),
            valid: Vec::with_capacity(rows),
        }
    }

    /// Takes an item of one of the sources.
    pub(super) fn pick(&mut self, source: usize, at: usize) {
        self.picks.push((source, at));
    }

    pub(super) fn pick_all(&mut self, source: usize, span: Range<usize>) {
        self.picks.extend(span.map(|at| (source, at)));
    }

    /// Ends a row, of the items picked since the last.
    pub(super) fn row(&mut self, sizes: Vec<usize>) {
        let empty = sizes.contains(&0);
        self.sizes.push(if empty { Vec::new() } else { sizes });
        self.valid.push(true);
    }

    pub(super) fn null(&mut self) {
        self.sizes.push(Vec::new());
        self.valid.push(false);
    }

    /// The arrays, of `depth` dimensions.
    pub(super) fn finish(self, sources: &[&ArrayRef], item: &DataType, depth: usize) -> Result<ArrayRef> {
        let sources: Vec<ArrayRef> = sources
            .iter()
            .map(|source| match source.data_type() == item {
                true => Ok((*source).clone()),
                false => cast(source, item),
            })
            .collect::<Result<_, _>>()?;
        let sources: Vec<&dyn Array> = sources.iter().map(AsRef::as_ref).collect();
        let values = interleave(&sources, &self.picks)?;
        let nulls = self.valid.contains(&false).then(|| NullBuffer::from(self.valid));
        nested_offsets(values, item, &self.sizes, depth, nulls).map_err(|error| to_datafusion(error.into()))
    }
}

/// For each row the same index as many times as it has items: to compare them all with the row's own value.
pub(super) fn repeated(lists: &Lists) -> (UInt32Array, Vec<usize>) {
    let (mut rows, mut items) = (Vec::new(), Vec::new());
    for row in 0..lists.len() {
        for at in lists.span(row) {
            rows.push(row as u32);
            items.push(at);
        }
    }
    (UInt32Array::from(rows), items)
}

/// The item type of an array type.
pub(super) fn item_of(data_type: &DataType) -> DataType {
    leaf(data_type).0.clone()
}
