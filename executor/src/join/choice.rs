//! Which operator computes a join, and where: one pure function from facts to an operator, a device, a build side and
//! the reason in words.
//!
//! | predicate | facts | operator |
//! | --- | --- | --- |
//! | equality | | HJ; on the CPU streamed past a table of the build side where the kind of key allows it |
//! | equality | on the GPU, whose free memory the state exceeds | Triton |
//! | range or band | one side's key bounded by the other's | SMJ: sort that side, search it for each row of the other |
//! | anything else | a build side of a few rows | NINLJ, streamed |
//! | anything else | | NINLJ |
//! | any | the GPU's transfers, launches and work cost less than the CPU's whole job | the same on the GPU |

use std::fmt;

use datafusion::common::JoinSide;

use super::machine::Machine;
use crate::options::{DeviceChoice, JoinOperator, JoinOptions};

/// The operators of He 2008, section 4, and the hash join of Lutz 2022.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Ninlj,
    Inlj,
    Smj,
    Hj,
    /// State may exceed the device; on the CPU it is HJ.
    Triton,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Operator::Ninlj => "NINLJ",
            Operator::Inlj => "INLJ",
            Operator::Smj => "SMJ",
            Operator::Hj => "HJ",
            Operator::Triton => "Triton",
        })
    }
}

/// What a join's condition offers to an operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Predicate {
    Equality,
    /// `sorted` is the side whose key is bounded by the other side's expressions, on one end or on both.
    Range {
        sorted: JoinSide,
        both_ends: bool,
    },
    Other,
}

/// The device as it is now.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceState {
    /// With the reason.
    Absent(String),
    /// The simulator is right but slow: taken only when asked for.
    Present { simulated: bool, free_bytes: u64 },
}

#[derive(Debug, Clone)]
pub struct Facts {
    pub predicate: Predicate,
    /// Whether the probe side can stream past a table of the build side (equal keys with Arrow's equality, or none).
    pub streams: bool,
    /// Rows; none where nobody knows.
    pub build_rows: Option<usize>,
    pub probe_rows: Option<usize>,
    /// Bytes of a key in words.
    pub key_bytes: usize,
    pub device: DeviceState,
    pub machine: Machine,
}

/// How a join runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub operator: Operator,
    pub on_gpu: bool,
    /// The probe side is not collected.
    pub streamed: bool,
    /// The side that the operator sorts or builds its table of.
    pub build: JoinSide,
    pub reason: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let device = if self.on_gpu { "gpu" } else { "cpu" };
        write!(f, "{} on {device}: {}", self.operator, self.reason)
    }
}

/// Build rows up to which a join without keys streams its probe side past all of them.
const STREAMED_ROWS_MAX: usize = 64;

/// Chooses; the error says why what the options ask for is impossible.
pub fn choose(facts: &Facts, options: &JoinOptions) -> Result<Choice, String> {
    let (mut operator, mut reason) = operator(facts, options)?;
    let forced = options.operator != JoinOperator::Auto;
    let on_gpu = match (options.device, &facts.device) {
        (DeviceChoice::Cpu, _) => {
            reason += ", tenon.device";
            false
        }
        (DeviceChoice::Gpu, DeviceState::Absent(why)) => return Err(format!("tenon.device = 'gpu': no GPU: {why}")),
        (DeviceChoice::Gpu, DeviceState::Present { free_bytes, .. }) => {
            reason += ", tenon.device";
            if !forced && let Some(exceeds) = exceeds(facts, operator, *free_bytes) {
                operator = Operator::Triton;
                reason += &exceeds;
            }
            true
        }
        (DeviceChoice::Auto, DeviceState::Absent(_) | DeviceState::Present { simulated: true, .. }) => false,
        (DeviceChoice::Auto, DeviceState::Present { free_bytes, .. }) => {
            let spills = !forced && exceeds(facts, operator, *free_bytes).is_some();
            let candidate = if spills { Operator::Triton } else { operator };
            let (better, why) = gpu_pays(facts, candidate, *free_bytes);
            reason += &why;
            operator = if better { candidate } else { operator };
            better
        }
    };
    let few = facts.build_rows.is_some_and(|rows| rows <= STREAMED_ROWS_MAX);
    let streamed = !forced && !on_gpu && facts.streams && (facts.predicate == Predicate::Equality || few);
    if streamed && facts.predicate != Predicate::Equality {
        return Ok(Choice {
            operator: Operator::Ninlj,
            on_gpu,
            streamed,
            build: JoinSide::Left,
            reason: format!("a build side of {} rows", facts.build_rows.unwrap_or(0)),
        });
    }
    Ok(Choice {
        operator,
        on_gpu,
        streamed,
        build: if streamed { JoinSide::Left } else { build_side(facts) },
        reason,
    })
}

