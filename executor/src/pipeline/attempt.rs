//! Whether a plan runs on the device as one fragment, and its rows if it did.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, Time};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use parking_lot::Mutex;
use tenon_gpu::{Device, GpuError};

use super::columns::is_there;
use super::compile::flow;
use super::cost::Work;
use super::exec::OffloadExec;
use super::fragment::{Fragment, Step};
use super::group::{Grouping, group};
use super::made::Made;
use super::prepare::in_background;
use super::result::{fits, groups, parts};
use super::run::{OnDevice, Ready, Running};
use super::sorted::Sorted;
use super::stored::bytes;
use super::tail::{applied, chain};
use super::top::{self, Top};
use crate::aggregate::{GroupExec, GroupSpec, finished};
use crate::apart::on_a_thread;
use crate::codegen::Translated;
use crate::device::{self, Queued};
use crate::held::batch_bytes;
use crate::join::choice::DeviceState;
use crate::join::machine::Machine;
use crate::options::{DeviceChoice, JoinOperator, JoinOptions};
use crate::scan::ScanExec;

/// Where a node ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// On the device, with all nodes below it, but for so many uppermost ones that the host did.
    Device(usize),
    /// On the CPU, for a reason, where there is a device.
    Host(Option<String>),
}

/// Where a node's run is noted.
pub struct Report {
    pub ran: Arc<Mutex<Option<Ran>>>,
    pub metrics: ExecutionPlanMetricsSet,
    pub partition: usize,
}

impl Report {
    fn time(&self, phase: impl Into<Cow<'static, str>>) -> Time {
        MetricBuilder::new(&self.metrics).subset_time(phase, self.partition)
    }
}

/// Why a fragment does not run on the device; None: there is none to run on.
type Refused = Option<String>;

/// Rows, and the memory that they take.
type Rows = (RecordBatch, MemoryReservation);

/// A plan as a fragment, and what its result is.
pub struct Compiled {
    fragment: Fragment,
    ends: Ends,
    /// How many nodes stand above it, for the host to do.
    above: usize,
    ready: Mutex<Option<Arc<Ready>>>,
    /// Whether it waits to be prepared, or is being.
    prepared: AtomicBool,
    /// Why it could not be.
    refused: OnceLock<String>,
    /// Bytes of the columns of each scan.
    bytes: Vec<Vec<u64>>,
}

enum Ends {
    Groups(Grouping, Arc<GroupSpec>),
    Rows(Made, SchemaRef),
    Sorted(Sorted, SchemaRef),
}

/// A fragment that is kept for further executions of its plan, or why there is none.
pub type Kept = Arc<Mutex<Option<Translated<Arc<Compiled>>>>>;

