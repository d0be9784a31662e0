//! Reduce: all items to one value (He 2008, section 3.1; the up-sweep of its prefix scan, in one launch).

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::number::{Number, Reduction, WIDENINGS, Widen, words_of};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// `partials` has one value a block; `finished` counts blocks and starts at 0.
    struct ReduceParams {
        input: DevicePtr<u8>,
        output: DevicePtrMut<u8>,
        partials: DevicePtrMut<u8>,
        finished: DevicePtrMut<u32>,
        items: u64,
        identity_low: u64,
        identity_high: u64,
    }
}

static SOURCE: Source = source!("reduce.cu", ReduceParams);

fn program(item: &str, accumulator: &str, reduction: Reduction) -> Program {
    Program::new(&SOURCE)
        .define("ITEM", item)
        .define("ACC", accumulator)
        .define("REDUCTION", reduction.functor())
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    let sums = WIDENINGS.iter().map(|(t, a)| program(t, a, Reduction::Sum));
    let same = WIDENINGS.iter().filter(|(t, a)| t == a);
    let extremes = same.flat_map(|(t, a)| [Reduction::Min, Reduction::Max].map(|r| program(t, a, r)));
    sums.chain(extremes).collect()
}

/// Sets the one element of `output` to the reduction of the input, accumulated as `A`; of no items, to the identity
/// ([`Number::identity`]). Sums of floats are the same in every run on one device.
///
/// One pass: reads `items * size_of::<T>()` bytes. Allocates 16 bytes a resident block.
pub fn reduce_into<T: Widen<A>, A: Number>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    mut output: DeviceViewMut<'_, A>,
    reduction: Reduction,
) -> Result<()> {
    if output.len() != 1 {
        return Err(GpuError::Invalid(format!("reduce into {} elements", output.len())));
    }
    let device = stream.device();
    let kernel = device
        .load(&program(T::C_NAME, A::C_NAME, reduction))?
        .kernel::<ReduceParams>("reduce")?;
    let threads = tuning::REDUCE_THREADS;
    let fill = kernel.resident_blocks(threads, 0)? * device.info().multiprocessors;
    // A thread takes four 16-byte loads at least, so that few items do not start many blocks.
    let cover = input.bytes().div_ceil(64 * threads as u64).max(1);
    let blocks = (fill as u64).min(cover) as u32;
    let mut finished = stream.alloc_zeroed::<u32>(1)?;
    let mut partials = stream.alloc::<A>(blocks as u64)?;
    let identity = words_of(A::identity(reduction));
    let params = ReduceParams {
        input: DevicePtr::new(input.ptr().0),
        output: DevicePtrMut::new(output.ptr_mut().0),
        partials: DevicePtrMut::new(partials.ptr_mut().0),
        finished: finished.ptr_mut(),
        items: input.len(),
        identity_low: identity[0],
        identity_high: identity[1],
    };
    // SAFETY: input, output and partials have the lengths that the kernel uses; they live until the stream has passed.
    unsafe { kernel.launch(stream, &LaunchConfig::new(blocks, threads), &params) }
}

/// The reduction of the input, as [`reduce_into`]. Waits for the stream.
pub fn reduce<T: Widen<A>, A: Number>(stream: &Stream, input: DeviceView<'_, T>, reduction: Reduction) -> Result<A> {
    let mut output = stream.alloc::<A>(1)?;
    reduce_into(stream, input, output.view_mut(), reduction)?;
    Ok(stream.download(output.view())?[0])
}
