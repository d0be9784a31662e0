//! Which operator computes a join, and where: one pure function from inputs to an operator, a device, a build side and
//! the reason in words.
//!
//! | predicate | operators, the usual one first |
//! | --- | --- |
//! | equality | HJ, on the CPU pipelined past a table of the build side where the kind of key allows it; SMJ; INLJ |
//! | equality, on the GPU, whose free memory the state exceeds | Triton |
//! | range or band | SMJ: sort the bounded side, search it for each row of the other; NINLJ |
//! | anything else | NINLJ, pipelined past a build side of a few rows |
//! | equality or range of an indexed column | INLJ by that index, on the CPU |
//!
//! Another operator or the GPU is taken where the model (`cost`) says that it is faster. Without sizes the usual operator
//! runs on the CPU. The function is asked when a plan is made, with estimates, and when the inputs' true sizes are known.

#[cfg(test)]
mod tests;

use std::fmt;

use datafusion::common::JoinSide;

use super::cost::{CostInputs, Predicate, gpu_bytes};
use super::path::{JoinPath, Operator};
use crate::device::DeviceState;
use crate::options::{DeviceChoice, JoinOperator, JoinOptions};

/// How a join runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub path: JoinPath,
    /// What it costs by the model, where sizes are known, without waiting for others.
    pub seconds: Option<f64>,
    pub reason: String,
}

impl Choice {
    /// What finds the pairs on the CPU when the GPU does not. Where nobody asked for an operator, equal keys are hashed
    /// there: only those are searched or spilled on the GPU.
    pub fn operator_on_cpu(&self, free: bool) -> Operator {
        match self.path.operator {
            Operator::Inlj | Operator::Triton if free && self.path.on_gpu => Operator::Hj,
            operator => operator,
        }
    }

    /// The whole join goes to the CPU, for this reason.
    pub fn leave_gpu(&mut self, why: &str) {
        self.path.on_gpu = false;
        self.reason += &format!("; fell back to cpu: {why}");
    }

    /// The device finds the pairs, and the host tests the condition beyond the keys.
    pub fn leave_condition_to_host(&mut self, why: &str) {
        let note = format!("; condition on the host: {why}");
        if !self.reason.contains(&note) {
            self.reason += &note;
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} on {}: {}", self.path.operator, self.path.device(), self.reason)
    }
}

/// Build rows up to which a join without keys streams its probe side past all of them.
const PIPELINED_ROWS_MAX: usize = 64;
/// Device memory below which the Triton join is not thought of: its chunks would be too small to copy well.
const TRITON_BYTES_MIN: u64 = 32 << 10;
/// Another operator than the usual one, or the GPU, must cost this much less: the model is not that exact.
const WORTHWHILE: f64 = 0.9;
/// On the CPU still less, where the usual operator keeps the least, and less by this much.
const WORTHWHILE_ON_CPU: f64 = 0.75;
const WORTHWHILE_S: f64 = 0.5e-3;
/// For a hash join with both sides in memory instead of one: what it keeps costs more than the model says (`bench regret`).
const WORTH_COLLECTING: f64 = 0.5;

