//! Which rows of a segment are read.

use arrow::array::{Array, UInt32Array};
use arrow::buffer::NullBuffer;

/// Some rows of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rows<'a> {
    Run {
        offset: usize,
        rows: usize,
    },
    /// Row numbers in any order; none is null.
    Picked(&'a [u32]),
}

impl<'a> Rows<'a> {
    pub(super) fn picked(rows: &'a UInt32Array) -> Self {
        debug_assert_eq!(rows.null_count(), 0);
        Rows::Picked(rows.values())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Run { rows, .. } => *rows,
            Rows::Picked(rows) => rows.len(),
        }
    }

    /// Which of these rows are null in a column with these nulls.
    pub(super) fn nulls(&self, nulls: Option<&NullBuffer>) -> Option<NullBuffer> {
        let nulls = nulls?;
        Some(match self {
            Rows::Run { offset, rows } => nulls.slice(*offset, *rows),
            Rows::Picked(rows) => rows.iter().map(|row| nulls.is_valid(*row as usize)).collect(),
        })
        .filter(|nulls: &NullBuffer| nulls.null_count() > 0)
    }
}