/// The operator, and why this one.
fn operator(facts: &Facts, options: &JoinOptions) -> Result<(Operator, String), String> {
    let equality = facts.predicate == Predicate::Equality;
    let ranged = matches!(facts.predicate, Predicate::Range { .. });
    let operator = match options.operator {
        JoinOperator::Auto => {
            let (operator, reason) = match facts.predicate {
                Predicate::Equality if facts.streams => (Operator::Hj, "equality"),
                Predicate::Equality => (Operator::Hj, "equality of keys that need both sides at hand"),
                Predicate::Range { both_ends: true, .. } => (Operator::Smj, "a band"),
                Predicate::Range { .. } => (Operator::Smj, "a range open on one end"),
                Predicate::Other => (Operator::Ninlj, "neither equality nor range"),
            };
            return Ok((operator, reason.into()));
        }
        JoinOperator::Hj if equality => Operator::Hj,
        JoinOperator::Hj => return Err("tenon.join_operator = 'hj' needs an equality condition".into()),
        JoinOperator::Smj if equality || ranged => Operator::Smj,
        JoinOperator::Smj => return Err("tenon.join_operator = 'smj' needs an equality or a range condition".into()),
        JoinOperator::Inlj if equality || ranged => Operator::Inlj,
        JoinOperator::Inlj => {
            return Err("tenon.join_operator = 'inlj' needs an equality or a range condition".into());
        }
        JoinOperator::Ninlj => Operator::Ninlj,
        JoinOperator::Triton if equality => Operator::Triton,
        JoinOperator::Triton => return Err("tenon.join_operator = 'triton' needs an equality condition".into()),
    };
    Ok((operator, "tenon.join_operator".into()))
}

/// Whether the GPU is faster and has room, and why.
fn gpu_pays(facts: &Facts, operator: Operator, free_bytes: u64) -> (bool, String) {
    let (Some(build), Some(probe)) = (facts.build_rows, facts.probe_rows) else {
        return (false, ", of unknown size".into());
    };
    let bytes = facts.machine.gpu_bytes(build, probe, facts.key_bytes);
    let [needed, free] = [bytes, free_bytes].map(size);
    let fits = if bytes > free_bytes { "exceeds" } else { "fits" };
    if bytes > free_bytes && operator != Operator::Triton {
        return (false, format!(", state {needed} exceeds {free} of the GPU"));
    }
    let cpu = facts.machine.cpu_seconds(operator, build, probe);
    let gpu = match operator {
        Operator::Triton => facts.machine.triton_seconds(build, probe, facts.key_bytes, free_bytes),
        _ => facts.machine.gpu_seconds(operator, build, probe, facts.key_bytes),
    };
    let [cpu_ms, gpu_ms] = [cpu, gpu].map(|seconds| seconds * 1e3);
    if gpu < cpu {
        let reason = format!(", state {needed} {fits} {free}, {gpu_ms:.1} ms against {cpu_ms:.1} ms");
        (true, reason)
    } else {
        (false, format!(", {cpu_ms:.1} ms against {gpu_ms:.1} ms with transfers"))
    }
}