/// Chooses; the error says why what the options ask for is impossible.
pub fn choose(inputs: &CostInputs, options: &JoinOptions) -> Result<Choice, String> {
    if let (DeviceChoice::Gpu, DeviceState::Absent(why)) = (options.device, &inputs.device) {
        return Err(format!("tenon.device = 'gpu': no GPU: {why}"));
    }
    let operators = operators(inputs, options.operator)?;
    let forced = options.operator != JoinOperator::Auto;
    let on_cpu = best(inputs, cpu_paths(inputs, options, &operators));
    let on_gpu = |free_bytes| best(inputs, gpu_paths(inputs, options, &operators, free_bytes));
    let (found, device) = match (options.device, &inputs.device) {
        (DeviceChoice::Cpu, _) => (on_cpu, ", tenon.device".into()),
        (_, DeviceState::Withheld) => (on_cpu, ", a table is kept off the GPU".into()),
        (DeviceChoice::Gpu, DeviceState::Present { free_bytes, .. }) => {
            let exceeds = exceeding(inputs, *free_bytes).filter(|_| spills(inputs, options, *free_bytes));
            let why = exceeds.map_or(String::new(), |sizes| format!(", state {sizes}"));
            (on_gpu(*free_bytes), format!(", tenon.device{why}"))
        }
        (DeviceChoice::Gpu, DeviceState::Lost(why)) => (on_cpu, format!("; fell back to cpu: {why}")),
        (_, DeviceState::Lost(why)) => (on_cpu, format!(", {why}")),
        (_, DeviceState::Absent(_) | DeviceState::Present { simulated: true, .. }) => (on_cpu, String::new()),
        (DeviceChoice::Auto, DeviceState::Present { free_bytes, .. }) => {
            cheaper_device(inputs, on_cpu, on_gpu(*free_bytes), *free_bytes)
        }
    };
    let Found { path, usual, seconds } = found.ok_or("no operator computes this join")?;
    let reason = match forced {
        true => "tenon.join_operator".into(),
        false => reason(inputs, path, seconds, usual),
    };
    Ok(Choice {
        path,
        seconds: seconds.map(|all| {
            if path.on_gpu {
                all - inputs.device.queued_s()
            } else {
                all
            }
        }),
        reason: reason + &device,
    })
}

/// The operators for the predicate, the usual one first; or the only one asked for.
fn operators(inputs: &CostInputs, wanted: JoinOperator) -> Result<Vec<Operator>, String> {
    let equality = inputs.predicate == Predicate::Equality;
    let ranged = matches!(inputs.predicate, Predicate::Range { .. });
    let needs = |what: &str| {
        let name = wanted.name();
        Err(format!("tenon.join_operator = '{name}' needs {what} condition"))
    };
    Ok(match wanted {
        JoinOperator::Auto if equality => vec![Operator::Hj, Operator::Smj, Operator::Inlj],
        JoinOperator::Auto if ranged => vec![Operator::Smj, Operator::Ninlj],
        JoinOperator::Auto => vec![Operator::Ninlj],
        JoinOperator::Hj if equality => vec![Operator::Hj],
        JoinOperator::Hj => return needs("an equality"),
        JoinOperator::Streamed if inputs.streams && (equality || few(inputs)) => vec![match equality {
            true => Operator::Hj,
            false => Operator::Ninlj,
        }],
        JoinOperator::Streamed => return needs("an equality of keys that stream, or a few build rows for any"),
        JoinOperator::Smj if equality || ranged => vec![Operator::Smj],
        JoinOperator::Smj => return needs("an equality or a range"),
        JoinOperator::Inlj if equality || ranged => vec![Operator::Inlj],
        JoinOperator::Inlj => return needs("an equality or a range"),
        JoinOperator::Ninlj => vec![Operator::Ninlj],
        JoinOperator::Triton if equality => vec![Operator::Triton],
        JoinOperator::Triton => return needs("an equality"),
    })
}

/// Whether the CPU would sort keys that it could as well hash: on 16 cores that was never the fastest path by more than noise
/// (`bench regret`).
fn sorts_in_vain(inputs: &CostInputs, options: &JoinOptions, operator: Operator) -> bool {
    let sorted = inputs.build.ascending && inputs.probe.ascending;
    let open = options.operator == JoinOperator::Auto && inputs.predicate == Predicate::Equality;
    open && (operator == Operator::Inlj || operator == Operator::Smj && !sorted)
}

/// Whether the build side is small enough for every probe row to meet all of it as it flows past.
fn few(inputs: &CostInputs) -> bool {
    inputs.build.rows.is_some_and(|rows| rows <= PIPELINED_ROWS_MAX)
}