impl Compiled {
    /// The largest part of a plan that has a device form and nothing but the host's nodes above.
    fn of(plan: &Arc<dyn ExecutionPlan>, top: Option<&Top>) -> Translated<Self> {
        let mut refused = None;
        for (above, root) in chain(plan).into_iter().enumerate() {
            if root.downcast_ref::<SortPreservingMergeExec>().is_some() {
                continue;
            }
            let (root, top) = match root.downcast_ref::<OffloadExec>() {
                Some(own) => (own.input(), own.top()),
                None => (root, top),
            };
            match Self::of_root(root, top, above) {
                Ok(compiled) => return Ok(compiled),
                // The reason for the most that was tried.
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        Err(refused.unwrap_or_else(|| "nothing to run".into()))
    }

    fn of_root(plan: &Arc<dyn ExecutionPlan>, top: Option<&Top>, above: usize) -> Translated<Self> {
        let mut fragment = Fragment::new();
        let unreadable = || Err("rows of types that the device does not give back".into());
        let ends = match (plan.downcast_ref::<GroupExec>(), plan.downcast_ref::<SortExec>()) {
            (_, Some(sort)) => {
                let rows = flow(&mut fragment, sort.input())?;
                let sorted = Sorted::made(&mut fragment, rows, sort)?;
                if !sorted.is_readable(&plan.schema()) {
                    return unreadable();
                }
                Ends::Sorted(sorted, plan.schema())
            }
            (Some(own), None) if top.is_none() => {
                let rows = flow(&mut fragment, own.input())?;
                let mut grouping = group(&mut fragment, rows, own.spec(), own.estimate())?;
                grouping.put_together(&mut fragment)?;
                Ends::Groups(grouping, Arc::clone(own.spec()))
            }
            _ => {
                let mut rows = flow(&mut fragment, plan)?;
                let made = match top {
                    Some(top) => top::made(&mut fragment, rows, &plan.schema(), top)?,
                    None => {
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
        let scans = fragment.scans.iter();
        let bytes = scans.map(|scan| scan.columns.iter().map(|&column| bytes(&scan.table, column)).collect());
        Ok(Self {
            bytes: bytes.collect(),
            fragment,
            ends,
            above,
            ready: Mutex::default(),
            prepared: AtomicBool::new(false),
            refused: OnceLock::new(),
        })
    }

    /// Its sizes now.
    fn work(&self) -> Work {
        let mut work = Work {
            rows: self.fragment.scans.iter().map(|scan| scan.table.rows()).sum(),
            pipelines: self.fragment.steps.len(),
            set_bytes: self.fragment.set_bytes(),
            ..Work::default()
        };
        for (scan, bytes) in self.fragment.scans.iter().zip(&self.bytes) {
            for (&column, bytes) in scan.columns.iter().zip(bytes) {
                work.read_bytes += bytes;
                if !is_there(&scan.table, column) {
                    work.absent_bytes += bytes;
                }
            }
        }
        work
    }

    /// Its code and constants, if they are on the device or are there at once.
    fn known(&self, device: &Device) -> Result<Option<Arc<Ready>>, GpuError> {
        // Who holds the lock compiles: that is not waited for.
        let Some(ready) = self.ready.try_lock() else {
            return Ok(None);
        };
        if let Some(ready) = &*ready {
            return Ok(Some(Arc::clone(ready)));
        }
        drop(ready);
        let is_loaded = |step: &Step| device.is_loaded(&step.code.program());
        match self.fragment.steps.iter().all(is_loaded) {
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
    fn ready(&self, device: &Device) -> Result<Arc<Ready>, GpuError> {
        let mut ready = self.ready.lock();
        if let Some(ready) = &*ready {
            return Ok(Arc::clone(ready));
        }
        let made = Arc::new(Ready::new(&self.fragment, device)?);
        *ready = Some(Arc::clone(&made));
        Ok(made)
    }

    fn read(&self, running: &Running, pool: &Arc<dyn MemoryPool>) -> Result<Rows> {
        match &self.ends {
            Ends::Groups(grouping, spec) => {
                let found = groups(&self.fragment, grouping, running)?;
                let fields = &spec.schema.fields()[..spec.keys.len()];
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

fn counted(batch: RecordBatch, pool: &Arc<dyn MemoryPool>) -> Result<Rows> {
    let reservation = MemoryConsumer::new("rows of the device").register(pool);
    reservation.try_grow(batch_bytes(&batch))?;
    Ok((batch, reservation))
}

/// The rows of a plan, where they were found on the device; where that was done, or why not, is noted.
pub async fn rows(
    plan: &Arc<dyn ExecutionPlan>,
    top: Option<&Top>,
    kept: &Kept,
    context: &Arc<TaskContext>,
    report: &Report,
) -> Result<Option<Rows>> {
    let (found, ran) = match try_run(plan, top, kept, context, report).await? {
        Ok((found, 0)) => (Some(found), Ran::Device(0)),
        Ok(((batch, reservation), above)) => {
            let batch = applied(plan, above, batch)?;
            reservation.try_resize(batch_bytes(&batch))?;
            (Some((batch, reservation)), Ran::Device(above))
        }
        Err(why) => (None, Ran::Host(why)),
    };
    *report.ran.lock() = Some(ran);
    Ok(found)
}

async fn try_run(
    plan: &Arc<dyn ExecutionPlan>,
    top: Option<&Top>,
    kept: &Kept,
    context: &Arc<TaskContext>,
    report: &Report,
) -> Result<std::result::Result<(Rows, usize), Refused>> {
    let options = JoinOptions::of(context.session_config());
    let operators = [JoinOperator::Auto, JoinOperator::Hj];
    if options.device == DeviceChoice::Cpu || !operators.contains(&options.operator) {
        return Ok(Err(None));
    }
    let (state, Ok(device)) = (device::state(&options), device::shared()) else {
        return Ok(Err(None));
    };
    let DeviceState::Present {
        simulated,
        free_bytes,
        queued_s,
    } = state
    else {
        return Ok(Err(None));
    };
    let wished = options.device == DeviceChoice::Gpu;
    let (machine, cores) = (Machine::current(), context.session_config().target_partitions());
    let rows = Work {
        rows: scanned_rows(plan),
        ..Work::default()
    };
    if !wished && (simulated || !rows.pays(&machine, cores, false)) {
        return Ok(Err(None));
    }
    let timer = report.time("code");
    let known = kept.lock().clone();
    let compiled = known.unwrap_or_else(|| {
        let _timer = timer.timer();
        Compiled::of(plan, top).map(Arc::new)
    });
    if !compiled.as_ref().is_ok_and(|compiled| compiled.fragment.once) {
        *kept.lock() = Some(compiled.clone());
    }
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(why) => return Ok(Err(Some(why))),
    };
    let fragment = &compiled.fragment;
    if fragment.array_bytes() > free_bytes {
        let mb = |bytes: u64| bytes >> 20;
        let why = format!(
            "{} MiB of device memory, {} are free",
            mb(fragment.array_bytes()),
            mb(free_bytes)
        );
        return Ok(Err(Some(why)));
    }
    let work = compiled.work();
    let failed = |error: GpuError| {
        device::failed(&error);
        error.to_string()
    };
    let pays = |with_copies| work.after(queued_s).pays(&machine, cores, with_copies);
    if !wished && !pays(false) {
        return Ok(Err(Some(work.told(&machine, cores))));
    }
    let ready = match compiled.known(device) {
        Ok(ready) => ready,
        Err(error) => return Ok(Err(Some(failed(error)))),
    };
    if let Some(why) = compiled.refused.get() {
        return Ok(Err(Some(why.clone())));
    }
    if ready.is_none() && !options.wait_for_compile {
        in_background(compiled);
        return Ok(Err(Some("its code is being compiled".into())));
    }
    if !wished && !options.wait_for_compile && !pays(true) {
        in_background(compiled);
        return Ok(Err(Some("its columns are being copied to the GPU".into())));
    }
    let _queued = Queued::enter(Some(work.gpu_s(&machine)));
    // What runs again is under way at once and over soon: another thread would wake up too late.
    let at_hand = ready.filter(|_| work.absent_bytes == 0);
    let times = ["launch", "device", "result"].map(|phase| report.time(phase));
    let steps = fragment.steps.iter().map(|step| report.time(step.name.clone()));
    let steps: Vec<Time> = [report.time("arrays")].into_iter().chain(steps).collect();
    let pool = Arc::clone(context.memory_pool());
    let above = compiled.above;
    let [launching, waiting, reading] = times;
    let note = move |running: &Running| -> Result<(), GpuError> {
        let times = running.times()?;
        steps.iter().zip(times).for_each(|(step, took)| step.add_duration(took));
        Ok(())
    };
    if let Some(ready) = at_hand {
        let run = async {
            let mut running = {
                let _timer = launching.timer();
                Running::start(fragment, ready, device, &AtomicBool::new(false)).map_err(failed)?
            };
            {
                let _timer = waiting.timer();
                running.ended().await.map_err(failed)?;
                note(&running).map_err(failed)?;
            }
            let _timer = reading.timer();
            compiled.read(&running, &pool).map_err(|error| error.to_string())
        };
        return Ok(run.await.map(|rows| (rows, above)).map_err(Some));
    }
    let run = move |cancelled: &AtomicBool| {
        let mut running = {
            let _timer = launching.timer();
            let ready = compiled.ready(device).map_err(failed)?;
            Running::start(&compiled.fragment, ready, device, cancelled).map_err(failed)?
        };
        {
            let _timer = waiting.timer();
            running.wait(cancelled).map_err(failed)?;
            note(&running).map_err(failed)?;
        }
        let _timer = reading.timer();
        compiled.read(&running, &pool).map_err(|error| error.to_string())
    };
    let found = on_a_thread(move |cancelled| Ok(run(cancelled))).await?;
    Ok(found.map(|rows| (rows, above)).map_err(Some))
}

/// Rows of the tables that a plan reads.
fn scanned_rows(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let own = plan.downcast_ref::<ScanExec>().map_or(0, |scan| scan.table().rows());
    own + plan.children().into_iter().map(scanned_rows).sum::<u64>()
}
