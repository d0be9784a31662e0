//! Whether a plan runs on the device as one fragment, and its rows if it did.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, Time};
use parking_lot::Mutex;
use tenon_gpu::GpuError;

use super::compiled::{Compiled, ReservedBatch};
use super::cost::Work;
use super::counted::{NodeRan, address};
use super::fragment::Source;
use super::given;
use super::kept::{Again, Kept};
use super::passes::Stage;
use super::prepare::in_background;
use super::room::Room;
use super::run::Running;
use super::streamed::Streamed;
use super::tail::{applied, chain};
use super::top::Top;
use crate::counts::COUNTS;
use crate::device::DeviceState;
use crate::device::{self, Queued};
use crate::join::JoinExec;
use crate::join::choice::Choice;
use crate::join::cost::CostParameters;
use crate::memory_size::batch_bytes;
use crate::offload::on_a_thread;
use crate::options::{DeviceChoice, JoinOperator, JoinOptions};
use crate::scan::ScanExec;

/// How often a run begins anew with more room for its tables, before it is the CPU's.
const ATTEMPTS: usize = 4;

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
    pub nodes: Arc<Mutex<Vec<NodeRan>>>,
    pub metrics: ExecutionPlanMetricsSet,
    pub partition: usize,
}

impl Report {
    fn time(&self, phase: impl Into<Cow<'static, str>>) -> Time {
        MetricBuilder::new(&self.metrics).subset_time(phase, self.partition)
    }

    fn bytes(&self, of_what: &'static str, bytes: u64) {
        let gauge = MetricBuilder::new(&self.metrics).gauge(of_what, self.partition);
        gauge.set(bytes as usize);
    }
}

/// Why a fragment does not run on the device; None: there is none to run on.
type Refused = Option<String>;

/// The rows of a plan, where they were found on the device; where that was done, or why not, is noted.
pub async fn rows(
    plan: &Arc<dyn ExecutionPlan>,
    top: Option<&Top>,
    kept: &Arc<Kept>,
    context: &Arc<TaskContext>,
    report: &Report,
) -> Result<Option<(ReservedBatch, Option<Again>)>> {
    let (found, ran) = match try_run(plan, top, kept, context, report).await? {
        Ok((found, 0, again)) => (Some((found, again)), Ran::Device(0)),
        Ok(((batch, reservation), above, again)) => {
            note_uppermost(plan, above, batch.num_rows(), report);
            let batch = applied(plan, above, batch)?;
            reservation.try_resize(batch_bytes(&batch))?;
            (Some(((batch, reservation), again)), Ran::Device(above))
        }
        Err(why) => (None, Ran::Host(why)),
    };
    match &ran {
        Ran::Device(_) => {
            COUNTS.fragments_on_device.add(1);
            count_scans(plan);
        }
        Ran::Host(Some(why)) => {
            tracing::debug!(why, "a fragment is the CPU's");
            COUNTS.fragments_on_cpu.add(1);
        }
        // There is no device, or the session wants none.
        Ran::Host(None) => {}
    }
    *report.ran.lock() = Some(ran);
    Ok(found)
}

/// Rows whose reading takes the CPU as long as what its scans look at.
fn rows_worth(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let own = plan.downcast_ref::<ScanExec>().map_or(0, ScanExec::rows_worth);
    own + plan.children().into_iter().map(rows_worth).sum::<u64>()
}

