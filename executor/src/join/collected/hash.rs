//! The hash join over words: the streaming join's table, which is an array where keys are dense.

use std::ops::{ControlFlow, Range};

use tenon_gpu::cpu::join::{Emit, Matcher, PAIRS_MAX};

use super::codes::Words;
use super::keys::KeyedRows;
use super::loops::RowNumbers;
use crate::join::table::KeyTable;
use crate::keys::lane_range;

/// Probe keys looked up at a time.
const PROBES: usize = 1024;

pub struct HashMatcher {
    table: KeyTable,
    build_rows: RowNumbers,
    probe: Vec<i64>,
    probe_rows: RowNumbers,
}

impl HashMatcher {
    pub fn build(build: KeyedRows, probe: KeyedRows) -> Self {
        let build_lanes = lanes(build.words);
        let table = KeyTable::build(&build_lanes, None, lane_range(&build_lanes, None));
        Self {
            table,
            build_rows: build.rows,
            probe: lanes(probe.words),
            probe_rows: probe.rows,
        }
    }
}

/// Words as the table's keys, which keep their distances.
fn lanes(words: Words) -> Vec<i64> {
    match words {
        Words::U32(words) => words.into_iter().map(i64::from).collect(),
        Words::U64(words) => words.into_iter().map(|word| (word ^ 1 << 63) as i64).collect(),
    }
}

impl Matcher for HashMatcher {
    fn positions(&self) -> usize {
        self.probe.len()
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let (mut build_rows, mut probe_rows) = (Vec::with_capacity(PAIRS_MAX), Vec::with_capacity(PAIRS_MAX));
        let mut heads = vec![];
        for from in positions.clone().step_by(PROBES) {
            let to = positions.end.min(from + PROBES);
            self.table.probe(&self.probe[from..to], None, &mut heads);
            for (position, &head) in (from..to).zip(&heads) {
                let mut head = head;
                while head != 0 {
                    build_rows.push(self.build_rows.row(head as usize - 1));
                    probe_rows.push(self.probe_rows.row(position));
                    if build_rows.len() == PAIRS_MAX {
                        emit(&build_rows, &probe_rows)?;
                        build_rows.clear();
                        probe_rows.clear();
                    }
                    head = self.table.following(head);
                }
            }
        }
        if build_rows.is_empty() {
            return ControlFlow::Continue(());
        }
        emit(&build_rows, &probe_rows)
    }
}
