//! Output batches of a join, gathered from row numbers of both sides.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::physical_plan::joins::utils::ColumnIndex;

use crate::gather::{debug_assert_listed, listed_buffers, pick};

/// Rows of one side, all of the same length on both.
pub enum SideRows<'a> {
    /// Every row of the side, in order.
    All,
    Picked(&'a UInt32Array),
    /// Nulls in place of the side's columns.
    Absent,
}

/// Columns by position; none where nobody asked for a column.
pub trait SideColumns {
    fn column(&self, index: usize) -> Option<&ArrayRef>;
}

impl SideColumns for Vec<Option<ArrayRef>> {
    fn column(&self, index: usize) -> Option<&ArrayRef> {
        self.get(index)?.as_ref()
    }
}

impl SideColumns for RecordBatch {
    fn column(&self, index: usize) -> Option<&ArrayRef> {
        self.columns().get(index)
    }
}

/// Stands for a side that is absent.
impl SideColumns for () {
    fn column(&self, _: usize) -> Option<&ArrayRef> {
        None
    }
}

/// Gathers `indices`' columns for `count` rows. `mark` is the column that mark joins add.
pub fn gather(
    indices: &[ColumnIndex],
    schema: &arrow::datatypes::SchemaRef,
    build: (&dyn SideColumns, SideRows<'_>),
    probe: (&dyn SideColumns, SideRows<'_>),
    mark: Option<ArrayRef>,
    count: usize,
) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(indices.len());
    for (position, ColumnIndex { index, side }) in indices.iter().enumerate() {
        let (source, rows) = match side {
            JoinSide::Left => (build.0.column(*index), &build.1),
            JoinSide::Right => (probe.0.column(*index), &probe.1),
            JoinSide::None => (mark.as_ref(), &SideRows::All),
        };
        columns.push(match (rows, source) {
            (SideRows::Absent, _) => new_null_array(schema.field(position).data_type(), count),
            (SideRows::All, Some(source)) => Arc::clone(source),
            (SideRows::Picked(rows), Some(source)) => pick(source, rows)?,
            _ => return internal_err!("a join's output column {position} has no source"),
        });
    }
    let source = |ColumnIndex { index, side }: &ColumnIndex| match side {
        JoinSide::Left => build.0.column(*index),
        JoinSide::Right => probe.0.column(*index),
        JoinSide::None => None,
    };
    debug_assert_listed(
        &columns,
        indices.iter().filter_map(source).map(|column| listed_buffers(column)),
    );
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// The pairs for which `keep` is true.
pub fn keep_pairs(build: UInt32Array, probe: UInt32Array, keep: &BooleanArray) -> (UInt32Array, UInt32Array) {
    let kept = keep.true_count();
    if kept == keep.len() {
        return (build, probe);
    }
    let (mut build_rows, mut probe_rows) = (Vec::with_capacity(kept), Vec::with_capacity(kept));
    // A null is not true.
    for i in 0..keep.len() {
        if keep.value(i) && keep.is_valid(i) {
            build_rows.push(build.value(i));
            probe_rows.push(probe.value(i));
        }
    }
    (build_rows.into(), probe_rows.into())
}
