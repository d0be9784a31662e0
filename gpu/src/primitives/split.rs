//! Split: items of equal partition side by side (Patidar & Narayanan 2009, section 3; He 2008, section 3.1.4).
//!
//! More than 400 lines because the forms of a split share its passes, and their checks stand beside them.
//!
//! Partitions come from bits of the key or from a generated function of it, and may be any number: up to 256 take one
//! pass over the data, each further factor of up to 256 another (least significant digit first, so every pass is
//! stable). The partition's offsets come out beside the items, or nothing but the index: the gather index (for each
//! place, the item that belongs there: section 3.3) or the scatter index (for each item, its place), so that wide
//! records move once.
//!
//! Where Patidar splits a block's items in memory before it copies them out (section 3.1, two-step scatter), a tile
//! is split in registers and shared memory, and its counts meet those of other tiles by look-back: see `radix`.

use std::ops::Range;

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::primitives::expression::Expression;
use crate::primitives::fill::Index;
use crate::primitives::radix::{Buffers, CodeParams, Digits, Outputs, Radix, RadixTuning};
use crate::primitives::sort::{Payload, SortKey, check_index, same_len};
use crate::stream::Stream;
use crate::{kernel_params, source};

kernel_params! {
    /// Offsets of `partitions` partitions of ordered keys.
    struct OffsetsParams {
        keys: DevicePtr<u8>,
        items: u64,
        offsets: DevicePtrMut<u64>,
        partitions: u64,
        code: CodeParams,
    }
}
kernel_params! {
    /// The inverse of a permutation.
    struct InvertParams {
        indices: DevicePtr<u8>,
        values: DevicePtr<u8>,
        places: DevicePtrMut<u8>,
        items: u64,
    }
}

static SOURCE: Source = source!("split.cu", OffsetsParams, InvertParams);

/// Literals that a partition function may have.
pub const LITERALS_MAX: usize = 4;

/// Partitions at most: 2^30.
pub const PARTITION_BITS_MAX: u32 = 30;

/// Which partition a key belongs to.
#[derive(Clone, Debug)]
pub enum Partition<'a> {
    /// The number that these bits of the key make, from the least significant: `2^range.len()` partitions. Raw bits:
    /// signed and float keys count as unsigned numbers.
    Bits(Range<u32>),
    /// An expression of type `u32` over `key`. Numbers at or above `partitions` count as the last partition.
    Function {
        expression: Expression<'a>,
        literals: &'a [u64],
        partitions: u32,
    },
}

/// Options of a split.
#[derive(Clone, Copy, Debug)]
pub struct SplitOptions {
    /// Items of a partition keep their order. Without it, a split of one pass saves the look-back; one of several
    /// passes is stable anyhow.
    pub stable: bool,
    /// Another shape of the pass than the usual one, to measure it.
    pub tuning: Option<RadixTuning>,
}

impl Default for SplitOptions {
    fn default() -> Self {
        SplitOptions {
            stable: true,
            tuning: None,
        }
    }
}

impl Partition<'_> {
    /// Number of partitions: the offsets are one more.
    pub fn partitions(&self) -> u64 {
        match self {
            Partition::Bits(bits) => 1u64.checked_shl(bits.len() as u32).unwrap_or(u64::MAX),
            Partition::Function { partitions, .. } => *partitions as u64,
        }
    }

    fn digits<K: SortKey>(&self) -> Result<Digits> {
        match self {
            Partition::Bits(bits) => {
                if bits.end > K::BITS || bits.start > bits.end || bits.len() as u32 > PARTITION_BITS_MAX {
                    return Err(GpuError::Invalid(format!(
                        "split by bits {}..{} of a key of {} bits, at most {PARTITION_BITS_MAX} of them",
                        bits.start,
                        bits.end,
                        K::BITS
                    )));
                }
                let bits = if bits.is_empty() { 0..0 } else { bits.clone() };
                Ok(Digits {
                    literals: [0; 4],
                    first_bit: bits.start,
                    last_bit: bits.end,
                    code_max: u32::MAX,
                    custom: None,
                })
            }
            Partition::Function {
                expression,
                literals,
                partitions,
            } => {
                if literals.len() > LITERALS_MAX || *partitions == 0 || *partitions > 1 << PARTITION_BITS_MAX {
                    return Err(GpuError::Invalid(format!(
                        "split into {partitions} partitions by a function with {} literals",
                        literals.len()
                    )));
                }
                let mut all = [0; LITERALS_MAX];
                all[..literals.len()].copy_from_slice(literals);
                Ok(Digits {
                    literals: all,
                    first_bit: 0,
                    last_bit: (*partitions as u64).next_power_of_two().trailing_zeros(),
                    code_max: partitions - 1,
                    custom: Some(custom_code(*expression)),
                })
            }
        }
    }

    fn radix<K: SortKey>(&self, payload_bytes: usize, options: &SplitOptions) -> Result<Radix> {
        let digits = self.digits::<K>()?;
        let (key_type, float) = match self {
            Partition::Bits(_) => (unsigned_type(size_of::<K>()), false),
            Partition::Function { .. } => (K::C_NAME, false),
        };
        let bits = digits.last_bit - digits.first_bit;
        let mut radix = Radix::new(key_type, size_of::<K>() as u32, float, payload_bytes as u32, digits);
        let passes = bits.div_ceil(8).max(1);
        radix.radix_bits = match bits.div_ceil(passes) {
            ..=4 => 4,
            5..=6 => 6,
            _ => 8,
        };
        radix.stable = options.stable || radix.passes() > 1;
        if let Some(tuning) = options.tuning {
            radix.tuning = tuning;
        }
        Ok(radix)
    }
}

