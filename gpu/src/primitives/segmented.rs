//! Segmented reduce: one value a segment of consecutive items, balanced for any lengths by a merge path
//! (Merrill and Garland 2016, "Merge-based Parallel Sparse Matrix-Vector Multiplication").

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut, Element};
use crate::number::{Number, Reduction, WIDENINGS, Widen, words_of};
use crate::primitives::fill::Index;
use crate::primitives::select::run_length_encode;
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// `splits` has `tiles + 1` elements; `states` are the tiles' descriptors, zeros at the start.
    struct SegmentedParams {
        input: DevicePtr<u8>,
        offsets: DevicePtr<u8>,
        items: u64,
        segments: u64,
        identity_low: u64,
        identity_high: u64,
        splits: DevicePtrMut<u64>,
        tiles: u64,
        states: DevicePtrMut<u64>,
        output: DevicePtrMut<u8>,
    }
}

static SOURCE: Source = source!("segmented.cu", SegmentedParams);

/// Steps of the merge of items with segment ends that a thread takes. Odd, so that threads of a warp read shared
/// memory from different banks; as many as fit there with these items.
fn steps(item_bytes: usize, accumulator_bytes: usize) -> u32 {
    match item_bytes.max(if accumulator_bytes > 8 { 16 } else { 0 }) {
        0..=4 => 15,
        5..=8 => 11,
        _ => 7,
    }
}

fn program(item: &str, accumulator: &str, index: &str, reduction: Reduction, steps: u32) -> Program {
    Program::new(&SOURCE)
        .define("SEGMENT_STEPS", format!("{steps}u"))
        .define("ITEM", item)
        .define("ACC", accumulator)
        .define("INDEX", index)
        .define("REDUCTION", reduction.functor())
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    let bytes = |name: &str| name[1..].parse::<usize>().map_or(0, |bits| bits / 8);
    let of = |t: &str, a: &str, index: &str, r| program(t, a, index, r, steps(bytes(t), bytes(a)));
    let sums = WIDENINGS.iter().map(|(t, a)| of(t, a, "u32", Reduction::Sum));
    let extremes = [("i64", Reduction::Min), ("f64", Reduction::Max)].map(|(t, r)| of(t, t, "u64", r));
    sums.chain(extremes).collect()
}

/// Sets `output[s]` to the reduction of `input[offsets[s]..offsets[s + 1]]`, accumulated as `A`; of an empty segment,
/// to the identity. `offsets` ascends and has one element more than `output`; offsets beyond the input count as its
/// end, and offsets that do not ascend give values without meaning.
///
/// Sums of floats may differ between runs in the last bits. Reads every item and offset once. Allocates 24 to 56 bytes
/// a tile of 1792 to 3840 items and segments.
pub fn segmented_reduce<T: Widen<A>, A: Number, I: Index>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    offsets: DeviceView<'_, I>,
    mut output: DeviceViewMut<'_, A>,
    reduction: Reduction,
) -> Result<()> {
    let segments = output.len();
    if offsets.len() != segments + 1 {
        return Err(GpuError::Invalid(format!(
            "{} offsets for {segments} segments",
            offsets.len()
        )));
    }
    if segments == 0 {
        return Ok(());
    }
    let wide = size_of::<A>() > 8;
    let steps = steps(size_of::<T>(), size_of::<A>());
    let tile = tuning::SEGMENT_THREADS as u64 * steps as u64;
    let config = LaunchConfig::cover(segments + input.len(), tile, tuning::SEGMENT_THREADS)?;
    let tiles = config.blocks();
    let mut splits = stream.alloc::<u64>(tiles + 1)?;
    let mut states = stream.alloc_zeroed::<u64>(tiles * if wide { 6 } else { 2 })?;
    let identity = words_of(A::identity(reduction));
    let params = SegmentedParams {
        input: DevicePtr::new(input.ptr().0),
        offsets: DevicePtr::new(offsets.ptr().0),
        items: input.len(),
        segments,
        identity_low: identity[0],
        identity_high: identity[1],
        splits: splits.ptr_mut(),
        tiles,
        states: states.ptr_mut(),
        output: DevicePtrMut::new(output.ptr_mut().0),
    };
    let module = stream
        .device()
        .load(&program(T::C_NAME, A::C_NAME, I::C_NAME, reduction, steps))?;
    let (split, reduce) = (module.kernel("segment_splits")?, module.kernel("segmented_reduce")?);
    // SAFETY: the views have the lengths that the kernels use, and reads by offsets are checked against the input's;
    // splits and states have an element for each tile.
    unsafe {
        split.launch(stream, &LaunchConfig::cover(tiles + 1, 256, 256)?, &params)?;
        reduce.launch(stream, &config, &params)
    }
}

/// Reduces the values of each run of equal keys (by their bits): `unique_keys[k]` and `output[k]` for run `k`. Returns
/// the number of runs; waits for the stream to learn it. Outputs of fewer elements than runs are an error.
///
/// Allocates 8 bytes an item of keys besides what run-length encoding and segmented reduction take.
pub fn reduce_by_key<K: Element, T: Widen<A>, A: Number>(
    stream: &Stream,
    keys: DeviceView<'_, K>,
    values: DeviceView<'_, T>,
    unique_keys: DeviceViewMut<'_, K>,
    output: DeviceViewMut<'_, A>,
    reduction: Reduction,
) -> Result<u64> {
    if keys.len() != values.len() {
        return Err(GpuError::Invalid(format!(
            "{} keys for {} values",
            keys.len(),
            values.len()
        )));
    }
    let capacity = unique_keys.len().min(output.len());
    let mut offsets = stream.alloc::<u64>(keys.len().min(capacity) + 1)?;
    let mut count = stream.alloc::<u64>(1)?;
    run_length_encode(stream, keys, unique_keys, offsets.view_mut(), count.view_mut())?;
    let runs = stream.download(count.view())?[0];
    if runs > capacity {
        return Err(GpuError::Invalid(format!("{runs} distinct keys, room for {capacity}")));
    }
    segmented_reduce(
        stream,
        values,
        offsets.slice(..=runs)?,
        output.slice(..runs)?,
        reduction,
    )?;
    Ok(runs)
}