async fn try_run(
    plan: &Arc<dyn ExecutionPlan>,
    top: Option<&Top>,
    kept: &Arc<Kept>,
    context: &Arc<TaskContext>,
    report: &Report,
) -> Result<std::result::Result<(ReservedBatch, usize, Option<Again>), Refused>> {
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
    let (machine, cores) = (CostParameters::current(), context.session_config().target_partitions());
    let rows = Work {
        rows: rows_worth(plan),
        ..Work::default()
    };
    if !wished && (simulated || !rows.pays(&machine, cores, false)) {
        return Ok(Err(None));
    }
    // What the query touches is to keep within the session's limit, and within what the device has.
    let limit = options.gpu_memory_limit_bytes.map_or(u64::MAX, |bytes| bytes as u64);
    let room = Room {
        limit: limit.min(device.pool().budget_bytes() / 8 * 7),
        free: free_bytes,
    };
    if kept.fails() {
        return Ok(Err(Some(format!("on the GPU {}", GpuError::RowFailed))));
    }
    // What takes time for counting tells nothing of other runs.
    let forms = match options.count_rows {
        true => kept.counting(),
        false => kept,
    };
    let timer = report.time("code");
    let form_of = |forms: &Kept| {
        let _timer = timer.timer();
        room.form(|form| forms.form(plan, top, form))
    };
    let mut forms = Arc::clone(forms);
    let (compiled, streamed) = match form_of(&forms) {
        Ok(form) => form,
        Err(why) => {
            let Some(given) = given::forms(plan, top, kept, context).await? else {
                return Ok(Err(Some(why)));
            };
            forms = match options.count_rows {
                true => Arc::clone(given.counting()),
                false => given,
            };
            match form_of(&forms) {
                Ok(form) => form,
                Err(_) => return Ok(Err(Some(why))),
            }
        }
    };
    let fragment = &compiled.fragment;
    let mut work = compiled.work(&streamed);
    let again = Again {
        in_chunks: !streamed.is_empty(),
    };
    let is_there = work.absent_bytes == 0 && streamed.is_there(fragment) && compiled.has_orders();
    work.seen_cpu_s = kept.host_s();
    work.seen_gpu_s = kept.device_s(again.in_chunks).filter(|_| is_there);
    // They are copied each time; what stays of their scans is there when it comes again.
    work.absent_bytes += streamed.bytes;
    let noting = Arc::clone(kept);
    let failed = move |error: GpuError| {
        device::failed(&error);
        if matches!(error, GpuError::RowFailed) {
            noting.note_failed();
        }
        error.to_string()
    };
    let pays = |with_copies| work.after(queued_s).pays(&machine, cores, with_copies);
    if !wished && fragment.filtered_outside {
        return Ok(Err(Some("joins above leave out rows that it would read".into())));
    }
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
    let waits = options.wait_for_compile || options.count_rows;
    if ready.is_none() && !waits {
        in_background(compiled);
        return Ok(Err(Some("its code is being compiled".into())));
    }
    if !wished && !streamed.is_empty() && !pays(true) {
        return Ok(Err(Some(work.told(&machine, cores))));
    }
    if !wished && !options.wait_for_compile && !pays(true) {
        in_background(compiled);
        return Ok(Err(Some("its columns are being copied to the GPU".into())));
    }
    report.bytes("bytes_read", work.read_bytes);
    report.bytes("bytes_to_gpu", work.absent_bytes);
    report.bytes("state_bytes", fragment.array_bytes());
    let again = (is_there && ready.is_some() && !options.count_rows).then_some(again);
    let _queued = Queued::enter(Some(work.gpu_s(&machine)));
    // What runs again is under way at once and over soon: another thread would wake up too late.
    let at_hand = ready.filter(|_| work.absent_bytes == 0 && streamed.is_empty() && !compiled.waits());
    let times = ["compile", "launch", "device", "result"].map(|phase| report.time(phase));
    let steps = fragment.steps.iter().zip(&fragment.stages).map(|(step, stage)| {
        let chunked = match step.pipeline().map(|own| own.source) {
            Some(Source::Scan(scan)) => streamed.of(scan),
            _ => None,
        };
        let mut name = step.name().to_string();
        if let Some(passes) = fragment.passes().filter(|_| *stage == Stage::Pass) {
            name += &format!(" in {} passes", passes.count);
        }
        if let Some(own) = chunked {
            name += &format!(" in {} chunks", own.chunks());
        }
        report.time(name)
    });
    let steps: Vec<Time> = [report.time("arrays")].into_iter().chain(steps).collect();
    let pool = Arc::clone(context.memory_pool());
    let above = compiled.above;
    let [compiling, launching, waiting, reading] = times;
    let nodes = Arc::clone(&report.nodes);
    let note = move |running: &mut Running, compiled: &Compiled| -> Result<(), GpuError> {
        if compiled.rows().known().is_none() {
            running.note_rows()?;
        }
        let times = running.times()?;
        steps.iter().zip(times).for_each(|(step, took)| step.add_duration(took));
        *nodes.lock() = compiled.nodes(running)?;
        Ok(())
    };
    if let Some(ready) = at_hand {
        let run = async {
            let mut running = {
                let _timer = launching.timer();
                let rows = compiled.rows();
                Running::start(fragment, ready, device, &streamed, rows, &AtomicBool::new(false)).map_err(&failed)?
            };
            {
                let _timer = waiting.timer();
                running.ended().await.map_err(&failed)?;
                note(&mut running, &compiled).map_err(&failed)?;
            }
            let _timer = reading.timer();
            compiled.read(&running, &pool).map_err(|error| error.to_string())
        };
        let found = run.await;
        if found.is_ok() {
            note_joins(plan, &compiled.fragment.joins);
        }
        if found.is_ok() || !compiled.was_too_small() {
            return Ok(found.map(|rows| (rows, above, again)).map_err(Some));
        }
    }
    let run = move |compiled: &Compiled, streamed: &Streamed, cancelled: &AtomicBool| {
        let mut running = {
            let ready = {
                let _timer = compiling.timer();
                compiled.ready(device).map_err(&failed)?
            };
            let _timer = launching.timer();
            let start = |streamed: &Streamed| {
                let ready = Arc::clone(&ready);
                Running::start(&compiled.fragment, ready, device, streamed, compiled.rows(), cancelled)
            };
            let started = match start(streamed) {
                // Others hold more than was thought: what they leave may do for chunks.
                Err(error) if error.is_out_of_memory() && streamed.is_empty() => {
                    match compiled.streamed(device.pool().available() / 4 * 3) {
                        Ok(chunked) if !chunked.is_empty() => start(&chunked),
                        _ => Err(error),
                    }
                }
                other => other,
            };
            started.map_err(&failed)?
        };
        {
            let _timer = waiting.timer();
            running.wait(cancelled).map_err(&failed)?;
            note(&mut running, compiled).map_err(&failed)?;
        }
        let _timer = reading.timer();
        compiled.read(&running, &pool).map_err(|error| error.to_string())
    };
    let joins = compiled.fragment.joins.clone();
    let (owned, top) = (Arc::clone(plan), top.cloned());
    // Where some table was full it gets more room, if that takes no time.
    let larger = move |compiled: &Compiled| {
        let sizes = compiled.better_sizes()?;
        let larger = match compiled.fragment.once {
            true => {
                let larger = Compiled::of(&owned, top.as_ref(), &sizes).map(Arc::new);
                larger.and_then(|larger| room.fitted(larger))
            }
            false => room.form(|form| forms.form(&owned, top.as_ref(), form)),
        };
        let larger = larger
            .ok()
            .filter(|(larger, _)| larger.fragment.tables != compiled.fragment.tables)?;
        let is_loaded = waits || matches!(larger.0.known(device), Ok(Some(_)));
        is_loaded.then_some(larger)
    };
    let repeated = move |cancelled: &AtomicBool| {
        let (mut compiled, mut streamed) = (compiled, streamed);
        let mut found = Err(GpuError::TableFull.to_string());
        for _ in 0..ATTEMPTS {
            if !compiled.was_too_small() {
                found = run(&compiled, &streamed, cancelled);
            }
            if found.is_ok() || !compiled.was_too_small() {
                break;
            }
            match larger(&compiled) {
                Some(next) => (compiled, streamed) = next,
                None => break,
            }
        }
        found
    };
    let found = on_a_thread(move |cancelled| Ok(repeated(cancelled))).await?;
    if found.is_ok() {
        note_joins(plan, &joins);
    }
    Ok(found.map(|rows| (rows, above, again)).map_err(Some))
}

