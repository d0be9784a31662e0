//! A join of two collected inputs, shared by the threads that work on it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinType, Result};

use super::operators::{Pass, passes};
use crate::join::build::tracks_build;
use crate::join::choice::Choice;
use crate::join::exec::JoinSpec;
use crate::join::side::SideData;
use crate::join::visited::Visited;

pub struct CollectedJoin {
    pub spec: Arc<JoinSpec>,
    pub schema: SchemaRef,
    pub build: SideData,
    pub probe: SideData,
    pub passes: Vec<Pass>,
    /// Rows with a partner, where the join kind asks for them.
    pub build_flags: Option<Visited>,
    pub probe_flags: Option<Visited>,
    pub batch_rows: usize,
    /// The next piece of work, counted over all passes.
    next: AtomicUsize,
    /// Workers that have not come to their end.
    pub working: AtomicUsize,
}

/// Whether the join kind must know which probe rows met a partner.
fn tracks_probe(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Right | Full | RightSemi | RightAnti | RightMark)
}

impl CollectedJoin {
    /// Sorts, or builds tables: the work before the first pair. `workers` threads will call [`CollectedJoin::take`].
    pub fn prepare(
        spec: Arc<JoinSpec>,
        schema: SchemaRef,
        choice: &Choice,
        build: SideData,
        probe: SideData,
        batch_rows: usize,
        workers: usize,
    ) -> Result<Self> {
        // Words, row numbers, and one more copy of both while they are sorted or put into a table.
        build.reservation.try_grow((build.rows + probe.rows) * 32)?;
        let passes = passes(&spec, choice, &build, &probe)?;
        let join_type = spec.join_type;
        Ok(Self {
            build_flags: tracks_build(join_type).then(|| Visited::new(build.rows)),
            probe_flags: tracks_probe(join_type).then(|| Visited::new(probe.rows)),
            spec,
            schema,
            build,
            probe,
            passes,
            batch_rows,
            next: AtomicUsize::new(0),
            working: AtomicUsize::new(workers),
        })
    }

    /// The next piece of work.
    pub fn take(&self) -> Option<(&Pass, Range<usize>)> {
        let mut number = self.next.fetch_add(1, Ordering::Relaxed);
        for pass in &self.passes {
            let positions = pass.matcher.positions();
            let pieces = positions.div_ceil(pass.step);
            if number < pieces {
                let from = number * pass.step;
                return Some((pass, from..positions.min(from + pass.step)));
            }
            number -= pieces;
        }
        None
    }
}
