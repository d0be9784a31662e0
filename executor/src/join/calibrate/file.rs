//! The file that keeps a machine's rates: JSON, named by what the rates depend on and holding it too. A file that is
//! torn, damaged or another machine's is measured anew.

use std::fs;
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenon_gpu::Device;

use crate::join::cost::CostParameters;

#[derive(Serialize, Deserialize)]
struct Kept {
    key: String,
    machine: CostParameters,
}

/// What the rates depend on: processor, cores, GPU, its driver, and this program.
pub fn key(device: Option<&Device>) -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or(std::env::consts::ARCH, |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let gpu = device.map_or_else(String::new, |device| {
        let info = device.info();
        format!("{} driver {}", info.name, info.driver_version)
    });
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let version = env!("CARGO_PKG_VERSION");
    format!("{model}, {cores} cores, GPU {gpu:?}, {version} {build}")
}

pub fn path(directory: &Path, key: &str) -> PathBuf {
    let hash = foldhash::fast::FixedState::with_seed(0x7e_40_11).hash_one(key);
    directory.join(format!("machine-{hash:016x}.json"))
}

/// None where there is no file, or none that holds.
pub fn read(path: &Path, key: &str) -> Option<CostParameters> {
    let value: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let sound = value.get("machine").is_some_and(is_sound);
    let kept: Kept = serde_json::from_value(value).ok()?;
    (sound && kept.key == key).then_some(kept.machine)
}

/// Whether every rate is above zero.
pub fn is_sound(value: &Value) -> bool {
    match value {
        Value::Object(parts) => parts.values().all(is_sound),
        value => value.as_f64().is_some_and(|rate| rate > 0.0),
    }
}

/// Published by renaming: a reader never sees half of it.
pub fn write(path: &Path, key: &str, machine: &CostParameters) -> io::Result<()> {
    let kept = Kept {
        key: key.into(),
        machine: *machine,
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let unfinished = path.with_extension(format!("{}.unfinished", std::process::id()));
    fs::write(&unfinished, serde_json::to_string_pretty(&kept)?)?;
    fs::rename(unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_or_another_machines_counts_for_nothing() {
        let directory = std::env::temp_dir().join(format!("tenon-machine-{}", std::process::id()));
        let path = path(&directory, "this one");
        assert_eq!(read(&path, "this one"), None);
        let mut machine = CostParameters::default();
        machine.cpu.scanned_rows_per_s = 123.0;
        write(&path, "this one", &machine).unwrap();
        assert_eq!(read(&path, "this one"), Some(machine));
        assert_eq!(read(&path, "another one"), None);
        machine.cpu.merged_rows_per_s = 0.0;
        write(&path, "this one", &machine).unwrap();
        assert_eq!(read(&path, "this one"), None);
        let text = fs::read_to_string(&path).unwrap();
        for damaged in ["", "{}", &text[..text.len() / 2]] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path, "this one"), None);
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