/// The paths on the CPU, the usual one first.
fn cpu_paths(inputs: &CostInputs, options: &JoinOptions, operators: &[Operator]) -> Vec<JoinPath> {
    let mut paths = vec![];
    let path = |operator, pipelined, build| JoinPath {
        operator,
        on_gpu: false,
        pipelined,
        indexed: false,
        build,
    };
    let equality = inputs.predicate == Predicate::Equality;
    if matches!(options.operator, JoinOperator::Auto | JoinOperator::Streamed) && inputs.streams && !inputs.at_hand {
        if equality {
            paths.push(path(Operator::Hj, true, JoinSide::Left));
        } else if few(inputs) {
            paths.push(path(Operator::Ninlj, true, JoinSide::Left));
        }
    }
    if options.operator != JoinOperator::Streamed {
        for &operator in operators
            .iter()
            .filter(|&&operator| !sorts_in_vain(inputs, options, operator))
        {
            paths.extend(
                builds(inputs, operator)
                    .into_iter()
                    .map(|build| path(operator, false, build)),
            );
        }
    }
    if let Some(index) = inputs.index {
        if options.operator == JoinOperator::Inlj {
            paths.clear();
        }
        paths.push(JoinPath {
            indexed: true,
            ..path(Operator::Inlj, false, opposite(index.outer))
        });
    }
    paths
}

/// The paths on the GPU: Triton alone where a hash join's state would not fit.
fn gpu_paths(inputs: &CostInputs, options: &JoinOptions, operators: &[Operator], free_bytes: u64) -> Vec<JoinPath> {
    let spills = spills(inputs, options, free_bytes);
    let operators = if spills { &[Operator::Triton] } else { operators };
    let paths = operators.iter().flat_map(|&operator| {
        builds(inputs, operator).into_iter().map(move |build| JoinPath {
            operator,
            on_gpu: true,
            pipelined: false,
            indexed: false,
            build,
        })
    });
    paths.collect()
}

/// Whether the join is one for Triton: of equal keys, with a state that exceeds the device, which has room for chunks.
fn spills(inputs: &CostInputs, options: &JoinOptions, free_bytes: u64) -> bool {
    let open = options.operator == JoinOperator::Auto && inputs.predicate == Predicate::Equality;
    open && free_bytes >= TRITON_BYTES_MIN && exceeding(inputs, free_bytes).is_some()
}

/// Both sizes, where the state exceeds the device.
fn exceeding(inputs: &CostInputs, free_bytes: u64) -> Option<String> {
    let bytes = gpu_bytes(inputs).filter(|&bytes| bytes > free_bytes)?;
    Some(format!("{} exceeds {}", size(bytes), size(free_bytes)))
}

/// The sides that an operator may sort or build its table of, the usual one first.
fn builds(inputs: &CostInputs, operator: Operator) -> Vec<JoinSide> {
    let smaller = match (inputs.build.rows, inputs.probe.rows) {
        (Some(build), Some(probe)) if probe < build => JoinSide::Right,
        _ => JoinSide::Left,
    };
    match (inputs.predicate, operator) {
        (Predicate::Range { sorted, .. }, _) => vec![sorted],
        (Predicate::Equality, Operator::Hj | Operator::Triton | Operator::Inlj) => {
            vec![smaller, opposite(smaller)]
        }
        _ => vec![smaller],
    }
}

fn opposite(side: JoinSide) -> JoinSide {
    if side == JoinSide::Left {
        JoinSide::Right
    } else {
        JoinSide::Left
    }
}

struct Found {
    path: JoinPath,
    usual: JoinPath,
    seconds: Option<f64>,
}

/// The cheapest path; the first one, unless another is clearly cheaper.
fn best(inputs: &CostInputs, paths: Vec<JoinPath>) -> Option<Found> {
    let usual = *paths.first()?;
    let cost = |path: JoinPath| inputs.parameters.seconds(inputs, path);
    let found = |path, seconds| Some(Found { path, usual, seconds });
    let Some(of_usual) = cost(usual) else {
        return found(usual, None);
    };
    let costs = paths.iter().filter_map(|&path| Some((path, cost(path)?)));
    match costs.min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((path, seconds)) if is_worthwhile(path, seconds, of_usual) => found(path, Some(seconds)),
        _ => found(usual, Some(of_usual)),
    }
}