/// The header `code.cuh` of a partition function.
fn custom_code(expression: Expression<'_>) -> String {
    format!(
        "template <class Literals>\nTENON_DEVICE u32 custom_code(KEY key, const Literals& literal) {{\n    \
         (void)literal;\n    return (u32)({expression});\n}}\n"
    )
}

fn unsigned_type(bytes: usize) -> &'static str {
    match bytes {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "u128",
    }
}

fn program(radix: &Radix, place: &str) -> Program {
    let program = Program::new(&SOURCE)
        .define("KEY", radix.key_type)
        .define("KEY_FLOAT", 0)
        .define("PLACE", place);
    match &radix.digits.custom {
        Some(text) => program.define("CUSTOM_CODE", 1).header("code.cuh", text.clone()),
        None => program,
    }
}

/// Specialisations that the tests compile.
pub fn programs() -> Vec<Program> {
    let by_bits = Partition::Bits(0..12).radix::<u128>(0, &SplitOptions::default());
    let by_function = Partition::Function {
        // SAFETY: it reads its argument and a literal.
        expression: unsafe { Expression::new("((u64)key * literal.template get<u64>(0)) >> 58") },
        literals: &[],
        partitions: 64,
    }
    .radix::<i64>(4, &SplitOptions::default());
    let mut programs = Vec::new();
    for radix in [by_bits, by_function].into_iter().flatten() {
        programs.push(program(&radix, "u32"));
        programs.push(program(&radix, "u64"));
        if radix.digits.custom.is_some() {
            programs.push(radix.program(false));
        }
    }
    programs
}

/// Writes offsets of a split of several passes, from its keys in order.
fn search_offsets(
    stream: &Stream,
    radix: &Radix,
    keys: u64,
    items: u64,
    mut offsets: DeviceViewMut<'_, u64>,
) -> Result<()> {
    let partitions = offsets.len() - 1;
    let bits = radix.digits.last_bit - radix.digits.first_bit;
    let params = OffsetsParams {
        keys: DevicePtr::new(keys),
        items,
        offsets: offsets.ptr_mut(),
        partitions,
        code: CodeParams {
            literals: radix.digits.literals,
            shift: radix.digits.first_bit,
            mask: (1 << bits) - 1,
            code_max: radix.digits.code_max,
            digit_flip: 0,
        },
    };
    let kernel = stream
        .device()
        .load(&program(radix, "u32"))?
        .kernel::<OffsetsParams>("partition_offsets")?;
    // SAFETY: `keys` covers `items` keys by the caller's contract; the offsets' length is passed.
    unsafe { kernel.launch(stream, &LaunchConfig::cover(partitions + 1, 256, 256)?, &params) }
}