/// Device memory below which the Triton join is not thought of: its chunks would be too small to copy well.
const TRITON_BYTES_MIN: u64 = 64 << 10;

/// Says so where the state of a hash join exceeds the device, and a Triton join has room.
fn exceeds(facts: &Facts, operator: Operator, free_bytes: u64) -> Option<String> {
    let rows = facts.build_rows.zip(facts.probe_rows);
    let (build, probe) = rows.filter(|_| operator == Operator::Hj && free_bytes >= TRITON_BYTES_MIN)?;
    let bytes = facts.machine.gpu_bytes(build, probe, facts.key_bytes);
    let [needed, free] = [bytes, free_bytes].map(size);
    (bytes > free_bytes).then(|| format!(", state {needed} exceeds {free}"))
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

/// The side to sort or to build a table of: the one that a range condition bounds, else the smaller.
fn build_side(facts: &Facts) -> JoinSide {
    match (facts.predicate, facts.build_rows, facts.probe_rows) {
        (Predicate::Range { sorted, .. }, _, _) => sorted,
        (_, Some(build), Some(probe)) if probe < build => JoinSide::Right,
        _ => JoinSide::Left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(predicate: Predicate, build_rows: usize, probe_rows: usize) -> Facts {
        Facts {
            predicate,
            streams: true,
            build_rows: Some(build_rows),
            probe_rows: Some(probe_rows),
            key_bytes: 4,
            device: DeviceState::Absent("none here".into()),
            machine: Machine {
                cores: 16,
                ..Machine::default()
            },
        }
    }

    const BAND: Predicate = Predicate::Range {
        sorted: JoinSide::Right,
        both_ends: true,
    };

    fn auto(facts: &Facts) -> (Operator, bool, JoinSide) {
        let choice = choose(facts, &JoinOptions::default()).unwrap();
        (choice.operator, choice.streamed, choice.build)
    }

    #[test]
    fn the_ladder_of_cases() {
        use JoinSide::{Left, Right};
        assert_eq!(
            auto(&facts(Predicate::Equality, 10, 1_000_000)),
            (Operator::Hj, true, Left)
        );
        assert_eq!(
            auto(&facts(Predicate::Equality, 1_000_000, 10)),
            (Operator::Hj, true, Left)
        );
        let both_at_hand = Facts {
            streams: false,
            ..facts(Predicate::Equality, 1_000_000, 10)
        };
        assert_eq!(auto(&both_at_hand), (Operator::Hj, false, Right));
        assert_eq!(auto(&facts(BAND, 1, 1_000_000)), (Operator::Ninlj, true, Left));
        assert_eq!(auto(&facts(BAND, 1000, 1000)), (Operator::Smj, false, Right));
        assert_eq!(auto(&facts(Predicate::Other, 3, 1000)), (Operator::Ninlj, true, Left));
        assert_eq!(
            auto(&facts(Predicate::Other, 3000, 1000)),
            (Operator::Ninlj, false, Right)
        );
        let unknown = Facts {
            build_rows: None,
            ..facts(Predicate::Other, 0, 0)
        };
        assert_eq!(auto(&unknown), (Operator::Ninlj, false, Left));
    }

    #[test]
    fn the_device_by_costs() {
        let on = |facts: Facts, device: &DeviceState| {
            let device = device.clone();
            let choice = choose(&Facts { device, ..facts }, &JoinOptions::default()).unwrap();
            (choice.on_gpu, choice.reason)
        };
        let chosen = |predicate, rows, device: &DeviceState| {
            let device = device.clone();
            let facts = Facts {
                device,
                ..facts(predicate, rows, rows)
            };
            let choice = choose(&facts, &JoinOptions::default()).unwrap();
            (choice.operator, choice.on_gpu)
        };
        let gpu = DeviceState::Present {
            simulated: false,
            free_bytes: 60 << 30,
        };
        // A few rows are joined before the first launch has begun.
        let (on_gpu, reason) = on(facts(Predicate::Equality, 1000, 1000), &gpu);
        assert!(!on_gpu && reason.contains("with transfers"), "{reason}");
        let (on_gpu, reason) = on(facts(Predicate::Equality, 16 << 20, 16 << 20), &gpu);
        assert!(on_gpu && reason.contains("fits"), "{reason}");
        assert!(on(facts(BAND, 1 << 20, 1 << 20), &gpu).0);
        assert!(on(facts(Predicate::Other, 1 << 20, 1 << 20), &gpu).0);
        let full = DeviceState::Present {
            simulated: false,
            free_bytes: 1 << 20,
        };
        let (on_gpu, reason) = on(facts(BAND, 16 << 20, 16 << 20), &full);
        assert!(!on_gpu && reason.contains("exceeds"), "{reason}");
        assert_eq!(chosen(Predicate::Equality, 16 << 20, &full), (Operator::Triton, true));
        // A state that all but fits spills little.
        let nearly = DeviceState::Present {
            simulated: false,
            free_bytes: Machine::default().gpu_bytes(16 << 20, 16 << 20, 4) - 1,
        };
        assert_eq!(chosen(Predicate::Equality, 16 << 20, &nearly), (Operator::Triton, true));
        assert_eq!(chosen(Predicate::Equality, 1 << 10, &nearly), (Operator::Hj, false));
        let none_left = DeviceState::Present {
            simulated: false,
            free_bytes: 1 << 10,
        };
        assert_eq!(chosen(Predicate::Equality, 16 << 20, &none_left), (Operator::Hj, false));
        let simulated = DeviceState::Present {
            simulated: true,
            free_bytes: 60 << 30,
        };
        assert!(!on(facts(Predicate::Equality, 16 << 20, 16 << 20), &simulated).0);
    }

    #[test]
    fn forced_operators_and_devices_run_or_say_why_not() {
        let forced = |operator, predicate| {
            let options = JoinOptions {
                operator,
                ..JoinOptions::default()
            };
            choose(&facts(predicate, 100, 100), &options).map(|choice| (choice.operator, choice.streamed))
        };
        for predicate in [Predicate::Equality, BAND, Predicate::Other] {
            assert_eq!(forced(JoinOperator::Ninlj, predicate), Ok((Operator::Ninlj, false)));
        }
        assert_eq!(forced(JoinOperator::Hj, Predicate::Equality), Ok((Operator::Hj, false)));
        let triton = forced(JoinOperator::Triton, Predicate::Equality);
        assert_eq!(triton, Ok((Operator::Triton, false)));
        assert!(forced(JoinOperator::Triton, BAND).is_err_and(|why| why.contains("equality")));
        assert_eq!(forced(JoinOperator::Smj, BAND), Ok((Operator::Smj, false)));
        assert_eq!(forced(JoinOperator::Inlj, BAND), Ok((Operator::Inlj, false)));
        assert!(forced(JoinOperator::Hj, BAND).is_err_and(|why| why.contains("equality")));
        for operator in [JoinOperator::Smj, JoinOperator::Inlj] {
            assert!(forced(operator, Predicate::Other).is_err_and(|why| why.contains("range")));
        }
        let gpu = JoinOptions {
            device: DeviceChoice::Gpu,
            ..JoinOptions::default()
        };
        let absent = choose(&facts(BAND, 100, 100), &gpu);
        assert!(absent.is_err_and(|why| why == "tenon.device = 'gpu': no GPU: none here"));
        let device = DeviceState::Present {
            simulated: true,
            free_bytes: 1 << 30,
        };
        let here = Facts {
            device,
            ..facts(Predicate::Equality, 1, 1)
        };
        assert!(choose(&here, &gpu).is_ok_and(|choice| choice.on_gpu && !choice.streamed));
    }
}
