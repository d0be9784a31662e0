//! Rows that come out by their flags, once every pair is found: those without partner, those with one, marks.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use datafusion::common::{JoinType, Result};

use super::join::CollectedJoin;
use crate::join::output::{Columns, Rows, gather};

/// Rows of a side looked at in one piece.
const PIECE: usize = 32 * 1024;

impl CollectedJoin {
    /// The pieces of both sides whose rows may come out alone.
    pub fn alone_pieces(&self) -> impl Iterator<Item = (bool, Range<usize>)> {
        let side = |build: bool, rows: Option<usize>| {
            let rows = rows.unwrap_or(0);
            (0..rows)
                .step_by(PIECE)
                .map(move |from| (build, from..rows.min(from + PIECE)))
        };
        let build = side(true, self.build_flags.as_ref().map(|_| self.build.rows));
        build.chain(side(false, self.probe_flags.as_ref().map(|_| self.probe.rows)))
    }

    /// The rows of one piece that come out alone.
    pub fn alone(&self, of_build: bool, piece: Range<usize>) -> Result<Option<RecordBatch>> {
        use JoinType::*;
        let Some(flags) = (if of_build { &self.build_flags } else { &self.probe_flags }) else {
            return Ok(None);
        };
        let join_type = self.spec.join_type;
        let wanted = match join_type {
            LeftSemi | RightSemi => Some(true),
            LeftMark | RightMark => None,
            _ => Some(false),
        };
        let rows: UInt32Array = piece
            .clone()
            .filter(|&row| wanted.is_none_or(|wanted| flags.is_set(row) == wanted))
            .map(|row| row as u32)
            .collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let mark = matches!(join_type, LeftMark | RightMark).then(|| {
            let marks: BooleanArray = piece.map(|row| Some(flags.is_set(row))).collect();
            Arc::new(marks) as ArrayRef
        });
        let own = Rows::Picked(&rows);
        let (build, probe): ((&dyn Columns, _), (&dyn Columns, _)) = match of_build {
            true => ((&self.build.columns, own), (&(), Rows::Absent)),
            false => ((&(), Rows::Absent), (&self.probe.columns, own)),
        };
        gather(&self.spec.output, &self.schema, build, probe, mark, rows.len()).map(Some)
    }
}