/// Whether a path differs enough from the usual one. An index that there is, and the GPU's operators among themselves,
/// need save no more than their share.
fn is_worthwhile(path: JoinPath, seconds: f64, of_usual: f64) -> bool {
    match path.on_gpu || path.indexed {
        true => seconds < of_usual * WORTHWHILE,
        false => {
            let share = match path.operator {
                Operator::Hj => WORTH_COLLECTING,
                _ => WORTHWHILE_ON_CPU,
            };
            seconds < of_usual * share && of_usual - seconds > WORTHWHILE_S
        }
    }
}

/// The GPU's path if it has room and is faster, and why.
fn cheaper_device(
    inputs: &CostInputs,
    on_cpu: Option<Found>,
    on_gpu: Option<Found>,
    free_bytes: u64,
) -> (Option<Found>, String) {
    let seconds = |found: &Option<Found>| found.as_ref().and_then(|found| found.seconds);
    let (Some(cpu), Some(gpu), Some(bytes)) = (seconds(&on_cpu), seconds(&on_gpu), gpu_bytes(inputs)) else {
        return (on_cpu, ", of unknown size".into());
    };
    let [cpu_ms, gpu_ms] = [cpu, gpu].map(|seconds| seconds * 1e3);
    let [needed, free] = [bytes, free_bytes].map(size);
    let fits = if bytes > free_bytes { "exceeds" } else { "fits" };
    let spills = on_gpu
        .as_ref()
        .is_some_and(|found| found.path.operator == Operator::Triton);
    if bytes > free_bytes && !spills {
        (on_cpu, format!(", state {needed} exceeds {free} of the GPU"))
    } else if gpu < cpu * WORTHWHILE {
        let why = format!(", state {needed} {fits} {free}, {gpu_ms:.1} ms against {cpu_ms:.1} ms");
        (on_gpu, why)
    } else {
        let queued_s = inputs.device.queued_s();
        let with = match queued_s > cpu - (gpu - queued_s) && queued_s > 0.0 {
            true if gpu - queued_s < cpu => format!("after {:.1} ms of other work", queued_s * 1e3),
            _ => "with transfers".into(),
        };
        (on_cpu, format!(", {cpu_ms:.1} ms against {gpu_ms:.1} ms {with}"))
    }
}

/// Why this path, apart from its device.
fn reason(inputs: &CostInputs, path: JoinPath, seconds: Option<f64>, usual: JoinPath) -> String {
    let sorted = inputs.build.ascending && inputs.probe.ascending;
    let what = match inputs.predicate {
        _ if path.pipelined && path.operator == Operator::Ninlj => {
            return format!("a build side of {} rows", inputs.build.rows.unwrap_or(0));
        }
        _ if path.indexed => {
            let outer = inputs.index.map_or(JoinSide::Left, |index| index.outer);
            let lookups = inputs.side(outer).rows.unwrap_or(0);
            return format!("an index, {lookups} lookups");
        }
        Predicate::Equality if sorted && path.operator == Operator::Smj => "equality, both sides in order",
        Predicate::Equality if inputs.streams => "equality",
        Predicate::Equality => "equality of keys that need both sides at hand",
        Predicate::Range { both_ends: true, .. } => "a band",
        Predicate::Range { .. } => "a range open on one end",
        Predicate::Other => "neither equality nor range",
    };
    match (seconds, inputs.parameters.seconds(inputs, usual)) {
        (Some(own), Some(others)) if path.operator != usual.operator && !path.on_gpu => {
            format!(
                "{what}, {:.1} ms against {:.1} ms of {}",
                own * 1e3,
                others * 1e3,
                usual.operator
            )
        }
        _ => what.into(),
    }
}

/// Bytes in words.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}
