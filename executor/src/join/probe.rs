//! The probe loop of a join partition.
//!
//! ```text
//! start -> (build side finished) -> for each probe batch: heads -> pairs -> condition -> output
//!       -> (last partition of a join that tracks build rows) -> build rows with or without partner -> end
//! ```
//! Pairs are made in pieces of about `PAIRS_MAX`, and between two of them the partition hands out what there is and lets others
//! run: a key with many duplicates takes neither memory nor the thread for itself. Where a probe row needs one partner only, each
//! is shown a few of the key's rows at first, and more as long as it has none.
//!
//! More than 400 lines because all kinds of joins share the loop, and differ in what each step hands out.

use std::collections::{HashSet, VecDeque};
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
/// Rows of a chain that a piece of pairs looks at, at most: not all of them become pairs.
const STEPS_MAX: usize = 16 * PAIRS_MAX;
/// Rows of its key that a probe row is shown at first where one partner is enough, and how much more each time after.
const SHOWN_FIRST: usize = 8;
const SHOWN_MORE: usize = 4;
/// Rows in one batch of build rows at the end.
const FINAL_ROWS: usize = 8 * 1024;

pub struct Prober {
    pub spec: Arc<JoinSpec>,
    pub schema: SchemaRef,
    pub build: Arc<BuildSide>,
    integers: Vec<i64>,
    heads: Vec<Head>,
    under_way: Option<UnderWay>,
    /// First rows of keys whose build rows all have the one partner that they need.
    exhausted: HashSet<Head>,
}

/// A probe batch whose pairs are made.
struct UnderWay {
    batch: RecordBatch,
    keys: Vec<ArrayRef>,
    cursor: Cursor,
    /// Probe rows with a partner, where the kind of join asks for them.
    matched: Vec<bool>,
}

impl Prober {
    pub fn new(spec: Arc<JoinSpec>, schema: SchemaRef, build: Arc<BuildSide>) -> Self {
        Self {
            spec,
            schema,
            build,
            integers: vec![],
            heads: vec![],
            under_way: None,
            exhausted: HashSet::new(),
        }
    }

    /// Whether there are pairs left to make of the batch that was given last.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether pairs of equal integer keys must still be checked.
    fn is_conditional(&self) -> bool {
        self.spec.filter.is_some() || matches!(self.build.packing, Packing::Hashed(_))
    }

    /// Joins one probe batch, or begins to: the rest is made by `go_on`. Output goes to `out`.
    pub fn probe(&mut self, batch: &RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        use JoinType::*;
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
        let matched = match self.spec.join_type {
            _ if !self.is_conditional() => {
                if self.is_done_at_once(batch, out)? {
                    return Ok(());
                }
                vec![]
            }
            Right | Full | RightSemi | RightAnti | RightMark => vec![false; batch.num_rows()],
            _ => vec![],
        };
        self.under_way = Some(UnderWay {
            batch: batch.clone(),
            keys,
            cursor: Cursor::default(),
            matched,
        });
        self.go_on(out)
    }

