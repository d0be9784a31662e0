//! A join of two collected inputs, shared by the threads that work on it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use tenon_gpu::cpu::Stop;

use super::on_device::{Gpu, Outcome};
use super::operators::{Finders, Pass, tracks_probe};
use crate::device;
use crate::join::build::tracks_build;
use crate::join::choice::Choice;
use crate::join::side::SideData;
use crate::join::spec::JoinSpec;
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

/// What a join is prepared under.
pub struct Setting {
    pub choice: Choice,
    /// Rows of an output batch.
    pub batch_rows: usize,
    /// Threads that will call [`CollectedJoin::take`].
    pub workers: usize,
    /// Device memory that the statement may take.
    pub memory_bytes: Option<u64>,
    /// Whether a join of equal keys that runs out of device memory may go on as the Triton join.
    pub may_spill: bool,
}

impl CollectedJoin {
    /// Sorts, builds tables, or has the device find the pairs: the work before the first pair. Also says what the device
    /// did, where it was asked. Ends soon after `cancelled` is set.
    pub fn prepare(
        spec: Arc<JoinSpec>,
        schema: SchemaRef,
        (build, probe): (SideData, SideData),
        setting: Setting,
        cancelled: &AtomicBool,
    ) -> Result<(Self, Option<Outcome>)> {
        // Words, row numbers, and one more copy of both while they are sorted or put into a table.
        build.reservation.try_grow((build.rows + probe.rows) * 32)?;
        let device = if setting.choice.on_gpu {
            device::shared().ok()
        } else {
            None
        };
        let _queued = device.map(|_| device::Queued::enter(setting.choice.seconds));
        let gpu = device.map(|device| Gpu {
            device,
            memory_bytes: setting.memory_bytes,
            may_spill: setting.may_spill,
            cancelled,
        });
        let found = Finders::of(&spec, &setting.choice, (&build, &probe), gpu, Stop::when(cancelled))?;
        let join_type = spec.join_type;
        let join = Self {
            build_flags: tracks_build(join_type).then(|| Visited::new(build.rows)),
            probe_flags: tracks_probe(join_type).then(|| Visited::new(probe.rows)),
            spec,
            schema,
            build,
            probe,
            passes: found.passes,
            batch_rows: setting.batch_rows,
            next: AtomicUsize::new(0),
            working: AtomicUsize::new(setting.workers),
        };
        if let Some((marks, of_build)) = found.marks
            && let Some(flags) = if of_build { &join.build_flags } else { &join.probe_flags }
        {
            let marked = marks.iter().enumerate().filter(|(_, mark)| **mark != 0);
            marked.for_each(|(row, _)| flags.set(row));
        }
        Ok((join, found.device))
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
