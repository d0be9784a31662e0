//! Radix sort of keys, of keys with payload, and of indices (`radix` holds the algorithm).
//!
//! Stable. Bytes moved: each pass of 8 bits reads and writes keys and payload once, and counting reads the keys once;
//! passes in which all keys share the digit cost nothing, so the bits of small numbers in wide keys are free.

use std::ops::Range;

use crate::error::{GpuError, Result};
use crate::memory::{DeviceBuffer, DeviceView, DeviceViewMut, Element};
use crate::primitives::fill::Index;
use crate::stream::Stream;

use super::bitonic;
pub use super::radix::flip_bits;
use super::radix::{Buffers, Digits, Outputs, Radix};
pub use super::radix::{Order, RadixCode, RadixTuning, SortKey, tile_items};

/// What to sort by.
#[derive(Clone, Debug, Default)]
pub struct SortOptions {
    pub order: Order,
    /// Only these bits of the key count, from the least significant: fewer passes for narrow keys. Of signed keys the
    /// top bit is the sign; of floats the bits are those of the ordered form, best left whole. `None`: all.
    pub bits: Option<Range<u32>>,
    /// Another shape of the pass than the usual one, to measure it.
    pub tuning: Option<RadixTuning>,
    /// Items that one launch takes at most (0: the usual 2^28), to test what inputs above 2^32 items use: several
    /// portions, and places of 64 bits.
    pub portion_items: u64,
}

impl SortOptions {
    /// All bits, descending.
    pub fn descending() -> SortOptions {
        SortOptions {
            order: Order::Descending,
            ..SortOptions::default()
        }
    }

    /// These bits.
    pub fn bits(self, bits: Range<u32>) -> SortOptions {
        SortOptions {
            bits: Some(bits),
            ..self
        }
    }
}

/// Payload of a sort: 4, 8 or 16 bytes that travel with the key.
pub trait Payload: Element {}
impl Payload for u32 {}
impl Payload for i32 {}
impl Payload for f32 {}
impl Payload for u64 {}
impl Payload for i64 {}
impl Payload for f64 {}
impl Payload for u128 {}
impl Payload for i128 {}

/// The bit range, checked. Out of range is an error; an empty range (all keys equal) is 0..0.
pub fn checked_bits<K: SortKey>(bits: &Option<Range<u32>>) -> Result<Range<u32>> {
    let bits = bits.clone().unwrap_or(0..K::BITS);
    if bits.end > K::BITS {
        return Err(GpuError::Invalid(format!(
            "bits {}..{} of a key of {} bits",
            bits.start,
            bits.end,
            K::BITS
        )));
    }
    Ok(if bits.is_empty() { 0..0 } else { bits })
}

/// Digits of the keys themselves.
pub(crate) fn key_digits<K: SortKey>(order: Order, bits: Range<u32>) -> Digits {
    let flip = flip_bits::<K>(order);
    Digits {
        literals: [flip as u64, (flip >> 64) as u64, 0, 0],
        first_bit: bits.start,
        last_bit: bits.end,
        code_max: u32::MAX,
        custom: None,
    }
}

/// Passes over keys and payload of these types.
pub(crate) fn radix<K: SortKey>(payload_bytes: usize, options: &SortOptions) -> Result<Radix> {
    let digits = key_digits::<K>(options.order, checked_bits::<K>(&options.bits)?);
    let mut radix = Radix::new(
        K::KERNEL_TYPE,
        size_of::<K>() as u32,
        K::FLOAT,
        payload_bytes as u32,
        digits,
    );
    if let Some(tuning) = options.tuning {
        radix.tuning = tuning;
    }
    if options.portion_items > 0 {
        radix.portion_items = options.portion_items;
        radix.wide = true;
    }
    Ok(radix)
}

/// Refuses a column that is not as long as the keys. `what`: its rows in the plural.
pub fn same_len(what: &str, expected: u64, found: u64) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(GpuError::Invalid(format!("{expected} keys, but {found} {what}"))),
    }
}

