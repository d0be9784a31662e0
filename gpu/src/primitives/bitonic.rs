//! Bitonic sort (Govindaraju et al. 2005, section 4; He 2008, section 3.1.5): a tile at a time in shared memory.
//!
//! What sorts small inputs fast: one launch instead of a counting kernel and several passes. As a sort of large inputs
//! it is here for comparison: `log2(n)^2 / 2` steps, of which those that span more than a tile go through memory.

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::primitives::radix::{CodeParams, Radix};
use crate::primitives::sort::{Payload, SortKey, SortOptions, radix, same_len};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// Tiles or segments, each sorted by one block.
    struct TilesParams {
        keys_in: DevicePtr<u8>,
        keys_out: DevicePtrMut<u8>,
        payload_in: DevicePtr<u8>,
        payload_out: DevicePtrMut<u8>,
        offsets: DevicePtr<u64>,
        items: u64,
        span: u64,
        code: CodeParams,
    }
}
kernel_params! {
    /// One step that spans more than a tile.
    struct StepParams {
        keys: DevicePtrMut<u8>,
        payload: DevicePtrMut<u8>,
        items: u64,
        span: u64,
        mirrored: u64,
        code: CodeParams,
    }
}

static SOURCE: Source = source!("bitonic.cu", TilesParams, StepParams);

/// Items of a tile: the longest segment, and the longest input that one launch sorts.
pub const TILE: u64 = tuning::BITONIC_TILE as u64;

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
        radix::<u8>(0, &options),
        radix::<u32>(4, &options),
        radix::<u64>(8, &options),
        radix::<u128>(16, &options),
        radix::<f32>(4, &options),
        radix::<f64>(0, &options),
    ];
    shapes.into_iter().flatten().map(|radix| program(&radix)).collect()
}

/// The code's literals, and the bits that count as a mask.
fn code(radix: &Radix) -> CodeParams {
    let digits = &radix.digits;
    let bits = digits.last_bit - digits.first_bit;
    let mask = if bits == 0 {
        0
    } else {
        (u128::MAX >> (128 - bits)) << digits.first_bit
    };
    CodeParams {
        literals: [digits.literals[0], digits.literals[1], mask as u64, (mask >> 64) as u64],
        shift: 0,
        mask: 0,
        code_max: u32::MAX,
        digit_flip: 0,
    }
}

/// Addresses of keys and payload, in and out: may be the same; payload in 0 is the item's number, keys out 0 are not
/// written.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub keys_in: u64,
    pub keys_out: u64,
    pub payload_in: u64,
    pub payload_out: u64,
}

/// Sorts tiles (`offsets` 0) or the `segments` segments between offsets; segments above a tile stay as they are.
///
/// # Safety
/// The addresses cover `items` elements of the program's types; offsets ascend and do not pass `items`.
pub(crate) unsafe fn sort_tiles(
    stream: &Stream,
    radix: &Radix,
    places: Places,
    items: u64,
    segments: Option<(u64, u64)>,
    span: u64,
) -> Result<()> {
    let (offsets, blocks) = segments.unwrap_or((0, items.div_ceil(TILE)));
    let params = TilesParams {
        keys_in: DevicePtr::new(places.keys_in),
        keys_out: DevicePtrMut::new(places.keys_out),
        payload_in: DevicePtr::new(places.payload_in),
        payload_out: DevicePtrMut::new(places.payload_out),
        offsets: DevicePtr::new(offsets),
        items,
        span,
        code: code(radix),
    };
    let kernel = stream
        .device()
        .load(&program(radix))?
        .kernel::<TilesParams>("bitonic_tiles")?;
    // SAFETY: the caller's promise.
    unsafe {
        kernel.launch(
            stream,
            &LaunchConfig::cover(blocks, 1, tuning::BITONIC_THREADS)?,
            &params,
        )
    }
}

/// Sorts `items` items in place by all steps of the network.
///
/// # Safety
/// As [`sort_tiles`], for one array of each.
unsafe fn sort_in_place(stream: &Stream, radix: &Radix, keys: u64, payload: u64, items: u64) -> Result<()> {
    let places = Places {
        keys_in: keys,
        keys_out: keys,
        payload_in: payload,
        payload_out: payload,
    };
    let step = stream
        .device()
        .load(&program(radix))?
        .kernel::<StepParams>("bitonic_step")?;
    let blocks = items.div_ceil(2 * tuning::BITONIC_THREADS as u64).min(1 << 20) as u32;
    let config = LaunchConfig::new(blocks, tuning::BITONIC_THREADS);
    // SAFETY: the caller's promise.
    unsafe { sort_tiles(stream, radix, places, items, None, 0)? };
    let mut span = 2 * TILE;
    while span / 2 < items {
        let mut inner = span;
        while inner > TILE {
            let params = StepParams {
                keys: DevicePtrMut::new(keys),
                payload: DevicePtrMut::new(payload),
                items,
                span: inner,
                mirrored: (inner == span) as u64,
                code: code(radix),
            };
            // SAFETY: the caller's promise; every pair is touched by one thread.
            unsafe { step.launch(stream, &config, &params)? };
            inner /= 2;
        }
        // SAFETY: the caller's promise.
        unsafe { sort_tiles(stream, radix, places, items, None, span)? };
        span *= 2;
    }
    Ok(())
}

/// Sorts keys in place. Not stable. Allocates nothing.
pub fn bitonic_sort_keys<K: SortKey>(
    stream: &Stream,
    mut keys: DeviceViewMut<'_, K>,
    options: &SortOptions,
) -> Result<()> {
    let radix = radix::<K>(0, options)?;
    // SAFETY: the view covers its keys.
    unsafe { sort_in_place(stream, &radix, keys.ptr_mut().0, 0, keys.len()) }
}

/// Sorts keys in place and moves the values along. Not stable above [`TILE`] items. Allocates nothing.
pub fn bitonic_sort_pairs<K: SortKey, V: Payload>(
    stream: &Stream,
    mut keys: DeviceViewMut<'_, K>,
    mut values: DeviceViewMut<'_, V>,
    options: &SortOptions,
) -> Result<()> {
    same_len("values", keys.len(), values.len())?;
    let radix = radix::<K>(size_of::<V>(), options)?;
    // SAFETY: both views cover as many items.
    unsafe { sort_in_place(stream, &radix, keys.ptr_mut().0, values.ptr_mut().0, keys.len()) }
}

/// Sorts each segment of keys and values in place, stably: segment `i` is `offsets[i]..offsets[i + 1]`, with ascending
/// offsets within the keys. One block a segment; segments above [`TILE`] items are left as they are.
pub fn bitonic_sort_segments<K: SortKey, V: Payload>(
    stream: &Stream,
    mut keys: DeviceViewMut<'_, K>,
    mut values: DeviceViewMut<'_, V>,
    offsets: DeviceView<'_, u64>,
    options: &SortOptions,
) -> Result<()> {
    same_len("values", keys.len(), values.len())?;
    if offsets.is_empty() {
        return Err(GpuError::Invalid("no offsets: segments need at least the end".into()));
    }
    let radix = radix::<K>(size_of::<V>(), options)?;
    let places = Places {
        keys_in: keys.ptr_mut().0,
        keys_out: keys.ptr_mut().0,
        payload_in: values.ptr_mut().0,
        payload_out: values.ptr_mut().0,
    };
    let segments = Some((offsets.ptr().0, offsets.len() - 1));
    // SAFETY: both views cover as many items, and the offsets stay within them by contract.
    unsafe { sort_tiles(stream, &radix, places, keys.len(), segments, 0) }
}
