//! Split and sort on the CPU: the twins of `primitives::split` and `primitives::sort`.

use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};

use rayon::prelude::*;

/// Bytes of a partition's buffer: a cache line is written whole, so that scattering to many partitions does not read
/// each line before it writes it, and touches each page of the output once in a while only.
const LINE_BYTES: usize = 64;

/// Splits stably: items whose `partition` is equal lie side by side in `output`, partitions ascending. Returns the
/// offsets of the partitions, one more than there are. `partition` gives numbers below `partitions`.
///
/// Each core counts a piece, then writes it to the places that the counts of all pieces leave for it (He 2008, section
/// 3.1.4), through buffers of one cache line a partition.
///
/// # Panics
/// If the lengths differ, or a partition's number is not below `partitions`.
pub fn split<T: Copy + Send + Sync>(
    input: &[T],
    output: &mut [T],
    partitions: usize,
    partition: impl Fn(T) -> usize + Sync,
) -> Vec<usize> {
    assert_eq!(input.len(), output.len(), "split: lengths");
    let piece = input.len().div_ceil(rayon::current_num_threads()).max(1 << 14);
    let counts: Vec<Vec<usize>> = input
        .par_chunks(piece)
        .map(|items| {
            let mut counts = vec![0; partitions];
            items.iter().for_each(|&item| counts[partition(item)] += 1);
            counts
        })
        .collect();
    let mut offsets = Vec::with_capacity(partitions + 1);
    let mut ranges: Vec<Vec<Range<usize>>> = counts.iter().map(|_| Vec::with_capacity(partitions)).collect();
    let mut at = 0;
    for p in 0..partitions {
        offsets.push(at);
        for (ranges, counts) in ranges.iter_mut().zip(&counts) {
            ranges.push(at..at + counts[p]);
            at += counts[p];
        }
    }
    offsets.push(at);
    let target = AtomicPtr::new(output.as_mut_ptr());
    input.par_chunks(piece).zip(ranges).for_each(|(items, places)| {
        let target = target.load(Ordering::Relaxed);
        // SAFETY: the places of all pieces and partitions are disjoint ranges of the output.
        unsafe { scatter(items, places, target, &partition) };
    });
    offsets
}

/// Writes each item to its partition's next place.
///
/// # Safety
/// `places` lie within `target`, and nobody else uses them.
unsafe fn scatter<T: Copy>(items: &[T], mut places: Vec<Range<usize>>, target: *mut T, partition: impl Fn(T) -> usize) {
    let Some(&first) = items.first() else { return };
    let line = (LINE_BYTES / size_of::<T>().max(1)).max(1);
    let mut buffered = vec![0usize; places.len()];
    let mut buffers = vec![first; places.len() * line];
    let mut flush = |p: usize, buffer: &[T]| {
        let start = places[p].start;
        // A `partition` that does not give the number that it gave when items were counted would write elsewhere.
        assert!(
            buffer.len() <= places[p].len(),
            "split: the partition of an item changed"
        );
        // SAFETY: the caller's promise, and the room was just checked.
        unsafe { std::ptr::copy_nonoverlapping(buffer.as_ptr(), target.add(start), buffer.len()) };
        places[p].start += buffer.len();
    };
    for &item in items {
        let p = partition(item);
        let buffer = &mut buffers[p * line..(p + 1) * line];
        buffer[buffered[p]] = item;
        buffered[p] += 1;
        if buffered[p] == line {
            flush(p, buffer);
            buffered[p] = 0;
        }
    }
    for (p, &count) in buffered.iter().enumerate() {
        flush(p, &buffers[p * line..p * line + count]);
    }
}

/// Bits of the first digit of [`sort_by_bits`].
const DIGIT_BITS: u32 = 8;

/// Sorts items by an unsigned key of `bits` bits. Not stable. A split by the top digit makes partitions that fit the
/// caches of one core, which sorts them alone; a large partition is split further.
pub fn sort_by_bits<T: Copy + Send + Sync>(items: &mut [T], bits: u32, key: impl Fn(T) -> u64 + Sync) {
    let mut spare = items.to_vec();
    sort_in(items, &mut spare, bits, &key);
}

fn sort_in<T: Copy + Send + Sync>(items: &mut [T], spare: &mut [T], bits: u32, key: &(impl Fn(T) -> u64 + Sync)) {
    const CACHE_ITEMS: usize = 1 << 15;
    if items.len() <= CACHE_ITEMS || bits == 0 {
        items.sort_unstable_by_key(|&item| key(item));
        return;
    }
    let digit = DIGIT_BITS.min(bits);
    let rest = bits - digit;
    let mask = (1u64 << digit) - 1;
    let offsets = split(items, spare, 1 << digit, |item| (key(item) >> rest & mask) as usize);
    let (mut sources, mut targets): (Vec<&mut [T]>, Vec<&mut [T]>) = (Vec::new(), Vec::new());
    let (mut items, mut spare) = (items, spare);
    for part in offsets.windows(2) {
        let (target, items_rest) = items.split_at_mut(part[1] - part[0]);
        let (source, spare_rest) = spare.split_at_mut(part[1] - part[0]);
        targets.push(target);
        sources.push(source);
        (items, spare) = (items_rest, spare_rest);
    }
    targets.into_par_iter().zip(sources).for_each(|(target, source)| {
        target.copy_from_slice(source);
        sort_in(target, source, rest, key);
    });
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::{sort_by_bits, split};

    #[test]
    fn splits_stably_and_sorts() {
        let mut rng = StdRng::seed_from_u64(crate::testing::seed("cpu split"));
        for items in [0usize, 1, 2, 1000, 40_000, 300_001] {
            for partitions in [1usize, 7, 256, 1000] {
                let input: Vec<(u64, u32)> = (0..items as u32).map(|i| (rng.random(), i)).collect();
                let mut output = vec![(0, 0); items];
                let of = |item: (u64, u32)| (item.0 % partitions as u64) as usize;
                let offsets = split(&input, &mut output, partitions, of);
                let mut expected = input.clone();
                expected.sort_by_key(|&item| of(item));
                assert_eq!(output, expected);
                assert_eq!(
                    (offsets.len(), offsets[0], offsets[partitions]),
                    (partitions + 1, 0, items)
                );
                for (p, part) in offsets.windows(2).enumerate() {
                    assert!(output[part[0]..part[1]].iter().all(|&item| of(item) == p));
                }
            }
            for equal in [false, true] {
                let mut numbers: Vec<u64> = (0..items).map(|_| if equal { 5 } else { rng.random() }).collect();
                let mut expected = numbers.clone();
                expected.sort_unstable();
                sort_by_bits(&mut numbers, 64, |x| x);
                assert!(numbers == expected);
            }
        }
    }
}
