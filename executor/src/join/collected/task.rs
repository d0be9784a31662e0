//! A join in words, for whichever operator finds its pairs.

use std::sync::Arc;

use arrow::buffer::NullBuffer;
use datafusion::common::{JoinSide, Result};
use tenon_gpu::cpu::Stop;
use tenon_gpu::cpu::join::Matcher;
use tenon_gpu::join::sort_merge::Ascending;

use super::keys::{EqualKeys, KeyedRows, Verify};
use super::range::RangeWords;
use super::twins::{self, Rows};
use crate::join::choice::{Choice, Operator};
use crate::join::side::SideData;
use crate::join::spec::JoinSpec;

/// What is compared. `own` is the operator's build side.
pub enum Condition {
    Equal {
        own: KeyedRows,
        other: KeyedRows,
        /// Of `own` as the build side.
        ascending: Ascending,
    },
    /// The sorted side's keys ascend already if this says so.
    Range(RangeWords, bool),
    /// All pairs.
    Any,
}

pub struct Task {
    pub condition: Condition,
    /// Whether the operator's build rows are the join's probe rows.
    pub swapped: bool,
    /// Compares keys where words do not decide.
    pub verify: Option<Arc<Verify>>,
    /// Whether the join's filter must still be tested.
    pub filtered: bool,
    /// Rows of the operator's build side and of the other.
    pub rows: (usize, usize),
}

impl Task {
    pub fn of(
        spec: &JoinSpec,
        choice: &Choice,
        (build, probe): (&SideData, &SideData),
        stop: Stop<'_>,
    ) -> Result<Self> {
        let filtered = spec.filter.is_some();
        let range = spec.range.as_ref().filter(|_| spec.build_keys.is_empty());
        if let Some(range) = range.filter(|_| choice.operator != Operator::Ninlj) {
            let swapped = range.sorted == JoinSide::Right;
            let (sorted, probing) = if swapped { (probe, build) } else { (build, probe) };
            let words = RangeWords::of(range, &sorted.keys[0], &probing.keys, stop)?;
            return Ok(Self {
                swapped,
                verify: None,
                filtered: !(range.whole && words.exact),
                condition: Condition::Range(words, sorted.ascending),
                rows: (sorted.rows, probing.rows),
            });
        }
        if spec.build_keys.is_empty() {
            return Ok(Self {
                condition: Condition::Any,
                swapped: false,
                verify: None,
                filtered,
                rows: (build.rows, probe.rows),
            });
        }
        let equal = EqualKeys::of(
            &build.keys,
            &probe.keys,
            (build.rows, probe.rows),
            spec.null_equal,
            stop,
        )?;
        let swapped = choice.build == JoinSide::Right;
        // Hashes are in no order.
        let exact = equal.verify.is_none();
        let [build_ascends, probe_ascends] = [build, probe].map(|side| exact && side.ascending);
        let (own, other, rows, ascends) = match swapped {
            true => (
                equal.probe,
                equal.build,
                (probe.rows, build.rows),
                (probe_ascends, build_ascends),
            ),
            false => (
                equal.build,
                equal.probe,
                (build.rows, probe.rows),
                (build_ascends, probe_ascends),
            ),
        };
        let ascending = Ascending {
            build: ascends.0,
            probe: ascends.1,
        };
        Ok(Self {
            condition: Condition::Equal { own, other, ascending },
            swapped,
            verify: equal.verify.map(Arc::new),
            filtered,
            rows,
        })
    }

    /// The operator on the CPU.
    pub fn matcher(
        condition: Condition,
        rows: (usize, usize),
        operator: Operator,
        stop: Stop<'_>,
    ) -> Result<Box<dyn Matcher>> {
        match condition {
            Condition::Any => twins::cross(Rows::First(rows.0), Rows::First(rows.1)),
            Condition::Range(words, ascending) => twins::ranges(words, ascending, stop),
            Condition::Equal { own, other, ascending } => twins::equal(operator, (own, other), ascending, stop),
        }
    }
}

/// The rows whose key is null.
pub fn null_rows(valid: &NullBuffer) -> Vec<u32> {
    (0..valid.len() as u32)
        .filter(|&row| valid.is_null(row as usize))
        .collect()
}
