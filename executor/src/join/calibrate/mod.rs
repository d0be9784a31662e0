//! Measures this machine for the choice of operators: each rate of [`CostParameters`] by running the operators themselves on
//! small inputs, two seconds at most, and keeps the result on disk for the next start on the same machine.

mod cpu;
mod file;
mod gpu;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::cost::CostParameters;
use crate::device;

/// How the machine's rates come about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calibration {
    /// From the file of an earlier start, else measured.
    #[default]
    Auto,
    /// The defaults.
    Off,
    /// Measured again.
    Again,
}

impl Calibration {
    /// The names that the setting takes.
    pub const NAMES: &[&str] = &["auto", "off", "again"];

    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Self::Auto,
            "off" => Self::Off,
            "again" => Self::Again,
            _ => return None,
        })
    }
}

/// The longest that measuring takes, but for the last thing begun. What is not reached keeps its default.
const TIME_MAX: Duration = Duration::from_secs(2);

/// The directory of the file: that of compiled kernels.
pub fn directory() -> PathBuf {
    tenon_gpu::compile::default_directory()
}

/// Sees to the rates in the background; until they are there, choices go by the defaults.
pub fn start(wanted: Calibration) {
    if wanted == Calibration::Off {
        return;
    }
    let thread = std::thread::Builder::new().name("tenon-calibrate".into());
    if let Err(error) = thread.spawn(move || run(wanted)) {
        tracing::warn!("the machine is not measured: {error}");
    }
}

/// The rates of this machine, and where they come from; from now on choices go by them.
pub fn run(wanted: Calibration) -> (CostParameters, String) {
    let (machine, source) = rates(wanted);
    tracing::info!("join costs: {source}");
    machine.set_current();
    (machine, source)
}

fn rates(wanted: Calibration) -> (CostParameters, String) {
    if wanted == Calibration::Off {
        return (CostParameters::default(), "defaults".into());
    }
    let device = device::shared().ok();
    let (key, directory) = (file::key(device), directory());
    let path = file::path(&directory, &key);
    if wanted == Calibration::Auto
        && let Some(machine) = file::read(&path, &key)
    {
        return (machine, format!("read from {}", path.display()));
    }
    let start = Instant::now();
    let machine = measure(start + TIME_MAX, device);
    let source = format!("measured in {:.1} s", start.elapsed().as_secs_f64());
    match file::write(&path, &key, &machine) {
        Ok(()) => (machine, format!("{source}, kept in {}", path.display())),
        Err(error) => {
            tracing::warn!("the machine's rates cannot be kept in {}: {error}", path.display());
            (machine, source)
        }
    }
}

fn measure(until: Instant, device: Option<&tenon_gpu::Device>) -> CostParameters {
    let mut machine = CostParameters::default();
    if let Some(device) = device
        && let Err(error) = gpu::measure(device, &mut machine.gpu)
    {
        tracing::warn!("the GPU is not measured: {error}");
    }
    if let Err(error) = cpu::measure(&mut machine.cpu, until) {
        tracing::warn!("the CPU is not measured to the end: {error}");
    }
    machine
}

/// Sees to the rates and says them, a line each.
pub fn report(wanted: Calibration) -> String {
    let (machine, source) = run(wanted);
    lines(&machine, &source)
}

fn lines(machine: &CostParameters, source: &str) -> String {
    let mut text = format!("join costs  {source}\n");
    let Ok(serde_json::Value::Object(parts)) = serde_json::to_value(machine) else {
        return text;
    };
    for (part, rates) in parts {
        let rates = rates.as_object().into_iter().flatten();
        for (name, value) in rates {
            text += &format!("  {part} {:<26} {}\n", name, show(value));
        }
    }
    text
}

/// A number in exponents of ten; several side by side.
fn show(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(parts) => {
            let parts = parts.iter().map(|(name, value)| format!("{name} {}", show(value)));
            parts.collect::<Vec<_>>().join(", ")
        }
        value => value
            .as_f64()
            .map_or_else(|| value.to_string(), |number| format!("{number:.2e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_machine_has_rates_above_zero() {
        let start = Instant::now();
        let machine = measure(start + Duration::from_millis(300), None);
        let text = lines(&machine, "measured");
        assert!(text.contains("cpu table") && text.contains("gpu launch_s"), "{text}");
        assert!(file::is_sound(&serde_json::to_value(machine).unwrap()), "{text}");
    }

    #[test]
    fn names_are_taken() {
        let all: Vec<_> = Calibration::NAMES.iter().map(|name| Calibration::named(name)).collect();
        assert!(all.iter().all(Option::is_some));
        assert_eq!(Calibration::named("never"), None);
    }
}
