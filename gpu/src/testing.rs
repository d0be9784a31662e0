//! What tests share: the device under test, seeds that are printed, NVRTC for the compile test.

use std::path::{Path, PathBuf};

use crate::device::{Device, DeviceConfig};
use crate::info::DeviceKind;
pub use crate::seeds::seed;

/// Budget of the devices that tests open.
pub const TEST_BUDGET_BYTES: u64 = 4 << 30;

/// The kind under test: the simulator, or with `TENON_DEVICE=cuda` the GPU.
pub fn device_kind() -> DeviceKind {
    match DeviceKind::from_env().expect("TENON_DEVICE") {
        DeviceKind::Cuda if std::env::var("TENON_DEVICE").is_ok_and(|v| v == "cuda") => DeviceKind::Cuda,
        _ => DeviceKind::Sim,
    }
}

/// The device under test.
pub fn device() -> Device {
    device_with_budget(TEST_BUDGET_BYTES)
}

/// The device under test with this much memory.
pub fn device_with_budget(budget_bytes: u64) -> Device {
    let kind = device_kind();
    let config = DeviceConfig {
        budget_bytes: Some(budget_bytes),
        ..DeviceConfig::default()
    };
    Device::open(kind, config).unwrap_or_else(|error| panic!("opening the device under test ({kind:?}): {error}"))
}

/// Sizes that every primitive is tested at: none, one, odd ones, around a warp, a block, a tile, many tiles.
pub const SIZES: [u64; 14] = [0, 1, 2, 3, 31, 32, 33, 255, 257, 1000, 2048, 2049, 10_007, 65_537];

/// The library that `scripts/install-nvrtc.sh` installs, or what `TENON_NVRTC_PATH` names, if it is there.
pub fn nvrtc_library() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/nvrtc/libnvrtc.so.13");
    if let Ok(installed) = installed.canonicalize() {
        return Some(installed);
    }
    crate::compile::search_paths()
        .into_iter()
        .find(|path| path.is_absolute() && path.exists())
}
