//! Which rows of a segment are read.

use arrow::array::{Array, BooleanBufferBuilder, UInt32Array};
use arrow::buffer::NullBuffer;

/// Some rows of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowSelection<'a> {
    Run {
        offset: usize,
        rows: usize,
    },
    /// Row numbers in any order; none is null.
    Picked(&'a [u32]),
    Runs(&'a Runs),
}

/// Stretches of rows that follow each other, long enough that each is copied as a whole.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The first row of each, and how many there are.
    stretches: Vec<(u32, u32)>,
    rows: usize,
}

/// Rows of a stretch, on average, from which on stretches beat single rows.
const STRETCH_ROWS_MIN: usize = 8;

impl Runs {
    /// The stretches of `rows`, which ascend; None: they are too short.
    pub fn of(rows: &[u32]) -> Option<Runs> {
        let (first, last) = (*rows.first()? as usize, *rows.last()? as usize);
        // The gaps are at least as many as the rows that are missing allow.
        if (last + 1 - first - rows.len()) * STRETCH_ROWS_MIN > rows.len() {
            return None;
        }
        let mut stretches: Vec<(u32, u32)> = Vec::with_capacity(rows.len() / STRETCH_ROWS_MIN + 1);
        let mut start = 0;
        for at in 1..=rows.len() {
            if at == rows.len() || rows[at] != rows[at - 1] + 1 {
                stretches.push((rows[start], (at - start) as u32));
                start = at;
            }
        }
        let rows = rows.len();
        Some(Runs { stretches, rows })
    }

    /// Stretches that ascend: the first row of each, and how many there are.
    pub(super) fn of_stretches(stretches: Vec<(u32, u32)>) -> Runs {
        let rows = stretches.iter().map(|(_, rows)| *rows as usize).sum();
        Runs { stretches, rows }
    }

    /// The one stretch that there is.
    pub(super) fn only(&self) -> Option<std::ops::Range<usize>> {
        match self.stretches.len() {
            1 => self.iter().next(),
            _ => None,
        }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn iter(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.stretches
            .iter()
            .map(|(first, rows)| *first as usize..*first as usize + *rows as usize)
    }
}

impl<'a> RowSelection<'a> {
    pub(super) fn picked(rows: &'a UInt32Array) -> Self {
        debug_assert_eq!(rows.null_count(), 0);
        RowSelection::Picked(rows.values())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            RowSelection::Run { rows, .. } => *rows,
            RowSelection::Picked(rows) => rows.len(),
            RowSelection::Runs(runs) => runs.rows(),
        }
    }

    /// Which of these rows are null in a column with these nulls.
    pub(super) fn nulls(&self, nulls: Option<&NullBuffer>) -> Option<NullBuffer> {
        let nulls = nulls?;
        Some(match self {
            RowSelection::Run { offset, rows } => nulls.slice(*offset, *rows),
            RowSelection::Picked(rows) => rows.iter().map(|row| nulls.is_valid(*row as usize)).collect(),
            RowSelection::Runs(runs) => {
                let mut bits = BooleanBufferBuilder::new(runs.rows());
                runs.iter().for_each(|run| {
                    bits.append_packed_range(run.start + nulls.offset()..run.end + nulls.offset(), nulls.validity())
                });
                NullBuffer::new(bits.finish())
            }
        })
        .filter(|nulls: &NullBuffer| nulls.null_count() > 0)
    }
}
