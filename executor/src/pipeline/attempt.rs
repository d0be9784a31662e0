//! Whether a grouping runs on the device as one fragment, and its groups if it did.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, Time};
use parking_lot::Mutex;
use tenon_gpu::{Device, GpuError};

use super::compile::flow;
use super::fragment::Fragment;
use super::group::{Grouping, group};
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
    let (found, ran) = match attempt(input, spec, estimate, context, report).await? {
        Ok(found) => (Some(found), Ran::Device),
        Err(why) => (None, Ran::Host(why)),
    };
    *report.ran.lock() = Some(ran);
    Ok(found)
}

async fn attempt(
    input: &Arc<dyn ExecutionPlan>,
    spec: &GroupSpec,
    estimate: Option<usize>,
    context: &Arc<TaskContext>,
    report: &Report,
) -> Result<std::result::Result<Gathered, Refused>> {
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
    let (fragment, grouping) = {
        let _timer = timer.timer();
        match compiled(input, spec, estimate) {
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
    let types: Vec<_> = spec.schema.fields()[..spec.keys.len()]
        .iter()
        .map(|field| field.data_type().clone())
        .collect();
    let times = ["launch", "device", "result"].map(|phase| report.time(phase));
    let ran = on_a_thread(move |cancelled| Ok(run(device, &fragment, &grouping, cancelled, &times)));
    Ok(match ran.await? {
        Ok(found) if fits(&found.0, types.into_iter()) => Ok(found),
        Ok(_) => Err(Some("keys of other types".into())),
        Err(why) => Err(Some(why)),
    })
}

fn run(
    device: &Device,
    fragment: &Fragment,
    grouping: &Grouping,
    cancelled: &AtomicBool,
    [launching, waiting, reading]: &[Time; 3],
) -> Translated<Gathered> {
    let failed = |error: GpuError| {
        device::failed(&error);
        error.to_string()
    };
    let running = {
        let _timer = launching.timer();
        Running::start(fragment, device, cancelled).map_err(failed)?
    };
    {
        let _timer = waiting.timer();
        running.wait().map_err(failed)?;
    }
    let _timer = reading.timer();
    groups(fragment, grouping, &running).map_err(|error| error.to_string())
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
