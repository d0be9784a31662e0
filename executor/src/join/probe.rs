//! The probe loop of a join partition.
//!
//! ```text
//! start -> (build side finished) -> for each probe batch: heads -> pairs -> condition -> output
//!       -> (last partition of a join that tracks build rows) -> build rows with or without partner -> end
//! ```
//! Pairs are made in pieces of about `PAIRS_MAX`, so a key with many duplicates does not blow up one batch.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinType, Result};
use rayon::prelude::*;
use tenon_storage::heap;

use super::build::BuildSide;
use super::match_bitmap::MatchBitmap;
use super::output::{SideColumns, SideRows, gather, keep_pairs};
use super::packing::Packing;
use super::spec::JoinSpec;
use super::table::Head;

const PAIRS_MAX: usize = 32 * 1024;
/// Rows in one batch of build rows at the end.
const FINAL_ROWS: usize = 8 * 1024;

pub struct Prober {
    pub spec: Arc<JoinSpec>,
    pub schema: SchemaRef,
    pub build: Arc<BuildSide>,
    integers: Vec<i64>,
    heads: Vec<Head>,
}

impl Prober {
    pub fn new(spec: Arc<JoinSpec>, schema: SchemaRef, build: Arc<BuildSide>) -> Self {
        Self {
            spec,
            schema,
            build,
            integers: vec![],
            heads: vec![],
        }
    }

    /// Whether pairs of equal integer keys must still be checked.
    fn is_conditional(&self) -> bool {
        self.spec.filter.is_some() || matches!(self.build.packing, Packing::Hashed(_))
    }

    /// Joins one probe batch; output goes to `out`.
    pub fn probe(&mut self, batch: &RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let keys = self.spec.probe_keys.iter();
        let keys = keys
            .map(|k| k.evaluate(batch)?.into_array(batch.num_rows()))
            .collect::<Result<Vec<_>>>()?;
        if self.build.rows == 0 {
            self.heads.clear();
            self.heads.resize(batch.num_rows(), 0);
        } else {
            let valid = self
                .build
                .packing
                .of_probe(&keys, batch.num_rows(), &mut self.integers)?;
            self.build.table.probe(&self.integers, valid.as_ref(), &mut self.heads);
        }
        if self.is_conditional() {
            self.probe_conditional(batch, &keys, out)
        } else {
            self.probe_plain(batch, out)
        }
    }

    /// Equal keys are all it takes.
    fn probe_plain(&mut self, batch: &RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        use JoinType::*;
        if let Some(matches) = &self.build.matches {
            // One mark a key, at its first row: `finish` follows the chains.
            self.heads
                .iter()
                .filter(|&&head| head != 0)
                .for_each(|&head| matches.set(head as usize - 1));
        }
        match self.spec.join_type {
            LeftSemi | LeftAnti | LeftMark => return Ok(()),
            RightSemi | RightAnti | RightMark => {
                let matched = self.heads.iter().map(|&head| head != 0).collect();
                return self.emit_probe_rows(batch, &matched, out);
            }
            Inner | Left | Right | Full => {}
        }
        if self.build.table.is_unique() {
            let (mut build_rows, mut probe_rows) = (vec![0u32; batch.num_rows()], vec![0u32; batch.num_rows()]);
            let mut count = 0;
            for (row, &head) in self.heads.iter().enumerate() {
                build_rows[count] = head.wrapping_sub(1);
                probe_rows[count] = row as u32;
                count += usize::from(head != 0);
            }
            build_rows.truncate(count);
            probe_rows.truncate(count);
            self.emit_pairs(batch, build_rows.into(), probe_rows.into(), out)?;
        } else {
            let mut cursor = Cursor::default();
            while let Some((build_rows, probe_rows)) = self.pairs(&mut cursor) {
                self.emit_pairs(batch, build_rows, probe_rows, out)?;
            }
        }
        if matches!(self.spec.join_type, Right | Full) {
            let matched = self.heads.iter().map(|&head| head != 0).collect();
            self.emit_unmatched_probe(batch, &matched, out)?;
        }
        Ok(())
    }

