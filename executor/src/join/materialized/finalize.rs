//! Finalize: rows that come out by their marks, once every pair is found: those without partner, those with one, marks.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use datafusion::common::{JoinType, Result};

use super::join::MaterializedJoin;
use crate::join::output::{SideColumns, SideRows, gather};

/// Rows of a side looked at together.
const RANGE_ROWS: usize = 32 * 1024;

impl MaterializedJoin {
    /// The ranges of both sides whose rows may come out.
    pub fn unmatched_ranges(&self) -> impl Iterator<Item = (bool, Range<usize>)> {
        let side = |build: bool, rows: Option<usize>| {
            let rows = rows.unwrap_or(0);
            (0..rows)
                .step_by(RANGE_ROWS)
                .map(move |from| (build, from..rows.min(from + RANGE_ROWS)))
        };
        let build = side(true, self.build_matches.as_ref().map(|_| self.build.rows));
        build.chain(side(false, self.probe_matches.as_ref().map(|_| self.probe.rows)))
    }

    /// The rows of one range that come out.
    pub fn finalize(&self, of_build: bool, range: Range<usize>) -> Result<Option<RecordBatch>> {
        use JoinType::*;
        let Some(matches) = (if of_build {
            &self.build_matches
        } else {
            &self.probe_matches
        }) else {
            return Ok(None);
        };
        let join_type = self.spec.join_type;
        let wanted = match join_type {
            LeftSemi | RightSemi => Some(true),
            LeftMark | RightMark => None,
            _ => Some(false),
        };
        let rows: UInt32Array = range
            .clone()
            .filter(|&row| wanted.is_none_or(|wanted| matches.is_set(row) == wanted))
            .map(|row| row as u32)
            .collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let mark = matches!(join_type, LeftMark | RightMark).then(|| {
            let marks: BooleanArray = range.map(|row| Some(matches.is_set(row))).collect();
            Arc::new(marks) as ArrayRef
        });
        let picked = SideRows::Picked(&rows);
        let (build, probe): ((&dyn SideColumns, _), (&dyn SideColumns, _)) = match of_build {
            true => ((&self.build.columns, picked), (&(), SideRows::Absent)),
            false => ((&(), SideRows::Absent), (&self.probe.columns, picked)),
        };
        gather(&self.spec.output, &self.schema, build, probe, mark, rows.len()).map(Some)
    }
}
