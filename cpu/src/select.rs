//! Select, partition, unique and run-length encode on the CPU: count each piece, scan the counts, write each piece.
//!
//! All are stable and return how many items they chose; the outputs take as many as they have room for.

use rayon::prelude::*;

use super::piece_items;
use tenon_gpu::memory::Element;
use tenon_gpu::primitives::fill::Index;

/// Writes `make(i)` for each `i` below `items` that is chosen, in order, and returns how many are.
fn compact<O: Send>(
    items: usize,
    output: &mut [O],
    chosen: impl Fn(usize) -> bool + Sync,
    make: impl Fn(usize) -> O + Sync,
) -> u64 {
    let piece = piece_items(items);
    let starts: Vec<usize> = (0..items).step_by(piece).collect();
    let range = |&start: &usize| start..(start + piece).min(items);
    let counts: Vec<usize> = starts
        .par_iter()
        .map(|s| range(s).map(|i| chosen(i) as usize).sum())
        .collect();
    let mut rest = output;
    let mut parts = Vec::with_capacity(starts.len());
    for (start, &count) in starts.iter().zip(&counts) {
        let (part, after) = rest.split_at_mut(count.min(rest.len()));
        parts.push((start, part));
        rest = after;
    }
    parts.into_par_iter().for_each(|(start, part)| {
        let mut rank = 0;
        let range = range(start);
        for first in range.clone().step_by(64) {
            // A mask without branches, then its bits: random choices would defeat the branch predictor.
            let last = (first + 64).min(range.end);
            let mut mask = (first..last).fold(0u64, |mask, i| mask | (chosen(i) as u64) << (i - first));
            while mask != 0 {
                match part.get_mut(rank) {
                    Some(to) => *to = make(first + mask.trailing_zeros() as usize),
                    None => return,
                }
                mask &= mask - 1;
                rank += 1;
            }
        }
    });
    counts.iter().sum::<usize>() as u64
}

/// Writes the items whose flag is not 0. Panics if lengths differ.
pub fn select_by_flags<T: Element>(input: &[T], flags: &[u8], output: &mut [T]) -> u64 {
    assert_eq!(input.len(), flags.len(), "select: lengths");
    compact(input.len(), output, |i| flags[i] != 0, |i| input[i])
}

/// Writes the items that fulfil the predicate.
pub fn select_where<T: Element>(input: &[T], output: &mut [T], predicate: impl Fn(T) -> bool + Sync) -> u64 {
    compact(input.len(), output, |i| predicate(input[i]), |i| input[i])
}

/// Writes the indexes of flags that are not 0.
pub fn select_indexes<I: Index>(flags: &[u8], output: &mut [I]) -> u64 {
    compact(flags.len(), output, |i| flags[i] != 0, |i| I::from_low(i as u64))
}

/// Writes the indexes of items that fulfil the predicate.
pub fn select_indexes_where<T: Element, I: Index>(
    input: &[T],
    output: &mut [I],
    predicate: impl Fn(T) -> bool + Sync,
) -> u64 {
    compact(input.len(), output, |i| predicate(input[i]), |i| I::from_low(i as u64))
}

/// Writes the items whose flag is not 0 to `selected`, the others to `rejected`. Panics if lengths differ.
pub fn partition_by_flags<T: Element>(input: &[T], flags: &[u8], selected: &mut [T], rejected: &mut [T]) -> u64 {
    assert_eq!(input.len(), flags.len(), "partition: lengths");
    compact(input.len(), rejected, |i| flags[i] == 0, |i| input[i]);
    select_by_flags(input, flags, selected)
}

/// Writes the items that fulfil the predicate to `selected`, the others to `rejected`.
pub fn partition_where<T: Element>(
    input: &[T],
    selected: &mut [T],
    rejected: &mut [T],
    predicate: impl Fn(T) -> bool + Sync,
) -> u64 {
    compact(input.len(), rejected, |i| !predicate(input[i]), |i| input[i]);
    select_where(input, selected, predicate)
}

/// Whether item `i` differs in its bits from the one before it.
fn changes<T: Element>(input: &[T], i: usize) -> bool {
    i == 0 || bytes_of(&input[i]) != bytes_of(&input[i - 1])
}

fn bytes_of<T: Element>(item: &T) -> &[u8] {
    // SAFETY: an element is plain data without padding.
    unsafe { std::slice::from_raw_parts((&raw const *item).cast(), size_of::<T>()) }
}

/// Writes each item that differs in its bits from the one before it.
pub fn unique<T: Element>(input: &[T], output: &mut [T]) -> u64 {
    compact(input.len(), output, |i| changes(input, i), |i| input[i])
}

/// Writes the value of each run of equal items, and the runs' offsets: one more than there are runs, the last being
/// the number of items.
pub fn run_length_encode<T: Element, I: Index>(input: &[T], values: &mut [T], offsets: &mut [I]) -> u64 {
    unique(input, values);
    let runs = compact(input.len(), offsets, |i| changes(input, i), |i| I::from_low(i as u64));
    if let Some(end) = offsets.get_mut(runs as usize) {
        *end = I::from_low(input.len() as u64);
    }
    runs
}
