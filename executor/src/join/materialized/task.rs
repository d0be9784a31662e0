//! A join in normalized keys, for whichever operator finds its pairs.

use std::sync::Arc;

use arrow::buffer::NullBuffer;
use datafusion::common::{JoinSide, Result};
use tenon_cpu::Stop;
use tenon_cpu::join::Matcher;
use tenon_gpu::join::sort_merge::Ascending;

use super::cpu_operators::{self, CrossSide};
use super::keys::{EqualKeys, KeyedRows, Verify};
use super::range::RangeKeys;
use crate::join::choice::Choice;
use crate::join::path::Operator;
use crate::join::side::SideData;
use crate::join::spec::JoinSpec;

/// What is compared. `build` is the operator's build side.
pub enum Condition {
    Equal {
        build: KeyedRows,
        probe: KeyedRows,
        /// Which of them ascend.
        ascending: Ascending,
    },
    /// The build side's keys ascend already if this says so.
    Range(RangeKeys, bool),
    /// All pairs.
    Any,
}

pub struct Task {
    pub condition: Condition,
    /// Whether the operator's build rows are the join's probe rows.
    pub swapped: bool,
    /// Compares keys where normalized keys do not decide.
    pub verify: Option<Arc<Verify>>,
    /// Whether the join's filter must still be tested.
    pub filtered: bool,
    /// Rows of the operator's build side and of its probe side.
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
        if let Some(range) = range.filter(|_| choice.path.operator != Operator::Ninlj) {
            let swapped = range.sorted == JoinSide::Right;
            let (build, probe) = if swapped { (probe, build) } else { (build, probe) };
            let keys = RangeKeys::of(range, &build.keys[0], &probe.keys, stop)?;
            return Ok(Self {
                swapped,
                verify: None,
                filtered: !(range.whole && keys.exact),
                condition: Condition::Range(keys, build.ascending),
                rows: (build.rows, probe.rows),
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
        let swapped = choice.path.build == JoinSide::Right;
        // Hashes are in no order.
        let exact = equal.verify.is_none();
        let [build_ascends, probe_ascends] = [build, probe].map(|side| exact && side.ascending);
        let (build, probe, rows, ascends) = match swapped {
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
            condition: Condition::Equal {
                build,
                probe,
                ascending,
            },
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
            Condition::Any => cpu_operators::cross(CrossSide::First(rows.0), CrossSide::First(rows.1)),
            Condition::Range(keys, ascending) => cpu_operators::ranges(keys, ascending, stop),
            Condition::Equal {
                build,
                probe,
                ascending,
            } => cpu_operators::equal(operator, (build, probe), ascending, stop),
        }
    }
}

/// The rows whose key is null.
pub fn null_rows(valid: &NullBuffer) -> Vec<u32> {
    (0..valid.len() as u32)
        .filter(|&row| valid.is_null(row as usize))
        .collect()
}
