//! Gather of bits: the validity of rows fetched by index.

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::primitives::fill::Index;
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// `bits` may be null: all set.
    struct GatherBitsParams {
        bits: DevicePtr<u32>,
        indexes: DevicePtr<u8>,
        items: u64,
        source_items: u64,
        output: DevicePtrMut<u32>,
    }
}

static SOURCE: Source = source!("gather_bits.cu", GatherBitsParams);

fn program(index: &str) -> Program {
    Program::new(&SOURCE).define("INDEX", index)
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    ["u32", "u64"].map(program).into()
}

/// Sets bit `i` of `output` to bit `indexes[i]` of `bits`, and to 0 where the index is not below `source_items`
/// (`MAX`: no row). Without `bits` every row below `source_items` counts as set. Bits are numbered from the lowest of
/// the first word on, as in Arrow; those of the last word beyond the items become 0.
///
/// `output` has a word for each 32 indexes, `bits` one for each 32 rows at least. Allocates nothing.
pub fn gather_bits<I: Index>(
    stream: &Stream,
    bits: Option<DeviceView<'_, u32>>,
    source_items: u64,
    indexes: DeviceView<'_, I>,
    mut output: DeviceViewMut<'_, u32>,
) -> Result<()> {
    let items = indexes.len();
    if output.len() != items.div_ceil(32) || bits.is_some_and(|bits| bits.len() < source_items.div_ceil(32)) {
        return Err(GpuError::Invalid(format!(
            "gather of {items} bits from {source_items} into {} words",
            output.len()
        )));
    }
    let params = GatherBitsParams {
        bits: bits.map_or(DevicePtr::null(), |bits| bits.ptr()),
        indexes: DevicePtr::new(indexes.ptr().0),
        items,
        source_items,
        output: output.ptr_mut(),
    };
    let kernel = stream
        .device()
        .load(&program(I::C_NAME))?
        .kernel::<GatherBitsParams>("gather_bits")?;
    let tile = tuning::GATHER_THREADS as u64 * tuning::GATHER_ITEMS as u64;
    let config = LaunchConfig::cover(items, tile, tuning::GATHER_THREADS)?;
    // SAFETY: indexes and output have the lengths that the kernel uses, and reads are checked against `source_items`.
    unsafe { kernel.launch(stream, &config, &params) }
}
