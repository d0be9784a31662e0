//! Where candidate pairs go: tested, marked, and gathered into output batches of bounded size.

use std::time::{Duration, Instant};

use arrow::array::{RecordBatch, UInt32Array};
use datafusion::common::Result;

use super::checks::Checks;
use super::join::MaterializedJoin;
use super::residual::tested;
use crate::join::kind::has_pairs;
use crate::join::match_bitmap::MatchBitmap;
use crate::join::output::{SideColumns, SideRows, gather};

pub struct Sink<'a> {
    join: &'a MaterializedJoin,
    build_rows: Vec<u32>,
    probe_rows: Vec<u32>,
    /// Candidates seen, and time of testing, of gathering, and of waiting for the consumer.
    pub candidates: usize,
    pub residual_time: Duration,
    pub output_time: Duration,
    pub waited: Duration,
}

impl<'a> Sink<'a> {
    pub fn new(join: &'a MaterializedJoin) -> Self {
        Self {
            join,
            build_rows: vec![],
            probe_rows: vec![],
            candidates: 0,
            residual_time: Duration::ZERO,
            output_time: Duration::ZERO,
            waited: Duration::ZERO,
        }
    }

    /// Takes pairs of the join's build and probe rows. A full batch comes back.
    pub fn sink(&mut self, checks: &Checks, build_rows: &[u32], probe_rows: &[u32]) -> Result<Option<RecordBatch>> {
        self.candidates += build_rows.len();
        let join = self.join;
        let begin = Instant::now();
        let testing = checks.verify.is_some() || checks.filtered;
        let (mut build, mut probe);
        let (mut build_rows, mut probe_rows) = (build_rows, probe_rows);
        if testing {
            (build, probe) = self.undecided(build_rows, probe_rows);
            let sides: (&dyn SideColumns, &dyn SideColumns) = (&join.build.columns, &join.probe.columns);
            let filter = join.spec.filter.as_ref().filter(|_| checks.filtered);
            (build, probe) = tested(checks.verify.as_deref(), filter, sides, (build, probe))?;
            (build_rows, probe_rows) = (build.values(), probe.values());
            self.residual_time += begin.elapsed();
        }
        let mark = |matches: &Option<MatchBitmap>, rows: &[u32]| {
            if let Some(matches) = matches {
                rows.iter().for_each(|&row| matches.set(row as usize));
            }
        };
        mark(&join.build_matches, build_rows);
        mark(&join.probe_matches, probe_rows);
        if !has_pairs(join.spec.join_type) {
            return Ok(None);
        }
        self.build_rows.extend_from_slice(build_rows);
        self.probe_rows.extend_from_slice(probe_rows);
        if self.build_rows.len() < join.batch_rows {
            return Ok(None);
        }
        self.combine()
    }

    /// The pairs that have not come out yet.
    pub fn combine(&mut self) -> Result<Option<RecordBatch>> {
        if self.build_rows.is_empty() {
            return Ok(None);
        }
        let begin = Instant::now();
        let join = self.join;
        let build_rows = UInt32Array::from(std::mem::take(&mut self.build_rows));
        let probe_rows = UInt32Array::from(std::mem::take(&mut self.probe_rows));
        let batch = gather(
            &join.spec.output,
            &join.schema,
            (&join.build.columns, SideRows::Picked(&build_rows)),
            (&join.probe.columns, SideRows::Picked(&probe_rows)),
            None,
            build_rows.len(),
        )?;
        self.output_time += begin.elapsed();
        Ok(Some(batch))
    }

    /// Pairs whose test can change anything: where only marks are asked for, a row marked already needs no more.
    fn undecided(&self, build_rows: &[u32], probe_rows: &[u32]) -> (UInt32Array, UInt32Array) {
        let (matches, rows) = match (&self.join.build_matches, &self.join.probe_matches) {
            (Some(matches), None) => (matches, build_rows),
            (None, Some(matches)) => (matches, probe_rows),
            _ => return (build_rows.to_vec().into(), probe_rows.to_vec().into()),
        };
        if has_pairs(self.join.spec.join_type) {
            return (build_rows.to_vec().into(), probe_rows.to_vec().into());
        }
        let open = (0..rows.len()).filter(|&at| !matches.is_set(rows[at] as usize));
        let (build, probe): (Vec<u32>, Vec<u32>) = open.map(|at| (build_rows[at], probe_rows[at])).unzip();
        (build.into(), probe.into())
    }
}
