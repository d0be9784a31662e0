//! From a choice and two inputs to the operators that find candidate pairs.

use arrow::buffer::NullBuffer;
use datafusion::common::{JoinSide, Result, internal_err};
use tenon_gpu::cpu::join::Matcher;

use super::band::{Band, Bounds};
use super::loops::{CrossProduct, NestedLoop, RowNumbers};

use super::codes::Words;
use super::hash::HashMatcher;
use super::keys::{EqualKeys, KeyedRows, Verify};
use super::range::band;
use crate::gpu_error::to_datafusion;
use crate::join::choice::{Choice, Operator};
use crate::join::exec::JoinSpec;
use crate::join::side::SideData;
use crate::keys::all_valid;

/// One run over candidates.
pub struct Pass {
    pub matcher: Box<dyn Matcher>,
    /// Whether the operator's build rows are the join's probe rows.
    pub swapped: bool,
    /// Compares keys where the operator's words do not decide.
    pub verify: Option<Verify>,
    /// Whether the join's filter must still be tested.
    pub filtered: bool,
    /// Positions of one piece of work: also what runs on after a cancel.
    pub step: usize,
}

/// Positions of a piece of work, at most.
const STEP_MAX: usize = 16 * 1024;
/// Comparisons of a piece of work of a nested loop: some 20 ms.
const COMPARISONS: usize = 1 << 25;

/// The passes of a join: one, and those of a null-aware join with a filter.
pub fn passes(spec: &JoinSpec, choice: &Choice, build: &SideData, probe: &SideData) -> Result<Vec<Pass>> {
    let filtered = spec.filter.is_some();
    if let Some(range) = spec
        .range
        .as_ref()
        .filter(|_| spec.build_keys.is_empty() && choice.operator == Operator::Smj)
    {
        let swapped = range.sorted == JoinSide::Right;
        let (sorted, probing) = if swapped { (probe, build) } else { (build, probe) };
        let (matcher, exact) = band(range, &sorted.keys[0], &probing.keys)?;
        return Ok(vec![Pass {
            matcher,
            swapped,
            verify: None,
            filtered: !(range.whole && exact),
            step: STEP_MAX,
        }]);
    }
    if spec.build_keys.is_empty() {
        let rows = (RowNumbers::All(build.rows), RowNumbers::All(probe.rows));
        return Ok(vec![cross_pass(rows.0, rows.1, filtered)]);
    }
    let equal = EqualKeys::of(&build.keys, &probe.keys, (build.rows, probe.rows), spec.null_equal)?;
    let swapped = choice.build == JoinSide::Right;
    let (own, other) = match swapped {
        true => (equal.probe, equal.build),
        false => (equal.build, equal.probe),
    };
    let mut step = STEP_MAX;
    let matcher: Box<dyn Matcher> = match choice.operator {
        Operator::Hj => Box::new(HashMatcher::build(own, other)),
        Operator::Smj => sorted_equal(own, other)?,
        Operator::Ninlj => {
            step = nested_step(own.words.len());
            nested_loop(own, other)?
        }
        Operator::Inlj => return internal_err!("INLJ over collected inputs"),
    };
    let mut passes = vec![Pass {
        matcher,
        swapped,
        verify: equal.verify,
        filtered,
        step,
    }];
    if spec.null_aware {
        passes.extend(null_passes(build, probe, filtered));
    }
    Ok(passes)
}

fn nested_step(build_rows: usize) -> usize {
    (COMPARISONS / build_rows.max(1)).clamp(1, STEP_MAX)
}

fn cross_pass(build: RowNumbers, probe: RowNumbers, filtered: bool) -> Pass {
    Pass {
        step: nested_step(build.len()),
        matcher: Box::new(CrossProduct { build, probe }),
        swapped: false,
        verify: None,
        filtered,
    }
}

/// `x NOT IN (...)`: a null on either side is a partner of everything that the filter lets it meet.
fn null_passes(build: &SideData, probe: &SideData, filtered: bool) -> Vec<Pass> {
    let nulls = |side: &SideData| all_valid(&side.keys).map(null_rows).filter(|rows| !rows.is_empty());
    let mut passes = vec![];
    if let Some(rows) = nulls(build) {
        let probes = first_or_all(probe.rows, filtered);
        passes.push(cross_pass(RowNumbers::Picked(rows), probes, filtered));
    }
    if let Some(mut rows) = nulls(probe) {
        // Without a filter one null does what all of them do.
        rows.truncate(if filtered { rows.len() } else { 1 });
        passes.push(cross_pass(
            RowNumbers::All(build.rows),
            RowNumbers::Picked(rows),
            filtered,
        ));
    }
    passes
}

fn first_or_all(rows: usize, all: bool) -> RowNumbers {
    RowNumbers::All(if all { rows } else { rows.min(1) })
}

fn null_rows(valid: NullBuffer) -> Vec<u32> {
    (0..valid.len() as u32)
        .filter(|&row| valid.is_null(row as usize))
        .collect()
}

fn nested_loop(build: KeyedRows, probe: KeyedRows) -> Result<Box<dyn Matcher>> {
    Ok(match (build.words, probe.words) {
        (Words::U32(own), Words::U32(other)) => Box::new(NestedLoop::new((own, build.rows), (other, probe.rows))),
        (Words::U64(own), Words::U64(other)) => Box::new(NestedLoop::new((own, build.rows), (other, probe.rows))),
        _ => return internal_err!("join keys of two widths"),
    })
}

/// Equality as a band of one word.
fn sorted_equal(build: KeyedRows, probe: KeyedRows) -> Result<Box<dyn Matcher>> {
    macro_rules! band {
        ($own:expr, $other:expr) => {{
            let bounds = $other.into_iter().enumerate().map(|(at, word)| Bounds {
                low: word,
                high: word,
                probe_row: probe.rows.row(at),
            });
            Box::new(Band::build($own, build.rows, bounds.collect()).map_err(to_datafusion)?)
        }};
    }
    Ok(match (build.words, probe.words) {
        (Words::U32(own), Words::U32(other)) => band!(own, other),
        (Words::U64(own), Words::U64(other)) => band!(own, other),
        _ => return internal_err!("join keys of two widths"),
    })
}
