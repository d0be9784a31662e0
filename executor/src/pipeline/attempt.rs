//! Whether a grouping runs on the device as one fragment, and its groups if it did.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use tenon_gpu::Device;

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

/// The groups, where they were found on the device.
pub async fn grouped(
    input: &Arc<dyn ExecutionPlan>,
    spec: &GroupSpec,
    estimate: Option<usize>,
    context: &Arc<TaskContext>,
) -> Result<Option<Gathered>> {
    let options = JoinOptions::of(context.session_config());
    let operators = [JoinOperator::Auto, JoinOperator::Hj];
    if options.device == DeviceChoice::Cpu || !operators.contains(&options.operator) {
        return Ok(None);
    }
    let DeviceState::Present { simulated, free_bytes, .. } = device::state(&options) else {
        return Ok(None);
    };
    let forced = options.device == DeviceChoice::Gpu;
    if simulated && !forced {
        return Ok(None);
    }
    let (fragment, grouping) = match compiled(input, spec, estimate) {
        Ok(compiled) => compiled,
        Err(why) => {
            tracing::debug!("no fragment: {why}");
            return Ok(None);
        }
    };
    let worth = forced || fragment.rows() >= ROWS_MIN;
    let Some(device) = device::shared().ok().filter(|_| worth && fragment.array_bytes() <= free_bytes) else {
        return Ok(None);
    };
    if !forced && !is_compiled(device, &fragment) {
        return Ok(None);
    }
    let types: Vec<_> = spec.schema.fields()[..spec.keys.len()].iter().map(|field| field.data_type().clone()).collect();
    let ran = on_a_thread(move |cancelled| {
        let run = || {
            let running = match Running::start(&fragment, device, cancelled) {
                Ok(running) => running,
                Err(error) => {
                    device::failed(&error);
                    tracing::debug!("a fragment failed: {error}");
                    return None;
                }
            };
            match groups(&fragment, &grouping, &running) {
                Ok(found) => Some(found),
                Err(error) => {
                    tracing::debug!("a fragment failed: {error}");
                    None
                }
            }
        };
        Ok(run())
    });
    Ok(ran.await?.filter(|(keys, _, _)| fits(keys, types.into_iter())))
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