    /// Where equal keys are all it takes: what needs no pairs, or one a probe row.
    fn is_done_at_once(&mut self, batch: &RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<bool> {
        use JoinType::*;
        if let Some(matches) = &self.build.matches {
            // One mark a key, at its first row: `finish` follows the chains.
            self.heads
                .iter()
                .filter(|&&head| head != 0)
                .for_each(|&head| matches.set(head as usize - 1));
        }
        match self.spec.join_type {
            LeftSemi | LeftAnti | LeftMark => return Ok(true),
            RightSemi | RightAnti | RightMark => {
                let matched = self.heads.iter().map(|&head| head != 0).collect();
                self.emit_probe_rows(batch, &matched, out)?;
                return Ok(true);
            }
            Inner | Left | Right | Full => {}
        }
        if !self.build.table.is_unique() {
            return Ok(false);
        }
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
        self.emit_without_partner(batch, out)?;
        Ok(true)
    }

    /// The probe rows whose key the build side does not have, where they are owed.
    fn emit_without_partner(&self, batch: &RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        if !matches!(self.spec.join_type, JoinType::Right | JoinType::Full) {
            return Ok(());
        }
        let matched = self.heads.iter().map(|&head| head != 0).collect();
        self.emit_unmatched_probe(batch, &matched, out)
    }

    /// Makes a piece of the pairs of the batch under way; after the last, what else is owed of it.
    pub fn go_on(&mut self, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        use JoinType::*;
        let Some(mut way) = self.under_way.take() else {
            return Ok(());
        };
        let (join_type, conditional) = (self.spec.join_type, self.is_conditional());
        let pairs = match join_type {
            RightSemi | RightAnti | RightMark => self.first_pairs(&mut way),
            _ => self.pairs(&mut way.cursor),
        };
        let Some((build_rows, probe_rows)) = pairs else {
            return self.end(way, out);
        };
        if !conditional {
            self.emit_pairs(&way.batch, build_rows, probe_rows, out)?;
        } else if !probe_rows.is_empty() {
            // Pairs are checked by value and by the residual predicate before they count.
            let (build_rows, probe_rows) = self.check(&way.batch, &way.keys, build_rows, probe_rows)?;
            if let Some(matches) = &self.build.matches {
                build_rows.values().iter().for_each(|&row| matches.set(row as usize));
            }
            if !way.matched.is_empty() {
                let marked = probe_rows.values().iter();
                marked.for_each(|&row| way.matched[row as usize] = true);
            }
            if matches!(join_type, Inner | Left | Right | Full) {
                self.emit_pairs(&way.batch, build_rows, probe_rows, out)?;
            }
        }
        if way.cursor.row >= self.heads.len() && !way.cursor.is_open {
            return self.end(way, out);
        }
        self.under_way = Some(way);
        Ok(())
    }

    /// What is owed of a batch when its pairs are made.
    fn end(&self, way: UnderWay, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        use JoinType::*;
        match self.spec.join_type {
            RightSemi | RightAnti | RightMark => self.emit_probe_rows(&way.batch, &way.matched.into(), out),
            Right | Full if self.is_conditional() => self.emit_unmatched_probe(&way.batch, &way.matched.into(), out),
            _ => self.emit_without_partner(&way.batch, out),
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

    /// The next pairs of equal integer keys, perhaps none; `None` after the last. Build rows that need a partner and have one
    /// are passed over.
    fn pairs(&mut self, cursor: &mut Cursor) -> Option<(UInt32Array, UInt32Array)> {
        use JoinType::*;
        let one_is_enough = matches!(self.spec.join_type, LeftSemi | LeftAnti | LeftMark);
        let met = self.build.matches.as_ref().filter(|_| one_is_enough);
        let (mut build_rows, mut probe_rows) = (vec![], vec![]);
        let mut steps = 0;
        while cursor.row < self.heads.len() && build_rows.len() < PAIRS_MAX && steps < STEPS_MAX {
            let first = self.heads[cursor.row];
            let mut head = match cursor.head {
                0 if met.is_some() && self.exhausted.contains(&first) => 0,
                0 => {
                    cursor.is_met = first != 0;
                    first
                }
                cut => cut,
            };
            while head != 0 && build_rows.len() < PAIRS_MAX && steps < STEPS_MAX {
                if met.is_none_or(|met| !met.is_set(head as usize - 1)) {
                    cursor.is_met = false;
                    build_rows.push(head - 1);
                    probe_rows.push(cursor.row as u32);
                }
                head = self.build.table.following(head);
                steps += 1;
            }
            cursor.head = head;
            if head == 0 {
                if met.is_some() && cursor.is_met {
                    self.exhausted.insert(first);
                }
                cursor.is_met = false;
                cursor.row += 1;
            }
        }
        (steps > 0).then(|| (build_rows.into(), probe_rows.into()))
    }

    /// The next pairs of probe rows that have no partner yet. Each turn goes over all of them and shows each more of its key's
    /// rows, from where the turn before has left `heads`.
    fn first_pairs(&mut self, way: &mut UnderWay) -> Option<(UInt32Array, UInt32Array)> {
        let (mut build_rows, mut probe_rows) = (vec![], vec![]);
        let cursor = &mut way.cursor;
        loop {
            while cursor.row < self.heads.len() && build_rows.len() < PAIRS_MAX {
                let mut head = match way.matched[cursor.row] {
                    true => 0,
                    false => self.heads[cursor.row],
                };
                for _ in 0..cursor.shown {
                    if head == 0 {
                        break;
                    }
                    build_rows.push(head - 1);
                    probe_rows.push(cursor.row as u32);
                    head = self.build.table.following(head);
                }
                self.heads[cursor.row] = head;
                cursor.is_open |= head != 0;
                cursor.row += 1;
            }
            if !build_rows.is_empty() {
                return Some((build_rows.into(), probe_rows.into()));
            }
            if !cursor.is_open {
                return None;
            }
            *cursor = Cursor {
                shown: (cursor.shown * SHOWN_MORE).min(PAIRS_MAX),
                ..Cursor::default()
            };
        }
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
struct Cursor {
    row: usize,
    head: Head,
    /// How many of its key's rows each probe row is shown in this turn, and whether some have more.
    shown: usize,
    is_open: bool,
    /// Whether all build rows of the chain that were seen so far have a partner.
    is_met: bool,
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            row: 0,
            head: 0,
            shown: SHOWN_FIRST,
            is_open: false,
            is_met: false,
        }
    }
}