/// Runs the passes, or sorts a small input in one launch: bitonic steps in one tile are stable too.
///
/// # Safety
/// As [`Radix::run`].
unsafe fn run(stream: &Stream, radix: &Radix, buffers: Buffers, items: u64, options: &SortOptions) -> Result<()> {
    if items > bitonic::TILE || options.tuning.is_some() || options.portion_items > 0 {
        let none = Outputs {
            offsets: None,
            places: 0,
        };
        // SAFETY: the caller's promise.
        return unsafe { radix.run(stream, buffers, items, none) };
    }
    let (keys_out, payload_out) = match (buffers.in_place, radix.passes() % 2) {
        (false, _) => (buffers.keys_out, buffers.payload_out),
        (true, 0) => (buffers.keys_in, buffers.payload_in),
        (true, _) => (buffers.keys_temporary, buffers.payload_temporary),
    };
    let places = bitonic::Places {
        keys_in: buffers.keys_in,
        keys_out,
        payload_in: buffers.payload_in,
        payload_out,
    };
    // SAFETY: the caller's promise.
    unsafe { bitonic::sort_tiles(stream, radix, places, items, None, 0) }
}

/// Sorts `input` into `output` (same length). Allocates one more array of keys if it takes more than one pass.
pub fn sort_keys<K: SortKey>(
    stream: &Stream,
    input: DeviceView<'_, K>,
    mut output: DeviceViewMut<'_, K>,
    options: &SortOptions,
) -> Result<()> {
    same_len("places", input.len(), output.len())?;
    let radix = radix::<K>(0, options)?;
    let items = input.len();
    let mut temporary = stream.alloc::<K>(if radix.passes() > 1 { items } else { 0 })?;
    let buffers = Buffers {
        keys_in: input.ptr().0,
        keys_temporary: temporary.ptr_mut().0,
        keys_out: output.ptr_mut().0,
        payload_in: 0,
        payload_temporary: 0,
        payload_out: 0,
        in_place: false,
    };
    // SAFETY: three arrays of `items` keys; the temporary goes back to the pool in stream order.
    unsafe { run(stream, &radix, buffers, items, options) }
}

/// Sorts keys and moves each key's value along (all the same length). Allocates one more array of keys and of values
/// if it takes more than one pass.
pub fn sort_pairs<K: SortKey, V: Payload>(
    stream: &Stream,
    keys: DeviceView<'_, K>,
    values: DeviceView<'_, V>,
    keys_out: DeviceViewMut<'_, K>,
    values_out: DeviceViewMut<'_, V>,
    options: &SortOptions,
) -> Result<()> {
    same_len("values", keys.len(), values.len())?;
    same_len("places of keys", keys.len(), keys_out.len())?;
    same_len("places of values", keys.len(), values_out.len())?;
    // SAFETY: the values are as many as the keys.
    unsafe { sort_carrying(stream, keys, values.ptr().0, keys_out, values_out, options) }
}

/// The order of the keys as indices: `indices[i]` is the place in `keys` of the `i`-th smallest key, equal keys in
/// input order (the gather index of Patidar & Narayanan 2009, section 3.3). `u32` indices take up to 2^32 keys.
/// The indices are made in the first pass, not read. Allocates up to two arrays of keys and one of indices.
pub fn sort_indices<K: SortKey, I: Index + Payload>(
    stream: &Stream,
    keys: DeviceView<'_, K>,
    mut indices: DeviceViewMut<'_, I>,
    options: &SortOptions,
) -> Result<()> {
    same_len("indices", keys.len(), indices.len())?;
    check_index::<I>(keys.len())?;
    let radix = radix::<K>(size_of::<I>(), options)?;
    let items = keys.len();
    let spare = if radix.passes() > 1 { items } else { 0 };
    let mut keys_temporary = stream.alloc::<K>(spare)?;
    let mut keys_out = stream.alloc::<K>(spare)?;
    let mut indices_temporary = stream.alloc::<I>(spare)?;
    let buffers = Buffers {
        keys_in: keys.ptr().0,
        keys_temporary: keys_temporary.ptr_mut().0,
        keys_out: if spare > 0 { keys_out.ptr_mut().0 } else { 0 },
        payload_in: 0,
        payload_temporary: indices_temporary.ptr_mut().0,
        payload_out: indices.ptr_mut().0,
        in_place: false,
    };
    // SAFETY: arrays of `items` elements; the temporaries go back to the pool in stream order.
    unsafe { run(stream, &radix, buffers, items, options) }
}

