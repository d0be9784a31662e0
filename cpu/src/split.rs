//! Split on the CPU: items of equal partition side by side, stable.

use rayon::prelude::*;

use super::partition::partition;
use tenon_gpu::Result;
use tenon_gpu::primitives::fill::Index;
use tenon_gpu::primitives::sort::same_len;

/// Partitions that one pass makes; more take two passes over the number's digits.
const BINS_MAX: usize = 1 << 14;

/// Splits keys and moves the values along. `part` gives a key's partition, below `partitions` (larger numbers count as
/// the last). `offsets` gets the first place of each partition and the end: `partitions + 1` numbers.
pub fn split_pairs<K: Copy + Send + Sync, V: Copy + Send + Sync>(
    keys: &[K],
    values: &[V],
    keys_out: &mut [K],
    values_out: &mut [V],
    offsets: &mut [u64],
    partitions: usize,
    part: impl Fn(K) -> usize + Sync,
) -> Result<()> {
    same_len("values", keys.len() as u64, values.len() as u64)?;
    same_len("places of keys", keys.len() as u64, keys_out.len() as u64)?;
    same_len("places of values", keys.len() as u64, values_out.len() as u64)?;
    same_len("offsets", partitions as u64 + 1, offsets.len() as u64)?;
    let part = |key: K| part(key).min(partitions - 1);
    if partitions <= BINS_MAX {
        let found = partition(keys, values, keys_out, values_out, partitions, part);
        offsets.iter_mut().zip(found).for_each(|(to, from)| *to = from as u64);
        return Ok(());
    }
    // Least significant digit first; both passes are stable.
    let low_bins = 1usize << (usize::BITS - (partitions - 1).leading_zeros()).div_ceil(2);
    let high_bins = partitions.div_ceil(low_bins);
    let mut temporary: (Vec<K>, Vec<V>) = (keys.par_iter().copied().collect(), values.par_iter().copied().collect());
    let (t, v) = (&mut temporary.0, &mut temporary.1);
    partition(keys, values, t, v, low_bins, |key| part(key) % low_bins);
    partition(t, v, keys_out, values_out, high_bins, |key| part(key) / low_bins);
    let keys_out = &*keys_out;
    offsets
        .par_iter_mut()
        .enumerate()
        .for_each(|(p, offset)| *offset = keys_out.partition_point(|&key| part(key) < p) as u64);
    Ok(())
}

/// Splits keys; see [`split_pairs`].
pub fn split_keys<K: Copy + Send + Sync>(
    keys: &[K],
    output: &mut [K],
    offsets: &mut [u64],
    partitions: usize,
    part: impl Fn(K) -> usize + Sync,
) -> Result<()> {
    let mut none = vec![(); output.len()];
    split_pairs(
        keys,
        &vec![(); keys.len()],
        output,
        &mut none,
        offsets,
        partitions,
        part,
    )
}

/// The gather index of a split: for each place, the item that belongs there.
pub fn split_indices<K: Copy + Send + Sync, I: Index>(
    keys: &[K],
    indices: &mut [I],
    offsets: &mut [u64],
    partitions: usize,
    part: impl Fn(K) -> usize + Sync,
) -> Result<()> {
    let numbers: Vec<I> = (0..keys.len() as u64).into_par_iter().map(I::from_low).collect();
    let mut moved: Vec<K> = keys.par_iter().copied().collect();
    split_pairs(keys, &numbers, &mut moved, indices, offsets, partitions, part)
}

/// Splits items of any kind by a function of them, below `partitions`; returns the offsets. Panics if the lengths
/// differ or a number is not below `partitions`.
pub fn split<T: Copy + Send + Sync>(
    input: &[T],
    output: &mut [T],
    partitions: usize,
    part: impl Fn(T) -> usize + Sync,
) -> Vec<usize> {
    let mut none = vec![(); output.len()];
    partition(input, &vec![(); input.len()], output, &mut none, partitions, part)
}
