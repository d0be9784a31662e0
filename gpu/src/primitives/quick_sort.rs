//! Quick sort by split (He 2008, section 3.1.5), kept as a reference: random pivots split the input into chunks, the
//! chunks are split again until they fit a tile, and tiles are sorted by bitonic steps. Radix sort is faster.
//!
//! Beyond the paper: keys equal to a pivot make a chunk of their own, which is done, so that one key in all rows ends
//! the recursion instead of never ending it.

use crate::error::Result;
use crate::memory::{DeviceView, DeviceViewMut};
use crate::primitives::bitonic::{self, Places};
use crate::primitives::radix::{Buffers, Digits, Order, Outputs, Radix, RadixCode};
use crate::primitives::sort::{Payload, SortKey, SortOptions, radix, same_len};
use crate::stream::Stream;

/// Pivots of one split at most: with the chunks of equal keys, 255 chunks.
const PIVOTS_MAX: usize = 127;

/// Twice the number of pivots before the key, and one more if it equals a pivot. Literals: 0 and 1 the bits to turn
/// over, 2 the pivots' address (ordered codes), 3 their number.
const CHUNK_OF_KEY: &str = "template <class Literals>
TENON_DEVICE u32 custom_code(KEY key, const Literals& literal) {
    KeyBits code = ordered_bits(key) ^ (KeyBits)literal.template get<u64>(0);
    if constexpr (sizeof(KEY) == 16) code ^= (KeyBits)((u128)literal.template get<u64>(1) << 64);
    const KeyBits* pivots = (const KeyBits*)literal.template get<u64>(2);
    u32 low = 0, high = (u32)literal.template get<u64>(3);
    u32 pivots_max = high;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (pivots[middle] < code) low = middle + 1;
        else high = middle;
    }
    return 2 * low + (low < pivots_max && pivots[low] == code);
}
";

/// Programs that the tests compile.
pub fn programs() -> Vec<crate::compile::Program> {
    let options = SortOptions::default();
    [radix::<u32>(4, &options), radix::<f64>(4, &options)]
        .into_iter()
        .flatten()
        .map(|base| chunk_radix(&base, [0; 4]).program(false))
        .collect()
}

fn chunk_radix(base: &Radix, literals: [u64; 4]) -> Radix {
    Radix {
        digits: Digits {
            literals,
            first_bit: 0,
            last_bit: 8,
            code_max: 2 * PIVOTS_MAX as u32,
            custom: Some(CHUNK_OF_KEY.to_string()),
        },
        ..base.clone()
    }
}