/// Sorts keys, and gives the place that each came from: [`sort_pairs`] with the places as values, which are made in the
/// first pass, not read.
pub fn sort_with_indices<K: SortKey, I: Index + Payload>(
    stream: &Stream,
    keys: DeviceView<'_, K>,
    keys_out: DeviceViewMut<'_, K>,
    indices: DeviceViewMut<'_, I>,
    options: &SortOptions,
) -> Result<()> {
    same_len("places of keys", keys.len(), keys_out.len())?;
    same_len("indices", keys.len(), indices.len())?;
    check_index::<I>(keys.len())?;
    // SAFETY: no values are read.
    unsafe { sort_carrying(stream, keys, 0, keys_out, indices, options) }
}

/// Sorts keys and what goes with each: the values at an address, or for address 0 the places that the keys came from.
///
/// # Safety
/// At `values`, unless 0, there are as many elements of `V` as there are keys; the outputs are of the keys' length.
unsafe fn sort_carrying<K: SortKey, V: Payload>(
    stream: &Stream,
    keys: DeviceView<'_, K>,
    values: u64,
    mut keys_out: DeviceViewMut<'_, K>,
    mut values_out: DeviceViewMut<'_, V>,
    options: &SortOptions,
) -> Result<()> {
    let radix = radix::<K>(size_of::<V>(), options)?;
    let items = keys.len();
    let spare = if radix.passes() > 1 { items } else { 0 };
    let mut keys_temporary = stream.alloc::<K>(spare)?;
    let mut values_temporary = stream.alloc::<V>(spare)?;
    let buffers = Buffers {
        keys_in: keys.ptr().0,
        keys_temporary: keys_temporary.ptr_mut().0,
        keys_out: keys_out.ptr_mut().0,
        payload_in: values,
        payload_temporary: values_temporary.ptr_mut().0,
        payload_out: values_out.ptr_mut().0,
        in_place: false,
    };
    // SAFETY: arrays of `items` elements by the caller's promise; the temporaries go back to the pool in stream order.
    unsafe { run(stream, &radix, buffers, items, options) }
}

/// An error if indices of this type do not reach `items` items.
pub(crate) fn check_index<I: Index>(items: u64) -> Result<()> {
    if size_of::<I>() == 4 && items > 1 << 32 {
        return Err(GpuError::Invalid(format!("{items} items need indices of 64 bits")));
    }
    Ok(())
}

/// Sorts a buffer that nobody else needs: takes one more array of keys, not two, and returns whichever holds the result.
pub fn sort_keys_owned<K: SortKey>(
    stream: &Stream,
    mut keys: DeviceBuffer<K>,
    options: &SortOptions,
) -> Result<DeviceBuffer<K>> {
    let radix = radix::<K>(0, options)?;
    let items = keys.len();
    let mut other = stream.alloc::<K>(items)?;
    let buffers = Buffers {
        keys_in: keys.ptr_mut().0,
        keys_temporary: other.ptr_mut().0,
        keys_out: 0,
        payload_in: 0,
        payload_temporary: 0,
        payload_out: 0,
        in_place: true,
    };
    // SAFETY: two arrays of `items` keys; one returns to the pool in stream order.
    unsafe { run(stream, &radix, buffers, items, options)? };
    Ok(if radix.passes() % 2 == 0 { keys } else { other })
}

/// Sorts a buffer of keys and one of values that nobody else needs: see [`sort_keys_owned`].
pub fn sort_pairs_owned<K: SortKey, V: Payload>(
    stream: &Stream,
    mut keys: DeviceBuffer<K>,
    mut values: DeviceBuffer<V>,
    options: &SortOptions,
) -> Result<(DeviceBuffer<K>, DeviceBuffer<V>)> {
    same_len("values", keys.len(), values.len())?;
    let radix = radix::<K>(size_of::<V>(), options)?;
    let items = keys.len();
    let mut other_keys = stream.alloc::<K>(items)?;
    let mut other_values = stream.alloc::<V>(items)?;
    let buffers = Buffers {
        keys_in: keys.ptr_mut().0,
        keys_temporary: other_keys.ptr_mut().0,
        keys_out: 0,
        payload_in: values.ptr_mut().0,
        payload_temporary: other_values.ptr_mut().0,
        payload_out: 0,
        in_place: true,
    };
    // SAFETY: four arrays of `items` elements; two return to the pool in stream order.
    unsafe { run(stream, &radix, buffers, items, options)? };
    Ok(if radix.passes() % 2 == 0 {
        (keys, values)
    } else {
        (other_keys, other_values)
    })
}