    /// Pairs are checked by value and by the residual predicate before they count.
    fn probe_conditional(
        &mut self,
        batch: &RecordBatch,
        keys: &[ArrayRef],
        out: &mut VecDeque<RecordBatch>,
    ) -> Result<()> {
        use JoinType::*;
        let join_type = self.spec.join_type;
        let mut matched = match join_type {
            Right | Full | RightSemi | RightAnti | RightMark => vec![false; batch.num_rows()],
            _ => vec![],
        };
        let mut cursor = Cursor::default();
        while let Some((build_rows, probe_rows)) = self.pairs(&mut cursor) {
            let (build_rows, probe_rows) = self.check(batch, keys, build_rows, probe_rows)?;
            if let Some(matches) = &self.build.matches {
                build_rows.values().iter().for_each(|&row| matches.set(row as usize));
            }
            if !matched.is_empty() {
                probe_rows.values().iter().for_each(|&row| matched[row as usize] = true);
            }
            if matches!(join_type, Inner | Left | Right | Full) {
                self.emit_pairs(batch, build_rows, probe_rows, out)?;
            }
        }
        match join_type {
            RightSemi | RightAnti | RightMark => self.emit_probe_rows(batch, &matched.into(), out),
            Right | Full => self.emit_unmatched_probe(batch, &matched.into(), out),
            _ => Ok(()),
        }
    }

    fn check(
        &self,
        batch: &RecordBatch,
        keys: &[ArrayRef],
        build_rows: UInt32Array,
        probe_rows: UInt32Array,
    ) -> Result<(UInt32Array, UInt32Array)> {
        let (mut build_rows, mut probe_rows) = (build_rows, probe_rows);
        if let Some(equal) = self.build.packing.verify(keys, &build_rows, &probe_rows)? {
            (build_rows, probe_rows) = keep_pairs(build_rows, probe_rows, &equal);
        }
        if let Some(filter) = &self.spec.filter {
            let rows = probe_rows.len();
            let pairs = gather(
                filter.column_indices(),
                filter.schema(),
                (&self.build.columns, SideRows::Picked(&build_rows)),
                (batch, SideRows::Picked(&probe_rows)),
                None,
                rows,
            )?;
            let pass = filter.expression().evaluate(&pairs)?.into_array(rows)?;
            let pass = datafusion::common::cast::as_boolean_array(&pass)?;
            (build_rows, probe_rows) = keep_pairs(build_rows, probe_rows, pass);
        }
        Ok((build_rows, probe_rows))
    }

    /// The next pairs of equal integer keys; `None` after the last.
    fn pairs(&self, cursor: &mut Cursor) -> Option<(UInt32Array, UInt32Array)> {
        let (mut build_rows, mut probe_rows) = (vec![], vec![]);
        while cursor.row < self.heads.len() && build_rows.len() < PAIRS_MAX {
            let mut head = if cursor.head != 0 {
                cursor.head
            } else {
                self.heads[cursor.row]
            };
            while head != 0 && build_rows.len() < PAIRS_MAX {
                build_rows.push(head - 1);
                probe_rows.push(cursor.row as u32);
                head = self.build.table.following(head);
            }
            cursor.head = head;
            cursor.row += usize::from(head == 0);
        }
        (!build_rows.is_empty()).then(|| (build_rows.into(), probe_rows.into()))
    }

    fn emit_pairs(
        &self,
        batch: &RecordBatch,
        build_rows: UInt32Array,
        probe_rows: UInt32Array,
        out: &mut VecDeque<RecordBatch>,
    ) -> Result<()> {
        let count = probe_rows.len();
        if count == 0 {
            return Ok(());
        }
        // Rows come in order, so a full set without repeats is the batch itself.
        let whole = count == batch.num_rows() && self.build.table.is_unique();
        let probe_rows = if whole {
            SideRows::All
        } else {
            SideRows::Picked(&probe_rows)
        };
        let build = (&self.build.columns as &dyn SideColumns, SideRows::Picked(&build_rows));
        out.push_back(gather(
            &self.spec.output,
            &self.schema,
            build,
            (batch, probe_rows),
            None,
            count,
        )?);
        Ok(())
    }