/// The uppermost node of a fragment gives the rows that the host reads.
fn note_uppermost(plan: &Arc<dyn ExecutionPlan>, above: usize, rows: usize, report: &Report) {
    let mut nodes = report.nodes.lock();
    if let (false, Some(node)) = (nodes.is_empty(), chain(plan).get(above)) {
        nodes.push(NodeRan {
            node: address(node),
            rows: rows as u64,
            pipeline: None,
            scanned: None,
            ran: true,
            given: false,
        });
    }
}

/// Tells the joins of a plan how they were done on the device.
fn note_joins(plan: &Arc<dyn ExecutionPlan>, joins: &[(usize, Choice)]) {
    if let Some(join) = plan.downcast_ref::<JoinExec>() {
        let spec = std::ptr::from_ref(join.spec()).addr();
        if let Some((_, choice)) = joins.iter().find(|(own, _)| *own == spec) {
            join.note_fused(choice.clone());
        }
    }
    plan.children().into_iter().for_each(|child| note_joins(child, joins));
}

/// The device has read all rows of the plan's tables.
fn count_scans(plan: &Arc<dyn ExecutionPlan>) {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let table = scan.table();
        let usage = &table.definition().usage;
        usage.scan();
        usage.scanned(table.rows() as usize);
    }
    plan.children().into_iter().for_each(count_scans);
}
