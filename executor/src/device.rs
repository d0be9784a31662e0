//! The process's one device: opened when somebody first asks for it, as `TENON_DEVICE` says, and kept.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::{DeviceChoice, JoinOptions};
use tenon_gpu::{Device, DeviceConfig, DeviceKind, GpuError};

/// How the device is to be opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceWish {
    /// None: what `TENON_DEVICE` says.
    pub kind: Option<DeviceKind>,
    /// Device memory that all queries together may take; none: nearly all that is free then.
    pub budget_bytes: Option<u64>,
    /// Pinned host memory for copies and for what joins spill; none: no bound.
    pub pinned_budget_bytes: Option<u64>,
}

/// The device as it is now.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceState {
    /// With the reason.
    Absent(String),
    /// The simulator is right but slow: taken only when asked for.
    Present {
        simulated: bool,
        free_bytes: u64,
        /// Work of other joins that it has before it.
        queued_s: f64,
    },
    /// It was there, and has failed for good.
    Lost(String),
    /// A table that is read is kept off it.
    Withheld,
}

impl DeviceState {
    pub fn queued_s(&self) -> f64 {
        match self {
            Self::Present { queued_s, .. } => *queued_s,
            Self::Absent(_) | Self::Lost(_) | Self::Withheld => 0.0,
        }
    }

    pub fn free_bytes(&self) -> u64 {
        match self {
            Self::Present { free_bytes, .. } => *free_bytes,
            Self::Absent(_) | Self::Lost(_) | Self::Withheld => 0,
        }
    }
}

/// Work of joins that are on the device now, as far as the model foresaw it.
static QUEUED_US: AtomicU64 = AtomicU64::new(0);

static WISH: OnceLock<DeviceWish> = OnceLock::new();
/// Why the device is of no more use.
static LOST: OnceLock<String> = OnceLock::new();
static DEVICE: OnceLock<Result<Device, String>> = OnceLock::new();

/// Says how; the first to say so counts, if it is before the device is opened.
pub fn configure(wish: DeviceWish) {
    // A second server in one process shares the first one's device.
    let _ = WISH.set(wish);
}

/// The device, or why there is none.
pub fn shared() -> Result<&'static Device, &'static str> {
    let opened = DEVICE.get_or_init(|| {
        let wish = WISH.get().copied().unwrap_or_default();
        let config = DeviceConfig {
            budget_bytes: wish.budget_bytes,
            pinned_budget_bytes: wish.pinned_budget_bytes,
            ..DeviceConfig::default()
        };
        let kind = wish.kind.map_or_else(DeviceKind::from_env, Ok);
        match kind.and_then(|kind| Device::open(kind, config)) {
            Ok(device) => {
                tracing::info!("joins may run on {}", device.info().name);
                Ok(device)
            }
            Err(GpuError::NoDevice(reason)) => Err(reason),
            Err(error) => Err(error.to_string()),
        }
    });
    opened.as_ref().map_err(String::as_str)
}

/// Takes note of an error: after some of them nothing is asked of the device any more.
pub fn failed(error: &GpuError) {
    if error.is_lost() && LOST.set(error.to_string()).is_ok() {
        tracing::error!("the GPU is lost, joins run on the CPU from now on: {error}");
    }
}

/// What a join's choice must know of it. Nothing is opened for a session that wants the CPU.
pub fn state(options: &JoinOptions) -> DeviceState {
    if options.device == DeviceChoice::Cpu {
        return DeviceState::Absent("tenon.device = 'cpu'".into());
    }
    match (shared(), LOST.get()) {
        (Err(reason), _) => DeviceState::Absent(reason.into()),
        (Ok(_), Some(reason)) => DeviceState::Lost(reason.clone()),
        (Ok(device), None) => {
            let limit = options.gpu_memory_limit_bytes.map_or(u64::MAX, |bytes| bytes as u64);
            DeviceState::Present {
                simulated: device.info().kind == DeviceKind::Sim,
                free_bytes: device.pool().available().min(limit),
                queued_s: QUEUED_US.load(Ordering::Relaxed) as f64 / 1e6,
            }
        }
    }
}

/// A join's time on the device, which others must wait for as long as this lives.
pub struct Queued(u64);

impl Queued {
    pub fn enter(seconds: Option<f64>) -> Self {
        let us = (seconds.unwrap_or(0.0) * 1e6) as u64;
        QUEUED_US.fetch_add(us, Ordering::Relaxed);
        Self(us)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        QUEUED_US.fetch_sub(self.0, Ordering::Relaxed);
    }
}