/// Checks the offsets' length and runs the passes.
///
/// # Safety
/// As [`Radix::run`]. With several passes and offsets, `keys_out` is not 0.
unsafe fn run(
    stream: &Stream,
    partition: &Partition<'_>,
    radix: &Radix,
    buffers: Buffers,
    items: u64,
    offsets: Option<DeviceViewMut<'_, u64>>,
    places: u64,
) -> Result<()> {
    if let Some(offsets) = &offsets
        && offsets.len() != partition.partitions() + 1
    {
        return Err(GpuError::Invalid(format!(
            "{} offsets of {} partitions and the end",
            offsets.len(),
            partition.partitions()
        )));
    }
    if radix.passes() == 1 || items == 0 {
        // SAFETY: the caller's promise.
        return unsafe { radix.run(stream, buffers, items, Outputs { offsets, places }) };
    }
    let none = Outputs { offsets: None, places };
    // SAFETY: the caller's promise.
    unsafe { radix.run(stream, buffers, items, none)? };
    match offsets {
        Some(offsets) => search_offsets(stream, radix, buffers.keys_out, items, offsets),
        None => Ok(()),
    }
}

/// Splits keys. `offsets`, if wanted: `partitions + 1` numbers, the first place of each partition and the end.
/// Allocates one more array of keys if it takes more than one pass.
pub fn split_keys<K: SortKey>(
    stream: &Stream,
    partition: &Partition<'_>,
    keys: DeviceView<'_, K>,
    mut keys_out: DeviceViewMut<'_, K>,
    offsets: Option<DeviceViewMut<'_, u64>>,
    options: &SplitOptions,
) -> Result<()> {
    same_len("places", keys.len(), keys_out.len())?;
    let radix = partition.radix::<K>(0, options)?;
    let items = keys.len();
    let mut temporary = stream.alloc::<K>(if radix.passes() > 1 { items } else { 0 })?;
    let buffers = Buffers {
        keys_in: keys.ptr().0,
        keys_temporary: temporary.ptr_mut().0,
        keys_out: keys_out.ptr_mut().0,
        payload_in: 0,
        payload_temporary: 0,
        payload_out: 0,
        in_place: false,
    };
    // SAFETY: arrays of `items` keys; the temporary goes back to the pool in stream order.
    unsafe { run(stream, partition, &radix, buffers, items, offsets, 0) }
}

/// Splits keys and moves each key's value (4, 8 or 16 bytes) along. Allocates one more array of each if it takes more
/// than one pass. `offsets` as in [`split_keys`].
#[allow(clippy::too_many_arguments)]
pub fn split_pairs<K: SortKey, V: Payload>(
    stream: &Stream,
    partition: &Partition<'_>,
    keys: DeviceView<'_, K>,
    values: DeviceView<'_, V>,
    mut keys_out: DeviceViewMut<'_, K>,
    mut values_out: DeviceViewMut<'_, V>,
    offsets: Option<DeviceViewMut<'_, u64>>,
    options: &SplitOptions,
) -> Result<()> {
    same_len("values", keys.len(), values.len())?;
    same_len("places of keys", keys.len(), keys_out.len())?;
    same_len("places of values", keys.len(), values_out.len())?;
    let radix = partition.radix::<K>(size_of::<V>(), options)?;
    let items = keys.len();
    let spare = if radix.passes() > 1 { items } else { 0 };
    let mut keys_temporary = stream.alloc::<K>(spare)?;
    let mut values_temporary = stream.alloc::<V>(spare)?;
    let buffers = Buffers {
        keys_in: keys.ptr().0,
        keys_temporary: keys_temporary.ptr_mut().0,
        keys_out: keys_out.ptr_mut().0,
        payload_in: values.ptr().0,
        payload_temporary: values_temporary.ptr_mut().0,
        payload_out: values_out.ptr_mut().0,
        in_place: false,
    };
    // SAFETY: arrays of `items` elements; the temporaries go back to the pool in stream order.
    unsafe { run(stream, partition, &radix, buffers, items, offsets, 0) }
}

/// The gather index: `indices[i]` is the item that belongs at place `i`. The keys stay where they are.
/// Allocates up to two arrays of keys and one of indices if it takes more than one pass.
pub fn split_indices<K: SortKey, I: Index + Payload>(
    stream: &Stream,
    partition: &Partition<'_>,
    keys: DeviceView<'_, K>,
    mut indices: DeviceViewMut<'_, I>,
    offsets: Option<DeviceViewMut<'_, u64>>,
    options: &SplitOptions,
) -> Result<()> {
    same_len("indices", keys.len(), indices.len())?;
    check_index::<I>(keys.len())?;
    let radix = partition.radix::<K>(size_of::<I>(), options)?;
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
    unsafe { run(stream, partition, &radix, buffers, items, offsets, 0) }
}

