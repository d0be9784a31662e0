//! Merge of ordered runs by merge path (Green, McColl & Bader 2012): every block makes an equal part of the output,
//! whatever the skew. Stable: of equal keys those of the earlier run come first.

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::primitives::radix::{CodeParams, Radix};
use crate::primitives::sort::{Payload, SortKey, SortOptions, radix, same_len};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// Two runs and their merge.
    struct MergeParams {
        keys_a: DevicePtr<u8>,
        keys_b: DevicePtr<u8>,
        keys_out: DevicePtrMut<u8>,
        payload_a: DevicePtr<u8>,
        payload_b: DevicePtr<u8>,
        payload_out: DevicePtrMut<u8>,
        items_a: u64,
        items_b: u64,
        code: CodeParams,
    }
}

static SOURCE: Source = source!("merge.cu", MergeParams);

fn program(radix: &Radix) -> Program {
    Program::new(&SOURCE)
        .define("KEY", radix.key_type)
        .define("KEY_FLOAT", radix.float as u32)
        .define("PAYLOAD_BYTES", radix.payload_bytes)
}

/// Specialisations that the tests compile.
pub fn programs() -> Vec<Program> {
    let options = SortOptions::default();
    let shapes = [
        radix::<u32>(0, &options),
        radix::<u32>(4, &options),
        radix::<u64>(8, &options),
        radix::<u128>(16, &options),
        radix::<f64>(4, &options),
    ];
    shapes.into_iter().flatten().map(|radix| program(&radix)).collect()
}

/// A run: addresses of keys and payload, and items.
#[derive(Clone, Copy)]
struct MergeInput {
    keys: u64,
    payload: u64,
    items: u64,
}

/// # Safety
/// The addresses cover the items, the output those of both runs; it overlaps neither.
unsafe fn launch(
    stream: &Stream,
    radix: &Radix,
    a: MergeInput,
    b: MergeInput,
    keys_out: u64,
    payload_out: u64,
) -> Result<()> {
    let params = MergeParams {
        keys_a: DevicePtr::new(a.keys),
        keys_b: DevicePtr::new(b.keys),
        keys_out: DevicePtrMut::new(keys_out),
        payload_a: DevicePtr::new(a.payload),
        payload_b: DevicePtr::new(b.payload),
        payload_out: DevicePtrMut::new(payload_out),
        items_a: a.items,
        items_b: b.items,
        code: CodeParams {
            literals: radix.digits.literals,
            ..CodeParams::default()
        },
    };
    let tile = tuning::MERGE_THREADS as u64 * tuning::MERGE_ITEMS as u64;
    let config = LaunchConfig::cover(a.items + b.items, tile, tuning::MERGE_THREADS)?;
    let kernel = stream.device().load(&program(radix))?.kernel::<MergeParams>("merge")?;
    // SAFETY: the caller's promise.
    unsafe { kernel.launch(stream, &config, &params) }
}

/// Merges two runs of keys, each in the options' order. The options' bits must be all. One pass; allocates nothing.
pub fn merge_keys<K: SortKey>(
    stream: &Stream,
    a: DeviceView<'_, K>,
    b: DeviceView<'_, K>,
    mut output: DeviceViewMut<'_, K>,
    options: &SortOptions,
) -> Result<()> {
    same_len("places", a.len() + b.len(), output.len())?;
    let radix = merge_radix::<K>(0, options)?;
    let run = |view: DeviceView<'_, K>| MergeInput {
        keys: view.ptr().0,
        payload: 0,
        items: view.len(),
    };
    // SAFETY: views of the lengths given.
    unsafe { launch(stream, &radix, run(a), run(b), output.ptr_mut().0, 0) }
}

fn merge_radix<K: SortKey>(payload_bytes: usize, options: &SortOptions) -> Result<Radix> {
    match options.bits {
        None => radix::<K>(payload_bytes, options),
        Some(_) => Err(GpuError::Invalid("a merge compares all bits of the keys".into())),
    }
}

/// Merges runs that lie one after another: run `i` is `offsets[i]..offsets[i + 1]` of keys and values, each in the
/// options' order. Takes `ceil(log2(runs))` passes, pairwise, between the given buffers and another pair of the same
/// size; returns whichever holds the result.
pub fn merge_runs<K: SortKey, V: Payload>(
    stream: &Stream,
    mut keys: DeviceBuffer<K>,
    mut values: DeviceBuffer<V>,
    offsets: &[u64],
    options: &SortOptions,
) -> Result<(DeviceBuffer<K>, DeviceBuffer<V>)> {
    let items = keys.len();
    same_len("values", items, values.len())?;
    let radix = merge_radix::<K>(size_of::<V>(), options)?;
    let wrong = offsets.first() != Some(&0) || offsets.last() != Some(&items) || !offsets.is_sorted();
    if wrong {
        return Err(GpuError::Invalid(format!(
            "offsets of runs that do not cover 0..{items} in order"
        )));
    }
    let mut offsets = offsets.to_vec();
    if offsets.len() <= 2 {
        return Ok((keys, values));
    }
    let mut other_keys = stream.alloc::<K>(items)?;
    let mut other_values = stream.alloc::<V>(items)?;
    while offsets.len() > 2 {
        let mut next = vec![0];
        for pair in offsets[..offsets.len() - 1].chunks(2).zip((0..).step_by(2)) {
            let (start, end) = (offsets[pair.1], offsets[(pair.1 + 2).min(offsets.len() - 1)]);
            let middle = offsets[pair.1 + 1];
            let run = |from: u64, to: u64| MergeInput {
                keys: keys.ptr().0 + from * size_of::<K>() as u64,
                payload: values.ptr().0 + from * size_of::<V>() as u64,
                items: to - from,
            };
            let keys_out = other_keys.ptr_mut().0 + start * size_of::<K>() as u64;
            let payload_out = other_values.ptr_mut().0 + start * size_of::<V>() as u64;
            // SAFETY: parts of buffers of `items` elements, by offsets checked above.
            unsafe {
                launch(
                    stream,
                    &radix,
                    run(start, middle),
                    run(middle, end),
                    keys_out,
                    payload_out,
                )?
            };
            next.push(end);
        }
        offsets = next;
        std::mem::swap(&mut keys, &mut other_keys);
        std::mem::swap(&mut values, &mut other_values);
    }
    Ok((keys, values))
}
