//! Search of many probes in a sorted array: binary and k-ary (the probes of He 2008, sections 4.1 and 5.4).
//!
//! A large batch is searched binary, four probes a thread in step, the upper half of the levels in a sample of the
//! array in shared memory. A small batch waits on memory, and is searched k-ary: a step reads `k - 1` separators
//! at once, so that there are fewer steps. Probes in sorted order take about the same path as their neighbours and
//! need a fraction of the memory traffic.

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::number::Number;
use crate::primitives::fill::Index;
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// Outputs that the program does not write are null.
    struct SearchParams {
        sorted: DevicePtr<u8>,
        sorted_items: u64,
        probes: DevicePtr<u8>,
        items: u64,
        lower: DevicePtrMut<u8>,
        upper: DevicePtrMut<u8>,
    }
}

static SOURCE: Source = source!("search.cu", SearchParams);

/// How a batch is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Two groups a step.
    Binary,
    /// Two groups a step, after a first step in shared memory.
    Table,
    /// Eight groups a step.
    EightWay,
}

impl Strategy {
    /// What suits a batch of `probes` into `sorted` items, on a device that holds `resident` threads.
    fn choose(probes: u64, sorted: u64, resident: u64) -> Strategy {
        if probes < resident {
            Strategy::EightWay
        } else if probes >= 4 * resident && sorted >= 4 * tuning::SEARCH_GROUPS as u64 {
            Strategy::Table
        } else {
            Strategy::Binary
        }
    }
}

fn program(key: &str, index: &str, lower: bool, upper: bool, strategy: Strategy) -> Program {
    Program::new(&SOURCE)
        .define("KEY", key)
        .define("INDEX", index)
        .define("LOWER", lower as u32)
        .define("UPPER", upper as u32)
        .define("ARITY", if strategy == Strategy::EightWay { 8 } else { 2 })
        .define("TABLE", (strategy == Strategy::Table) as u32)
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    let keys = ["i32", "u32", "i64", "u64", "i128", "u128", "f32", "f64"];
    let tables = keys.map(|key| program(key, "u32", true, true, Strategy::Table));
    let kary = [("i64", "u32"), ("f64", "u64")].map(|(k, i)| program(k, i, true, false, Strategy::EightWay));
    let binary = [("i64", "u32"), ("f64", "u64")].map(|(k, i)| program(k, i, false, true, Strategy::Binary));
    tables.into_iter().chain(kary).chain(binary).collect()
}

/// Sets `output[i]` to the first place in `sorted` whose key is not below `probes[i]`; floats order NaN last.
///
/// `sorted` ascends. One launch; allocates nothing.
pub fn lower_bound<T: Number, I: Index>(
    stream: &Stream,
    sorted: DeviceView<'_, T>,
    probes: DeviceView<'_, T>,
    output: DeviceViewMut<'_, I>,
) -> Result<()> {
    search(stream, sorted, probes, Some(output), None, None)
}

/// Sets `output[i]` to the first place in `sorted` whose key is above `probes[i]`. Otherwise as [`lower_bound`].
pub fn upper_bound<T: Number, I: Index>(
    stream: &Stream,
    sorted: DeviceView<'_, T>,
    probes: DeviceView<'_, T>,
    output: DeviceViewMut<'_, I>,
) -> Result<()> {
    search(stream, sorted, probes, None, Some(output), None)
}

/// Both bounds: `sorted[lower[i]..upper[i]]` are the keys equal to `probes[i]`. Otherwise as [`lower_bound`].
pub fn equal_range<T: Number, I: Index>(
    stream: &Stream,
    sorted: DeviceView<'_, T>,
    probes: DeviceView<'_, T>,
    lower: DeviceViewMut<'_, I>,
    upper: DeviceViewMut<'_, I>,
) -> Result<()> {
    search(stream, sorted, probes, Some(lower), Some(upper), None)
}

/// Any of the bounds by a chosen strategy; `None` lets the sizes choose. For tuning and tests.
pub fn search<T: Number, I: Index>(
    stream: &Stream,
    sorted: DeviceView<'_, T>,
    probes: DeviceView<'_, T>,
    lower: Option<DeviceViewMut<'_, I>>,
    upper: Option<DeviceViewMut<'_, I>>,
    strategy: Option<Strategy>,
) -> Result<()> {
    for output in [&lower, &upper].into_iter().flatten() {
        if output.len() != probes.len() {
            return Err(GpuError::Invalid(format!(
                "search of {} probes into {}",
                probes.len(),
                output.len()
            )));
        }
    }
    if size_of::<I>() == 4 && sorted.len() > u32::MAX as u64 {
        return Err(GpuError::Invalid(format!("32-bit places in {} items", sorted.len())));
    }
    let device = stream.device();
    let threads = tuning::SEARCH_THREADS;
    let resident = device.info().multiprocessors as u64 * 2048;
    let strategy = strategy.unwrap_or_else(|| Strategy::choose(probes.len(), sorted.len(), resident));
    let program = program(T::C_NAME, I::C_NAME, lower.is_some(), upper.is_some(), strategy);
    let kernel = device.load(&program)?.kernel::<SearchParams>("search_sorted")?;
    let mut config = LaunchConfig::cover(probes.len(), threads as u64 * tuning::SEARCH_PROBES as u64, threads)?;
    if strategy == Strategy::Table {
        // Blocks stay, so that each reads its table once.
        let fill = kernel.resident_blocks(threads, 0)?.max(1) * device.info().multiprocessors;
        config = LaunchConfig::new(config.grid.0.min(fill), threads);
    }
    let address = |view: Option<DeviceViewMut<'_, I>>| view.map_or(0, |mut v| v.ptr_mut().0);
    let params = SearchParams {
        sorted: DevicePtr::new(sorted.ptr().0),
        sorted_items: sorted.len(),
        probes: DevicePtr::new(probes.ptr().0),
        items: probes.len(),
        lower: DevicePtrMut::new(address(lower)),
        upper: DevicePtrMut::new(address(upper)),
    };
    // SAFETY: outputs have as many elements as there are probes, and reads are checked against the sorted array's.
    unsafe { kernel.launch(stream, &config, &params) }
}
