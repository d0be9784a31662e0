//! Whether a plan runs on the device as one fragment, and its rows if it did.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, Time};
use parking_lot::Mutex;
use tenon_gpu::{Device, GpuError};

use super::columns::are_there;
use super::compile::flow;
use super::fragment::{Fragment, Scan};
use super::group::{Grouping, group};
use super::made::Made;
use super::result::{fits, groups};
use super::run::{Ready, Running};
use super::top::{self, Top};
use crate::aggregate::{GroupExec, GroupSpec, finished};
use crate::apart::on_a_thread;
use crate::codegen::Translated;
use crate::device;
use crate::held::batch_bytes;
use crate::join::choice::DeviceState;
use crate::options::{DeviceChoice, JoinOperator, JoinOptions};

/// Where a node ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// On the device, with all nodes below it.
    Device,
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
    ready: Mutex<Option<Arc<Ready>>>,
}

enum Ends {
    Groups(Grouping, Arc<GroupSpec>),
    Rows(Made, SchemaRef),
}

/// A fragment that is kept for further executions of its plan.
pub type Kept = Arc<Mutex<Option<Arc<Compiled>>>>;

impl Compiled {
    fn of(plan: &Arc<dyn ExecutionPlan>, top: Option<&Top>) -> Translated<Self> {
        let mut fragment = Fragment::new();
        let ends = match plan.downcast_ref::<GroupExec>() {
            Some(own) if top.is_none() => {
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
                    return Err("rows of types that the device does not give back".into());
                }
                Ends::Rows(made, plan.schema())
            }
        };
        Ok(Self {
            fragment,
            ends,
            ready: Mutex::default(),
        })
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
                let batch = made.read(&self.fragment, running, schema)?;
                let reservation = MemoryConsumer::new("rows of the device").register(pool);
                reservation.try_grow(batch_bytes(&batch))?;
                Ok((batch, reservation))
            }
        }
    }
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
        Ok(found) => (Some(found), Ran::Device),
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
) -> Result<std::result::Result<Rows, Refused>> {
    let options = JoinOptions::of(context.session_config());
    let operators = [JoinOperator::Auto, JoinOperator::Hj];
    // What a fragment costs was not measured on a GPU yet: without being told to, only single joins run there.
    if options.device != DeviceChoice::Gpu || !operators.contains(&options.operator) {
        return Ok(Err(None));
    }
    let (DeviceState::Present { free_bytes, .. }, Ok(device)) = (device::state(&options), device::shared()) else {
        return Ok(Err(None));
    };
    let timer = report.time("code");
    let known = kept.lock().clone();
    let compiled = match known {
        Some(known) => known,
        None => {
            let _timer = timer.timer();
            match Compiled::of(plan, top) {
                Ok(compiled) => Arc::new(compiled),
                Err(why) => return Ok(Err(Some(why))),
            }
        }
    };
    if !compiled.fragment.once {
        *kept.lock() = Some(Arc::clone(&compiled));
    }
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
    // What runs again is under way at once and over soon: another thread would wake up too late.
    let known = compiled.ready.lock().clone();
    let is_there = |scan: &Scan| are_there(&scan.table, &scan.columns);
    let at_hand = known.filter(|_| fragment.scans.iter().all(is_there));
    let times = ["launch", "device", "result"].map(|phase| report.time(phase));
    let steps = fragment.steps.iter().map(|step| report.time(step.name.clone()));
    let steps: Vec<Time> = steps.collect();
    let pool = Arc::clone(context.memory_pool());
    let [launching, waiting, reading] = times;
    let failed = |error: GpuError| {
        device::failed(&error);
        error.to_string()
    };
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
        return Ok(run.await.map_err(Some));
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
    Ok(on_a_thread(move |cancelled| Ok(run(cancelled))).await?.map_err(Some))
}
