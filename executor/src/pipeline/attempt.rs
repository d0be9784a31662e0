//! Whether a grouping runs on the device as one fragment, and its groups if it did.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, Time};
use parking_lot::Mutex;
use tenon_gpu::{Device, GpuError};

use super::compile::flow;
use super::fragment::Fragment;
use super::group::{Grouping, group};
use super::made::Made;
use super::result::{Gathered, fits, groups};
use super::run::Running;
use crate::aggregate::GroupSpec;
use crate::apart::on_a_thread;
use crate::codegen::Translated;
use crate::device;
use crate::join::choice::DeviceState;
use crate::options::{DeviceChoice, JoinOperator, JoinOptions};

/// Rows from which on a fragment is worth a device.
const ROWS_MIN: u64 = 1 << 20;

/// A grouping as a fragment; the error says why it cannot be one.
pub fn compiled(input: &Arc<dyn ExecutionPlan>, spec: &GroupSpec, estimate: Option<usize>) -> Translated<(Fragment, Grouping)> {
    let mut fragment = Fragment::new();
    let rows = flow(&mut fragment, input)?;
    let mut grouping = group(&mut fragment, rows, spec, estimate)?;
    grouping.put_together(&mut fragment)?;
    Ok((fragment, grouping))
}

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
    fn time(&self, phase: &'static str) -> Time {
        MetricBuilder::new(&self.metrics).subset_time(phase, self.partition)
    }
}

/// Why a fragment does not run on the device; None: there is none to run on.
type Refused = Option<String>;

/// The groups, where they were found on the device.
pub async fn grouped(
    input: &Arc<dyn ExecutionPlan>,
    spec: &GroupSpec,
    estimate: Option<usize>,
    context: &Arc<TaskContext>,
    report: &Report,
) -> Result<Option<Gathered>> {
    let types: Vec<_> = spec.schema.fields()[..spec.keys.len()]
        .iter()
        .map(|field| field.data_type().clone())
        .collect();
    let compile = || compiled(input, spec, estimate);
    let read = move |fragment: &Fragment, grouping: &Grouping, running: &Running| {
        let found = groups(fragment, grouping, running).map_err(|error| error.to_string())?;
        match fits(&found.0, types.into_iter()) {
            true => Ok(found),
            false => Err("keys of other types".into()),
        }
    };
    attempt(context, report, compile, read).await
}

/// The rows of a plan, where they were found on the device.
pub async fn rows(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    report: &Report,
) -> Result<Option<RecordBatch>> {
    let schema = plan.schema();
    let compile = || {
        let mut fragment = Fragment::new();
        let mut rows = flow(&mut fragment, plan)?;
        let made = Made::of(&mut fragment, &mut rows, |_| true)?;
        if !made.is_readable() {
            return Err("rows of types that the device does not give back".into());
        }
        rows.finish(&mut fragment)?;
        Ok((fragment, made))
    };
    let read = move |fragment: &Fragment, made: &Made, running: &Running| {
        made.read(fragment, running, &schema).map_err(|error| error.to_string())
    };
    attempt(context, report, compile, read).await
}

/// Compiles and runs a fragment and reads its result, and notes where that was done or why not.
async fn attempt<K: Send + 'static, T: Send + 'static>(
    context: &Arc<TaskContext>,
    report: &Report,
    compile: impl FnOnce() -> Translated<(Fragment, K)>,
    read: impl FnOnce(&Fragment, &K, &Running) -> Translated<T> + Send + 'static,
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
    read: impl FnOnce(&Fragment, &K, &Running) -> Translated<T> + Send + 'static,
) -> Result<std::result::Result<T, Refused>> {
    let options = JoinOptions::of(context.session_config());
    let operators = [JoinOperator::Auto, JoinOperator::Hj];
    if options.device == DeviceChoice::Cpu || !operators.contains(&options.operator) {
        return Ok(Err(None));
    }
    let DeviceState::Present { simulated, free_bytes, .. } = device::state(&options) else {
        return Ok(Err(None));
    };
    let forced = options.device == DeviceChoice::Gpu;
    let (Ok(device), false) = (device::shared(), simulated && !forced) else {
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
    if !forced && fragment.rows() < ROWS_MIN {
        return Ok(Err(Some("few rows".into())));
    }
    if fragment.array_bytes() > free_bytes {
        let mb = |bytes: u64| bytes >> 20;
        let why = format!("{} MiB of device memory, {} are free", mb(fragment.array_bytes()), mb(free_bytes));
        return Ok(Err(Some(why)));
    }
    if !forced && !is_compiled(device, &fragment) {
        return Ok(Err(Some("its code is being compiled".into())));
    }
    let times = ["launch", "device", "result"].map(|phase| report.time(phase));
    let run = move |cancelled: &AtomicBool| {
        let [launching, waiting, reading] = &times;
        let failed = |error: GpuError| {
            device::failed(&error);
            error.to_string()
        };
        let running = {
            let _timer = launching.timer();
            Running::start(&fragment, device, cancelled).map_err(failed)?
        };
        {
            let _timer = waiting.timer();
            running.wait().map_err(failed)?;
        }
        let _timer = reading.timer();
        read(&fragment, &kept, &running)
    };
    Ok(on_a_thread(move |cancelled| Ok(run(cancelled))).await?.map_err(Some))
}

/// Whether all code of a fragment is compiled; what is not will be, in the background.
fn is_compiled(device: &'static Device, fragment: &Fragment) -> bool {
    static UNDER_WAY: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let mut all = true;
    for step in &fragment.steps {
        let program = step.code.program();
        if device.is_loaded(&program) {
            continue;
        }
        all = false;
        let name = format!("{:?}", step.code);
        if !UNDER_WAY.lock().insert(name.clone()) {
            continue;
        }
        std::thread::spawn(move || {
            if let Err(error) = device.load(&program) {
                tracing::warn!("compiling a pipeline: {error}");
                // Not again and again: it stays among those that are under way.
                return;
            }
            UNDER_WAY.lock().remove(&name);
        });
    }
    all
}
