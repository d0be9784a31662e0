//! Sort on the CPU: radix sort by the same digits and with the same order as the GPU's, and comparison sorts.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::partition::{count, partition_unless};
use crate::Stop;
use tenon_gpu::Result;
use tenon_gpu::primitives::fill::Index;
use tenon_gpu::primitives::sort::{Order, RadixCode, SortKey, SortOptions, checked_bits, flip_bits, same_len};

/// Items up to which a comparison sort is faster than passes.
const SMALL: usize = 512;

const RADIX_BITS: u32 = 8;

/// The order of two keys under options: of all their bits.
fn compare<K: SortKey>(order: Order) -> impl Fn(&K, &K) -> Ordering + Copy {
    move |a, b| match order {
        Order::Ascending => a.order(b),
        Order::Descending => b.order(a),
    }
}

/// Sorts keys and moves each key's value along; stable. The options' tuning and portions are the GPU's and are ignored.
/// Allocates one more array of each.
pub fn sort_pairs<K: SortKey, V: Copy + Send + Sync>(
    keys: &[K],
    values: &[V],
    keys_out: &mut [K],
    values_out: &mut [V],
    options: &SortOptions,
) -> Result<()> {
    sort_pairs_unless(Stop::never(), keys, values, keys_out, values_out, options)
}

/// The same, if the work is wanted to its end.
pub fn sort_pairs_unless<K: SortKey, V: Copy + Send + Sync>(
    stop: Stop<'_>,
    keys: &[K],
    values: &[V],
    keys_out: &mut [K],
    values_out: &mut [V],
    options: &SortOptions,
) -> Result<()> {
    same_len("values", keys.len() as u64, values.len() as u64)?;
    same_len("places of keys", keys.len() as u64, keys_out.len() as u64)?;
    same_len("places of values", keys.len() as u64, values_out.len() as u64)?;
    let bits = checked_bits::<K>(&options.bits)?;
    if keys.len() <= SMALL && bits.len() as u32 == K::BITS {
        let by = compare::<K>(options.order);
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_by(|&a, &b| by(&keys[a as usize], &keys[b as usize]));
        for (place, &item) in order.iter().enumerate() {
            keys_out[place] = keys[item as usize];
            values_out[place] = values[item as usize];
        }
        return Ok(());
    }
    // Codes ascend; descending order turns them over.
    let turned = flip_bits::<K>(options.order) ^ flip_bits::<K>(Order::Ascending);
    let passes: Vec<(u32, usize)> = bits
        .clone()
        .step_by(RADIX_BITS as usize)
        .map(|shift| (shift, (1 << RADIX_BITS.min(bits.end - shift)) - 1))
        .filter(|&(shift, mask)| !stop.is_set() && !all_equal(keys, |key| key.code().digit(shift, mask)))
        .collect();
    let digit = |shift: u32, mask: usize| move |key: K| key.code().flip(turned).digit(shift, mask);
    let Some((&(shift, mask), later)) = passes.split_first() else {
        keys_out.copy_from_slice(keys);
        values_out.copy_from_slice(values);
        return stop.check();
    };
    if later.is_empty() {
        partition_unless(stop, keys, values, keys_out, values_out, mask + 1, digit(shift, mask));
        return stop.check();
    }
    // By all cores: the first touch of fresh pages costs as much as a pass.
    let mut temporary: (Vec<K>, Vec<V>) = (keys.par_iter().copied().collect(), values.par_iter().copied().collect());
    // The last pass must end in the output.
    let mut in_output = later.len().is_multiple_of(2);
    {
        let (t, v) = (&mut temporary.0[..], &mut temporary.1[..]);
        let (k, v) = if in_output {
            (&mut *keys_out, &mut *values_out)
        } else {
            (t, v)
        };
        partition_unless(stop, keys, values, k, v, mask + 1, digit(shift, mask));
    }
    for &(shift, mask) in later {
        stop.check()?;
        let (t, v) = (&mut temporary.0, &mut temporary.1);
        if in_output {
            partition_unless(stop, keys_out, values_out, t, v, mask + 1, digit(shift, mask));
        } else {
            partition_unless(stop, t, v, keys_out, values_out, mask + 1, digit(shift, mask));
        }
        in_output = !in_output;
    }
    stop.check()
}

/// Whether all keys share a digit: such a pass would change nothing.
fn all_equal<K: SortKey>(keys: &[K], digit: impl Fn(K) -> usize + Sync) -> bool {
    let first = keys.first().map(|&key| digit(key));
    keys.par_chunks(super::piece_items(keys.len()))
        .all(|keys| keys.iter().all(|&key| Some(digit(key)) == first))
}

