//! How many rows come out of each node of a fragment, for EXPLAIN ANALYZE: nodes are fused, so that code counts which is
//! written into their pipelines for that run alone.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use tenon_gpu::GpuError;

use super::flow::Flow;
use super::fragment::{Fragment, Input};
use super::run::Running;

/// Nodes beyond so many are not counted.
const COUNTERS_MAX: usize = 1 << 7;

/// What a node did on the device.
#[derive(Clone, Debug)]
pub struct NodeRan {
    /// The node's address.
    pub node: usize,
    pub rows: u64,
    /// The pipeline that its rows go through.
    pub pipeline: Option<String>,
    /// Of a scan: rows of the table, and bytes of the columns that are read.
    pub scanned: Option<(u64, u64)>,
    /// Whether it ran; else what it gives was there.
    pub ran: bool,
    /// Whether its rows are the CPU's.
    pub given: bool,
}

/// The counters of a fragment.
pub struct Counters {
    pub array: usize,
    pub len: usize,
    pub nodes: Vec<CountedNode>,
}

/// A node's address, its counter, and the step that counts.
pub struct CountedNode {
    pub node: usize,
    pub counter: usize,
    pub pipeline: String,
}

impl Counters {
    pub fn new(fragment: &mut Fragment) -> Self {
        Self {
            array: fragment.array(COUNTERS_MAX as u64, 8, Some(0)),
            len: 0,
            nodes: vec![],
        }
    }
}

/// The address by which a node is known.
pub fn address(node: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(node).cast::<()>().addr()
}

/// The rows at hand are those that a node gives.
pub fn count(fragment: &mut Fragment, flow: &mut Flow, node: &Arc<dyn ExecutionPlan>) {
    let Some(counters) = &mut fragment.counters else { return };
    let counter = match flow.counter {
        // No row has been left out since, and none added.
        Some((counter, at)) if at == flow.translator.lines.len() => counter,
        _ if counters.len == COUNTERS_MAX => return,
        _ => {
            let counter = counters.len;
            counters.len += 1;
            let array = flow.array(Input::Array(counters.array), "u64");
            flow.begin += &format!("    u64 counted_{counter} = 0;\n");
            flow.end += &format!("    add_up({array} + {counter}, counted_{counter});\n");
            flow.line(&format!("counted_{counter}++;"));
            flow.counter = Some((counter, flow.translator.lines.len()));
            counter
        }
    };
    flow.counted.push((address(node), counter));
}

/// What a fragment's nodes did in a run that has ended, if they are counted. `bytes`: of the columns of each scan.
pub fn ran(fragment: &Fragment, bytes: &[Vec<u64>], running: &Running) -> Result<Vec<NodeRan>, GpuError> {
    let Some(counters) = &fragment.counters else {
        return Ok(vec![]);
    };
    let rows = running.words::<u64>(counters.array, counters.len)?;
    let ran = counters.nodes.iter().filter_map(|own| {
        let step = fragment.steps.iter().find(|step| step.name() == own.pipeline)?;
        let scan = fragment.scans.iter().position(|scan| scan.node == own.node);
        let rows = rows.get(own.counter).copied().unwrap_or(0);
        Some(NodeRan {
            node: own.node,
            rows,
            pipeline: Some(own.pipeline.clone()),
            scanned: scan.map(|scan| {
                let read = bytes[scan].iter().sum::<u64>() as f64 * fragment.reads(scan);
                (fragment.scans[scan].table.rows(), read as u64)
            }),
            given: scan.is_some_and(|scan| fragment.scans[scan].given),
            // Whose only use is an order that is kept does not run.
            ran: rows > 0 || step.pipeline().is_none_or(|own| own.words_of_order.is_none()),
        })
    });
    Ok(ran.collect())
}
