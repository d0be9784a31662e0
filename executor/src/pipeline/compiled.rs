//! A plan as a fragment with what its result is, what it needs to run, and how its rows are read.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use parking_lot::Mutex;
use tenon_gpu::{Device, GpuError};

use super::columns::is_there;
use super::compile::{expected, flow};
use super::cost::Work;
use super::counted::{self, NodeRan};
use super::exec::OffloadExec;
use super::fragment::{Fragment, Pipeline, Sizes, Step};
use super::group::{Grouping, Steps, group};
use super::made::Made;
use super::passes::{Class, Stage, classes};
use super::result::{fits, groups, parts};
use super::run::{OnDevice, Ready, Running, TableRows};
use super::sorted::Sorted;
use super::streamed::{Streamed, column_bytes};
use super::tail::chain;
use super::top::{self, Top};
use crate::aggregate::{GroupExec, GroupSpec, finished};
use crate::codegen::Translated;
use crate::memory_size::batch_bytes;

/// A table that was full gets room for so many times the rows that it then had.
const GROWN: u64 = 4;

/// Rows, and the memory that they take.
pub type ReservedBatch = (RecordBatch, MemoryReservation);

/// A plan as a fragment, and what its result is.
pub struct Compiled {
    pub fragment: Fragment,
    ends: Ends,
    /// How many nodes stand above it, for the host to do.
    pub above: usize,
    ready: Mutex<Option<Arc<Ready>>>,
    /// Whether it waits to be prepared, or is being.
    prepared: AtomicBool,
    /// Why it could not be.
    pub refused: OnceLock<String>,
    /// Bytes of the columns of each scan.
    bytes: Vec<Vec<u64>>,
    /// Values of rows and of groups that the host reads, as far as that is known.
    given_values: u64,
    grouped_values: u64,
    /// How many rows its tables had in a run.
    rows: Arc<TableRows>,
    sizes: Sizes,
}

enum Ends {
    Groups(Grouping, Arc<GroupSpec>),
    Rows(Made, SchemaRef),
    Sorted(Sorted, SchemaRef),
}