/// Sorts keys and moves the values along (all the same length). Stable. Allocates one more array of each, and reads
/// pivots and chunk sizes back between splits: for comparison, not for speed.
pub fn quick_sort_pairs<K: SortKey, V: Payload>(
    stream: &Stream,
    keys: DeviceView<'_, K>,
    values: DeviceView<'_, V>,
    mut keys_out: DeviceViewMut<'_, K>,
    mut values_out: DeviceViewMut<'_, V>,
    order: Order,
) -> Result<()> {
    same_len("values", keys.len(), values.len())?;
    same_len("places of keys", keys.len(), keys_out.len())?;
    same_len("places of values", keys.len(), values_out.len())?;
    let options = SortOptions {
        order,
        ..SortOptions::default()
    };
    let base = radix::<K>(size_of::<V>(), &options)?;
    let mut keys_other = stream.alloc::<K>(keys.len())?;
    let mut values_other = stream.alloc::<V>(keys.len())?;
    stream.copy(keys, keys_out.reborrow())?;
    stream.copy(values, values_out.reborrow())?;
    // Chunks still to be split or sorted: start, end, seed of the pivots' choice.
    let mut open = vec![(0, keys.len(), 1u64)];
    let mut offsets = stream.alloc::<u64>(2 * PIVOTS_MAX as u64 + 2)?;
    let mut small = Vec::new();
    while let Some((start, end, seed)) = open.pop() {
        if end - start <= bitonic::TILE {
            small.push((start, end));
            continue;
        }
        let chunk = keys_out.as_view().slice(start..end)?;
        let pivots = choose_pivots::<K>(stream, chunk, order, seed)?;
        let pivots_device = stream.upload(&pivot_bytes::<K>(&pivots))?;
        let flip = &base.digits.literals;
        let literals = [flip[0], flip[1], pivots_device.ptr().0, pivots.len() as u64];
        let split = chunk_radix(&base, literals);
        let at = |address: u64, bytes: usize| address + start * bytes as u64;
        let buffers = Buffers {
            keys_in: at(keys_out.ptr_mut().0, size_of::<K>()),
            keys_temporary: 0,
            keys_out: at(keys_other.ptr_mut().0, size_of::<K>()),
            payload_in: at(values_out.ptr_mut().0, size_of::<V>()),
            payload_temporary: 0,
            payload_out: at(values_other.ptr_mut().0, size_of::<V>()),
            in_place: false,
        };
        let outputs = Outputs {
            offsets: Some(offsets.view_mut()),
            places: 0,
        };
        // SAFETY: parts of arrays that both hold `end` items; the pivots live until the offsets are read back.
        unsafe { split.run(stream, buffers, end - start, outputs)? };
        let range = start..end;
        stream.copy(
            keys_other.slice(range.clone())?,
            keys_out.reborrow().slice(range.clone())?,
        )?;
        stream.copy(values_other.slice(range.clone())?, values_out.reborrow().slice(range)?)?;
        let bounds = stream.download(offsets.view())?;
        for chunk in (0..=2 * pivots.len()).step_by(2) {
            if bounds[chunk] < bounds[chunk + 1] {
                let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(chunk as u64 + 1);
                open.push((start + bounds[chunk], start + bounds[chunk + 1], seed));
            }
        }
    }
    if small.is_empty() {
        return Ok(());
    }
    // The segments lie apart: what is between them is sorted already, so it may be a segment as long as it is skipped
    // or sorted again. Pairs of start and end make segments; odd ones are the gaps.
    small.sort_unstable();
    let mut bounds = vec![small[0].0];
    for (start, end) in small {
        if bounds.last() != Some(&start) {
            bounds.push(start);
        }
        bounds.push(end);
    }
    let bounds_device = stream.upload(&bounds)?;
    let places = Places {
        keys_in: keys_out.ptr_mut().0,
        keys_out: keys_out.ptr_mut().0,
        payload_in: values_out.ptr_mut().0,
        payload_out: values_out.ptr_mut().0,
    };
    let segments = Some((bounds_device.ptr().0, bounds.len() as u64 - 1));
    // SAFETY: the bounds ascend within the arrays.
    unsafe { bitonic::sort_tiles(stream, &base, places, keys.len(), segments, 0) }
}

/// Codes of some keys of the chunk in the wanted order, each once, ascending.
fn choose_pivots<K: SortKey>(stream: &Stream, chunk: DeviceView<'_, K>, order: Order, seed: u64) -> Result<Vec<u128>> {
    // A run of keys at each of a few random places: few small copies.
    const RUNS: u64 = 8;
    let run = (PIVOTS_MAX as u64).div_ceil(RUNS);
    let turned = match order {
        Order::Ascending => 0,
        Order::Descending => u128::MAX >> (128 - K::BITS),
    };
    let mut state = seed;
    let mut pivots = Vec::new();
    for _ in 0..RUNS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 11) % (chunk.len() - run + 1);
        let keys = stream.download(chunk.slice(at..at + run)?)?;
        pivots.extend(keys.iter().map(|key| key.code().wide() ^ turned));
    }
    pivots.truncate(PIVOTS_MAX);
    pivots.sort_unstable();
    pivots.dedup();
    Ok(pivots)
}

/// Codes as the kernel's `KeyBits`: at least four bytes each.
fn pivot_bytes<K: SortKey>(pivots: &[u128]) -> Vec<u8> {
    let bytes = size_of::<K>().max(4);
    pivots
        .iter()
        .flat_map(|pivot| pivot.to_le_bytes().into_iter().take(bytes))
        .collect()
}