/// The scatter index: `places[i]` is where item `i` goes. With one pass, nothing but the keys is read and nothing but
/// the places written; with several, the gather index is inverted.
pub fn split_places<K: SortKey, I: Index + Payload + SortKey>(
    stream: &Stream,
    partition: &Partition<'_>,
    keys: DeviceView<'_, K>,
    mut places: DeviceViewMut<'_, I>,
    offsets: Option<DeviceViewMut<'_, u64>>,
    options: &SplitOptions,
) -> Result<()> {
    same_len("places", keys.len(), places.len())?;
    check_index::<I>(keys.len())?;
    let mut radix = partition.radix::<K>(0, options)?;
    let items = keys.len();
    if radix.passes() == 1 {
        radix.scatter_bytes = size_of::<I>() as u32;
        let buffers = Buffers {
            keys_in: keys.ptr().0,
            keys_temporary: 0,
            keys_out: 0,
            payload_in: 0,
            payload_temporary: 0,
            payload_out: 0,
            in_place: false,
        };
        // SAFETY: `items` keys and places.
        return unsafe { run(stream, partition, &radix, buffers, items, offsets, places.ptr_mut().0) };
    }
    let mut indices = stream.alloc::<I>(items)?;
    split_indices(stream, partition, keys, indices.view_mut(), offsets, options)?;
    invert(stream, indices, places, INVERT_AT_ONCE)
}

/// Places that fit the second-level cache while they are written in any order.
const INVERT_AT_ONCE: u64 = 4 << 20;

/// Sets `places[indices[i]]` to `i`; `indices` is a permutation. Beyond `at_once` items the indices are first split by
/// their top bits, so that writes fall into one part of the places after another: at random they would touch a
/// sector of memory each (128 M: 10 ms instead of 2).
fn invert<I: Index + Payload + SortKey>(
    stream: &Stream,
    mut indices: DeviceBuffer<I>,
    mut places: DeviceViewMut<'_, I>,
    at_once: u64,
) -> Result<()> {
    let items = places.len();
    let mut values = None;
    if items > at_once {
        let bits = 64 - (items - 1).leading_zeros();
        let top = Partition::Bits(bits.saturating_sub(8)..bits);
        let radix = top.radix::<I>(size_of::<I>(), &SplitOptions::default())?;
        let (mut moved, mut numbers) = (stream.alloc::<I>(items)?, stream.alloc::<I>(items)?);
        let buffers = Buffers {
            keys_in: indices.ptr().0,
            keys_temporary: 0,
            keys_out: moved.ptr_mut().0,
            payload_in: 0,
            payload_temporary: 0,
            payload_out: numbers.ptr_mut().0,
            in_place: false,
        };
        // SAFETY: arrays of `items` elements; one pass needs no temporary, and a payload of nowhere is the number.
        unsafe { run(stream, &top, &radix, buffers, items, None, 0)? };
        indices = moved;
        values = Some(numbers);
    }
    let kernel = stream
        .device()
        .load(
            &Program::new(&SOURCE)
                .define("KEY", I::C_NAME)
                .define("KEY_FLOAT", 0)
                .define("PLACE", I::C_NAME),
        )?
        .kernel::<InvertParams>("invert")?;
    let params = InvertParams {
        indices: DevicePtr::new(indices.ptr().0),
        values: DevicePtr::new(values.as_ref().map_or(0, |values| values.ptr().0)),
        places: DevicePtrMut::new(places.ptr_mut().0),
        items,
    };
    let blocks = items.div_ceil(1024).min(1 << 20) as u32;
    // SAFETY: all hold `items` elements of the program's type, and the indices are a permutation of 0..items.
    unsafe { kernel.launch(stream, &LaunchConfig::new(blocks, 256), &params) }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

    use super::invert;
    use crate::testing;

    #[test]
    fn inversion_with_and_without_a_split() {
        let device = testing::device();
        let stream = device.stream().unwrap();
        let mut rng = StdRng::seed_from_u64(testing::seed("invert"));
        for items in [1u32, 2, 200, 257, 5000] {
            let mut indices: Vec<u32> = (0..items).collect();
            indices.shuffle(&mut rng);
            let mut expected = vec![0; items as usize];
            for (place, &item) in (0u32..).zip(&indices) {
                expected[item as usize] = place;
            }
            for at_once in [0, items as u64] {
                let mut places = stream.alloc::<u32>(items as u64).unwrap();
                invert(&stream, stream.upload(&indices).unwrap(), places.view_mut(), at_once).unwrap();
                assert_eq!(
                    stream.download(places.view()).unwrap(),
                    expected,
                    "{items}, {at_once} at once"
                );
            }
        }
    }
}