impl Compiled {
    /// The largest part of a plan that has a device form and nothing but the host's nodes above.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, top: Option<&Top>, sizes: &Sizes) -> Translated<Self> {
        let mut refused = None;
        let nodes = chain(plan);
        let is_sort = |node: &&Arc<dyn ExecutionPlan>| node.downcast_ref::<SortExec>().is_some();
        for (above, root) in nodes.iter().copied().enumerate() {
            // What puts rows in order is a fragment's last node, or none of its.
            let loses_order = !is_sort(&root) && nodes[above..].iter().any(is_sort);
            if loses_order || root.downcast_ref::<SortPreservingMergeExec>().is_some() {
                continue;
            }
            let (root, top) = match root.downcast_ref::<OffloadExec>() {
                Some(own) => (own.input(), own.top()),
                None => (root, top),
            };
            // Groups of each pass are read as rows.
            for as_rows in [false, true] {
                match Self::of_root(root, top, (above, as_rows), sizes) {
                    Ok(compiled) => return Ok(compiled),
                    // The reason for the most that was tried.
                    Err(why) => refused = refused.or(Some(why)),
                }
                if sizes.passes.is_none() {
                    break;
                }
            }
        }
        Err(refused.unwrap_or_else(|| "nothing to run".into()))
    }

    fn of_root(
        plan: &Arc<dyn ExecutionPlan>,
        top: Option<&Top>,
        (above, as_rows): (usize, bool),
        sizes: &Sizes,
    ) -> Translated<Self> {
        let mut fragment = Fragment::new(sizes.clone());
        let unreadable = || Err("rows of types that the device does not give back".into());
        let steps = Steps::of(plan).transpose()?;
        let ends = match (plan.downcast_ref::<GroupExec>(), plan.downcast_ref::<SortExec>()) {
            (_, Some(sort)) => {
                let rows = flow(&mut fragment, sort.input())?;
                let sorted = Sorted::made(&mut fragment, rows, plan.schema(), sort.expr(), sort.fetch())?;
                if !sorted.is_readable(&plan.schema()) {
                    return unreadable();
                }
                Ends::Sorted(sorted, plan.schema())
            }
            (Some(own), None) if top.is_none() && !as_rows && steps.is_none() => {
                let rows = flow(&mut fragment, own.input())?;
                let mut grouping = group(&mut fragment, rows, own.spec(), &[], own.estimate())?;
                grouping.put_together(&mut fragment)?;
                Ends::Groups(grouping, Arc::clone(own.spec()))
            }
            (_, None) if top.is_none() && !as_rows && steps.as_ref().is_some_and(|own| !own.are_first_values()) => {
                let own = steps.ok_or("an aggregation of no steps")?;
                if !own.is_supported() {
                    return Err("aggregates that the host has no groups of".into());
                }
                let rows = flow(&mut fragment, own.input)?;
                let mut grouping = group(&mut fragment, rows, &own.spec, &own.distinct, own.estimate)?;
                grouping.put_together(&mut fragment)?;
                Ends::Groups(grouping, Arc::new(own.spec))
            }
            // What is above may rely on the order.
            (None, None) if top.is_none() && plan.output_ordering().is_some() => {
                let rows = flow(&mut fragment, plan)?;
                let order = plan.output_ordering().ok_or("rows in no order")?;
                let sorted = Sorted::made(&mut fragment, rows, plan.schema(), order, None)?;
                if !sorted.is_readable(&plan.schema()) {
                    return unreadable();
                }
                Ends::Sorted(sorted, plan.schema())
            }
            _ => {
                let mut rows = flow(&mut fragment, plan)?;
                let made = match top {
                    Some(top) => top::made(&mut fragment, rows, &plan.schema(), top)?,
                    None => {
                        rows.to_host = true;
                        let made = Made::of(&mut fragment, &mut rows, |_| true)?;
                        rows.finish(&mut fragment)?;
                        made
                    }
                };
                if !made.is_readable(&plan.schema()) {
                    return unreadable();
                }
                Ends::Rows(made, plan.schema())
            }
        };
        let whole = |arrays: Vec<usize>| arrays.into_iter().map(|array| (array, 0)).collect();
        fragment.results = match &ends {
            Ends::Groups(grouping, _) => parts(grouping),
            Ends::Rows(made, _) => whole(made.arrays()),
            Ends::Sorted(sorted, _) => whole(sorted.arrays()),
        };
        if let Ends::Groups(grouping, _) = &ends
            && grouping.stage == Stage::Pass
        {
            return Err("groups of each pass".into());
        }
        fragment.lay_out();
        let given = |plan| expected(plan).unwrap_or(u64::MAX);
        let given_values = match &ends {
            Ends::Rows(made, _) if top.is_none() => made.room.min(given(plan)).saturating_mul(made.row_as_numbers()),
            Ends::Sorted(sorted, _) => {
                let rows = sorted.rows_max().min(given(plan));
                rows.saturating_mul(sorted.row_as_numbers())
            }
            _ => 0,
        };
        let groups = match &ends {
            Ends::Groups(grouping, _) => grouping.groups_max().min(given(plan)),
            _ => 0,
        };
        Ok(Self {
            grouped_values: groups.saturating_mul(plan.schema().fields().len() as u64),
            rows: Arc::default(),
            sizes: sizes.clone(),
            given_values,
            bytes: column_bytes(&fragment),
            fragment,
            ends,
            above,
            ready: Mutex::default(),
            prepared: AtomicBool::new(false),
            refused: OnceLock::new(),
        })
    }

    /// Where its tables' rows are told.
    pub fn rows(&self) -> &Arc<TableRows> {
        &self.rows
    }

    /// Whether a table was full in a run.
    pub fn was_too_small(&self) -> bool {
        let tables = self.rows.known().into_iter().flatten().zip(&self.fragment.tables);
        tables.into_iter().any(|(rows, (_, room))| rows > room)
    }

    /// Rows that tables have at least in all passes together, of those that were full in a run; 0: of others.
    pub fn least_rows(&self) -> Vec<u64> {
        let least = |(rows, (count, room)): (&u64, &(usize, u64))| match rows > room {
            true => rows.saturating_mul(GROWN).saturating_mul(self.fragment.times(*count)),
            false => 0,
        };
        let rows = self.rows.known().unwrap_or_default();
        rows.iter().zip(&self.fragment.tables).map(least).collect()
    }

    /// Sizes for the next run of the same that are better than those that it was made with: after a run those that tables
    /// had, after one in which tables were full larger ones.
    pub fn better_sizes(&self) -> Option<Sizes> {
        let rows = self.rows.known()?;
        let tables = || rows.iter().zip(&self.fragment.tables);
        let seen: Vec<Option<u64>> = match self.was_too_small() {
            // It was made with them.
            false if self.is_sized(rows.len()) => return None,
            false => rows.iter().copied().map(Some).collect(),
            true => {
                let grown = tables().map(|(rows, (_, room))| match rows > room {
                    true => rows.saturating_mul(GROWN),
                    false => *room,
                });
                grown.map(Some).collect()
            }
        };
        Some(Sizes {
            seen,
            seen_whole: false,
            ..self.sizes.clone()
        })
    }

    /// Whether it was made with the rows that were seen in the same form.
    fn is_sized(&self, tables: usize) -> bool {
        self.sizes.seen.len() == tables && !self.sizes.seen_whole
    }

    /// How many rows its tables had in a run of this form.
    pub fn seen(&self) -> Option<Vec<Option<u64>>> {
        if self.is_sized(self.fragment.tables.len()) {
            return Some(self.sizes.seen.clone());
        }
        let rows = self.rows.known().filter(|_| !self.was_too_small())?;
        Some(rows.iter().copied().map(Some).collect())
    }

    /// Its sizes now, with these scans' columns in chunks.
    pub fn work(&self, streamed: &Streamed) -> Work {
        let mut work = Work {
            rows: self.fragment.scans.iter().map(|scan| scan.table.rows()).sum(),
            pipelines: self.fragment.launches(),
            set_bytes: self.fragment.set_bytes(),
            ordered_words: self.fragment.ordered_words,
            given_values: self.given_values,
            grouped_values: self.grouped_values,
            ..Work::default()
        };
        let mut known = HashSet::new();
        for (at, (scan, bytes)) in self.fragment.scans.iter().zip(&self.bytes).enumerate() {
            let reads = self.fragment.reads(at);
            for (&column, bytes) in scan.columns.iter().zip(bytes) {
                work.read_bytes += (*bytes as f64 * reads) as u64;
                let is_new = streamed.of(at).is_none() && known.insert((Arc::as_ptr(&scan.table), column));
                if is_new && !is_there(&scan.table, column) {
                    work.absent_bytes += bytes;
                }
            }
        }
        work
    }

    /// What its nodes did in a run that has ended, if they are counted.
    pub fn nodes(&self, running: &Running) -> Result<Vec<NodeRan>, GpuError> {
        counted::ran(&self.fragment, &self.bytes, running)
    }

    /// Whether the orders that it searches are on the device.
    pub fn has_orders(&self) -> bool {
        self.fragment.kept_orders().all(|of| of.is_there(&self.fragment))
    }

    /// Whether the host waits before the last step.
    pub fn waits(&self) -> bool {
        self.fragment.waits(|of| of.is_there(&self.fragment))
    }

    /// Keys by whose ranges it might run in passes.
    pub fn classes(&self) -> Vec<Class> {
        classes(&self.fragment)
    }

    /// How it keeps within so many bytes of device memory.
    pub fn streamed(&self, limit: u64) -> Translated<Streamed> {
        Streamed::within(&self.fragment, &self.bytes, limit)
    }

    /// Its code and constants, if they are on the device or are there at once.
    pub fn known(&self, device: &Device) -> Result<Option<Arc<Ready>>, GpuError> {
        // Who holds the lock compiles: that is not waited for.
        let Some(ready) = self.ready.try_lock() else {
            return Ok(None);
        };
        if let Some(ready) = &*ready {
            return Ok(Some(Arc::clone(ready)));
        }
        drop(ready);
        let is_loaded = |step: &Pipeline| device.is_loaded(&step.code.program());
        match self.fragment.steps.iter().filter_map(Step::pipeline).all(is_loaded) {
            true => self.ready(device).map(Some),
            false => Ok(None),
        }
    }

    /// Makes all that is the same in every run.
    pub fn prepare(&self, device: &Device) -> Result<(), GpuError> {
        self.ready(device)?;
        let stream = device.stream()?;
        for scan in &self.fragment.scans {
            OnDevice::of(&stream, scan)?;
        }
        stream.synchronize()
    }

    /// Whether nobody prepares it; from now on somebody does.
    pub fn is_first(&self) -> bool {
        !self.prepared.swap(true, Ordering::Relaxed)
    }

    /// It cannot be prepared, and is not tried again.
    pub fn refuse(&self, error: &GpuError) {
        let _ = self.refused.set(error.to_string());
    }

    /// It may be prepared once more: columns are given up where others need the memory.
    pub fn again(&self) {
        self.prepared.store(false, Ordering::Relaxed);
    }

    /// Its code and constants on the device.
    pub fn ready(&self, device: &Device) -> Result<Arc<Ready>, GpuError> {
        let mut ready = self.ready.lock();
        if let Some(ready) = &*ready {
            return Ok(Arc::clone(ready));
        }
        let made = Arc::new(Ready::new(&self.fragment, device)?);
        *ready = Some(Arc::clone(&made));
        Ok(made)
    }

    pub fn read(&self, running: &Running, pool: &Arc<dyn MemoryPool>) -> Result<ReservedBatch> {
        match &self.ends {
            Ends::Groups(grouping, spec) => {
                let found = groups(&self.fragment, grouping, running)?;
                let keys = spec.keys.len() + usize::from(!spec.sets.is_empty());
                let fields = &spec.schema.fields()[..keys];
                match fits(&found.0, fields.iter().map(|field| field.data_type().clone())) {
                    true => finished(spec, found, pool),
                    false => internal_err!("keys of other types"),
                }
            }
            Ends::Rows(made, schema) => {
                let rows = made.rows(running)?;
                counted(made.read(&self.fragment, running, schema, rows, None)?, pool)
            }
            Ends::Sorted(sorted, schema) => counted(sorted.read(&self.fragment, running, schema)?, pool),
        }
    }
}

fn counted(batch: RecordBatch, pool: &Arc<dyn MemoryPool>) -> Result<ReservedBatch> {
    let reservation = MemoryConsumer::new("rows of the device").register(pool);
    reservation.try_grow(batch_bytes(&batch))?;
    Ok((batch, reservation))
}