    /// Output of the kinds that pass probe rows through.
    fn emit_probe_rows(
        &self,
        batch: &RecordBatch,
        matched: &BooleanArray,
        out: &mut VecDeque<RecordBatch>,
    ) -> Result<()> {
        let mark: Option<ArrayRef> =
            (self.spec.join_type == JoinType::RightMark).then(|| Arc::new(matched.clone()) as ArrayRef);
        let build = (&self.build.columns as &dyn SideColumns, SideRows::Absent);
        let rows = gather(
            &self.spec.output,
            &self.schema,
            build,
            (batch, SideRows::All),
            mark,
            batch.num_rows(),
        )?;
        let rows = match self.spec.join_type {
            JoinType::RightSemi => filter_record_batch(&rows, matched)?,
            JoinType::RightAnti => filter_record_batch(&rows, &arrow::compute::not(matched)?)?,
            _ => rows,
        };
        if rows.num_rows() > 0 {
            out.push_back(rows);
        }
        Ok(())
    }

    fn emit_unmatched_probe(
        &self,
        batch: &RecordBatch,
        matched: &BooleanArray,
        out: &mut VecDeque<RecordBatch>,
    ) -> Result<()> {
        let rows: UInt32Array = (0..batch.num_rows() as u32)
            .filter(|&row| !matched.value(row as usize))
            .collect();
        if !rows.is_empty() {
            let build = (&self.build.columns as &dyn SideColumns, SideRows::Absent);
            out.push_back(gather(
                &self.spec.output,
                &self.schema,
                build,
                (batch, SideRows::Picked(&rows)),
                None,
                rows.len(),
            )?);
        }
        Ok(())
    }

    /// Build rows that the join kind still owes once every partition has probed, from `start` on. Returns where to go on.
    pub fn finish(&self, start: usize, out: &mut VecDeque<RecordBatch>) -> Result<usize> {
        let Some(matches) = &self.build.matches else {
            return Ok(self.build.rows);
        };
        if start == 0 && !self.is_conditional() && !self.build.table.is_unique() {
            // First rows of a chain come before their followers, so one pass spreads each mark along its chain.
            for row in 0..self.build.rows {
                let following = self.build.table.following(row as Head + 1);
                if following != 0 && matches.is_set(row) {
                    matches.set(following as usize - 1);
                }
            }
        }
        // One partition owes them all, and has the cores of those that have ended.
        let pieces: Vec<usize> = (start..self.build.rows)
            .step_by(FINAL_ROWS)
            .take(2 * rayon::current_num_threads())
            .collect();
        let batches = match pieces.as_slice() {
            [only] => vec![self.build_rows(matches, *only)?],
            several => several
                .par_iter()
                .map(heap::each(|start: &usize| self.build_rows(matches, *start)))
                .collect::<Result<_>>()?,
        };
        out.extend(batches.into_iter().flatten());
        Ok((start + pieces.len() * FINAL_ROWS).min(self.build.rows))
    }

    /// What the join kind owes of the build rows from `start` on, `FINAL_ROWS` at most.
    fn build_rows(&self, matches: &MatchBitmap, start: usize) -> Result<Option<RecordBatch>> {
        let end = (start + FINAL_ROWS).min(self.build.rows);
        let wanted = match self.spec.join_type {
            JoinType::LeftSemi => Some(true),
            JoinType::LeftMark => None,
            _ => Some(false),
        };
        let rows: UInt32Array = (start..end)
            .filter(|&row| wanted.is_none_or(|w| matches.is_set(row) == w))
            .map(|row| row as u32)
            .collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let mark: Option<ArrayRef> = (self.spec.join_type == JoinType::LeftMark).then(|| {
            Arc::new(
                (start..end)
                    .map(|row| Some(matches.is_set(row)))
                    .collect::<BooleanArray>(),
            ) as ArrayRef
        });
        let build = (&self.build.columns as &dyn SideColumns, SideRows::Picked(&rows));
        let count = rows.len();
        gather(
            &self.spec.output,
            &self.schema,
            build,
            (&(), SideRows::Absent),
            mark,
            count,
        )
        .map(Some)
    }
}

/// Where pair making goes on: a probe row, and the chain within it if that was cut.
#[derive(Default)]
struct Cursor {
    row: usize,
    head: Head,
}
