//! Whether a plan runs on the device as one fragment, and its rows if it did.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, Time};
use parking_lot::Mutex;
use tenon_gpu::GpuError;

use super::compile::flow;
use super::fragment::Fragment;
use super::group::{Grouping, group};
use super::made::Made;
use super::result::{fits, groups};
use super::run::Running;
use super::top::{self, Top};
use crate::aggregate::{GroupExec, finished};
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

/// The rows of a plan, where they were found on the device.
pub async fn rows(
    plan: &Arc<dyn ExecutionPlan>,
    top: Option<&Top>,
    context: &Arc<TaskContext>,
    report: &Report,
) -> Result<Option<Rows>> {
    match plan.downcast_ref::<GroupExec>() {
        Some(own) if top.is_none() => grouped(own, context, report).await,
        _ => made(plan, top, context, report).await,
    }
}

async fn grouped(own: &GroupExec, context: &Arc<TaskContext>, report: &Report) -> Result<Option<Rows>> {
    let (spec, pool) = (Arc::clone(own.spec()), Arc::clone(context.memory_pool()));
    let compile = || {
        let mut fragment = Fragment::new();
        let rows = flow(&mut fragment, own.input())?;
        let mut grouping = group(&mut fragment, rows, &spec, own.estimate())?;
        grouping.put_together(&mut fragment)?;
        Ok((fragment, grouping))
    };
    let spec = Arc::clone(own.spec());
    let read = move |fragment: &Fragment, grouping: &Grouping, running: &Running| {
        let found = groups(fragment, grouping, running)?;
        let fields = &spec.schema.fields()[..spec.keys.len()];
        match fits(&found.0, fields.iter().map(|field| field.data_type().clone())) {
            true => finished(&spec, found, &pool),
            false => internal_err!("keys of other types"),
        }
    };
    attempt(context, report, compile, read).await
}

async fn made(
    plan: &Arc<dyn ExecutionPlan>,
    top: Option<&Top>,
    context: &Arc<TaskContext>,
    report: &Report,
) -> Result<Option<Rows>> {
    let (schema, pool) = (plan.schema(), Arc::clone(context.memory_pool()));
    let compile = || {
        let mut fragment = Fragment::new();
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
        Ok((fragment, made))
    };
    let read = move |fragment: &Fragment, made: &Made, running: &Running| {
        let batch = made.read(fragment, running, &schema)?;
        let reservation = MemoryConsumer::new("rows of the device").register(&pool);
        reservation.try_grow(batch_bytes(&batch))?;
        Ok((batch, reservation))
    };
    attempt(context, report, compile, read).await
}

/// Compiles and runs a fragment and reads its result, and notes where that was done or why not.
async fn attempt<K: Send + 'static, T: Send + 'static>(
    context: &Arc<TaskContext>,
    report: &Report,
    compile: impl FnOnce() -> Translated<(Fragment, K)>,
    read: impl FnOnce(&Fragment, &K, &Running) -> Result<T> + Send + 'static,
) -> Result<Option<T>> {
    let (found, ran) = match try_run(context, report, compile, read).await? {
        Ok(found) => (Some(found), Ran::Device),
        Err(why) => (None, Ran::Host(why)),
    };
    *report.ran.lock() = Some(ran);
    Ok(found)
}

async fn try_run<K: Send + 'static, T: Send + 'static>(
    context: &Arc<TaskContext>,
    report: &Report,
    compile: impl FnOnce() -> Translated<(Fragment, K)>,
    read: impl FnOnce(&Fragment, &K, &Running) -> Result<T> + Send + 'static,
) -> Result<std::result::Result<T, Refused>> {
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
    let (fragment, kept) = {
        let _timer = timer.timer();
        match compile() {
            Ok(compiled) => compiled,
            Err(why) => return Ok(Err(Some(why))),
        }
    };
    if fragment.array_bytes() > free_bytes {
        let mb = |bytes: u64| bytes >> 20;
        let why = format!(
            "{} MiB of device memory, {} are free",
            mb(fragment.array_bytes()),
            mb(free_bytes)
        );
        return Ok(Err(Some(why)));
    }
    let times = ["launch", "device", "result"].map(|phase| report.time(phase));
    let steps: Vec<Time> = fragment
        .steps
        .iter()
        .map(|step| report.time(step.name.clone()))
        .collect();
    let run = move |cancelled: &AtomicBool| {
        let [launching, waiting, reading] = &times;
        let failed = |error: GpuError| {
            device::failed(&error);
            error.to_string()
        };
        let mut running = {
            let _timer = launching.timer();
            Running::start(&fragment, device, cancelled).map_err(failed)?
        };
        {
            let _timer = waiting.timer();
            running.wait(cancelled).map_err(failed)?;
            for (step, took) in steps.iter().zip(running.times().map_err(failed)?) {
                step.add_duration(took);
            }
        }
        let _timer = reading.timer();
        read(&fragment, &kept, &running).map_err(|error| error.to_string())
    };
    Ok(on_a_thread(move |cancelled| Ok(run(cancelled))).await?.map_err(Some))
}