/// Sorts keys; see [`sort_pairs`].
pub fn sort_keys<K: SortKey>(keys: &[K], output: &mut [K], options: &SortOptions) -> Result<()> {
    let mut none = vec![(); output.len()];
    sort_pairs(keys, &vec![(); keys.len()], output, &mut none, options)
}

/// The order of the keys as indices, equal keys in input order.
pub fn sort_indices<K: SortKey, I: Index>(keys: &[K], indices: &mut [I], options: &SortOptions) -> Result<()> {
    let numbers: Vec<I> = (0..keys.len() as u64).into_par_iter().map(I::from_low).collect();
    let mut sorted: Vec<K> = keys.par_iter().copied().collect();
    sort_pairs(keys, &numbers, &mut sorted, indices, options)
}

/// Parallel quick sort, the CPU's side of He 2008, table 3. Not stable.
pub fn quick_sort<K: SortKey>(keys: &mut [K], order: Order) {
    keys.par_sort_unstable_by(compare::<K>(order));
}

/// The order of rows under any comparison, as the GPU's sort of columns gives it. Stable.
pub fn sort_rows(indices: &mut [u32], compare: impl Fn(u32, u32) -> Ordering + Sync) {
    indices
        .par_iter_mut()
        .enumerate()
        .for_each(|(place, index)| *index = place as u32);
    indices.par_sort_by(|&a, &b| compare(a, b));
}

/// The order of the strings `bytes[offsets[i]..offsets[i + 1]]` by their bytes, equal ones in input order. Panics if
/// the offsets leave the bytes.
pub fn sort_strings<O: Index>(offsets: &[O], bytes: &[u8], indices: &mut [u32], order: Order) -> Result<()> {
    same_len("offsets", indices.len() as u64 + 1, offsets.len() as u64)?;
    let string = |i: u32| &bytes[offsets[i as usize].to_u64() as usize..offsets[i as usize + 1].to_u64() as usize];
    // Most comparisons end in the first eight bytes, which lie side by side.
    let prefix = |i: u32| {
        let mut word = [0; 8];
        let head = &string(i)[..string(i).len().min(8)];
        word[..head.len()].copy_from_slice(head);
        u64::from_be_bytes(word)
    };
    let mut keyed: Vec<(u64, u32)> = (0..indices.len() as u32)
        .into_par_iter()
        .map(|i| (prefix(i), i))
        .collect();
    keyed.par_sort_by(|a, b| {
        let by = a.0.cmp(&b.0).then_with(|| string(a.1).cmp(string(b.1)));
        if order == Order::Descending { by.reverse() } else { by }
    });
    indices.par_iter_mut().zip(keyed).for_each(|(index, (_, i))| *index = i);
    Ok(())
}

/// Merges two ordered runs, those of `a` first where keys are equal: equal parts of the output by merge path.
pub fn merge_keys<K: SortKey>(a: &[K], b: &[K], output: &mut [K], order: Order) -> Result<()> {
    same_len("places", (a.len() + b.len()) as u64, output.len() as u64)?;
    let by = compare::<K>(order);
    let cut = |diagonal: usize| {
        let (mut low, mut high) = (diagonal.saturating_sub(b.len()), diagonal.min(a.len()));
        while low < high {
            let middle = (low + high) / 2;
            if by(&b[diagonal - 1 - middle], &a[middle]).is_lt() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    };
    let piece = super::piece_items(output.len());
    output.par_chunks_mut(piece).enumerate().for_each(|(number, part)| {
        let mut i = cut(number * piece);
        let mut j = number * piece - i;
        for place in part {
            let from_b = i == a.len() || (j < b.len() && by(&b[j], &a[i]).is_lt());
            *place = if from_b { b[j] } else { a[i] };
            j += from_b as usize;
            i += !from_b as usize;
        }
    });
    Ok(())
}

/// Counts of a digit over all keys, for tests of skew and for planning.
pub fn digit_counts<K: SortKey>(keys: &[K], shift: u32, bits: u32) -> Vec<u64> {
    let mask = (1usize << bits) - 1;
    let piece = super::piece_items(keys.len());
    let counts = count(keys, piece, mask + 1, Stop::never(), |key| {
        key.code().digit(shift, mask)
    });
    let mut sums = vec![0; mask + 1];
    for piece in counts {
        sums.iter_mut().zip(piece).for_each(|(sum, count)| *sum += count as u64);
    }
    sums
}
