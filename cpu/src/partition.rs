//! One stable pass of partitioning, the core of the CPU's sort and split.
//!
//! Each piece of the input counts its bins; sums over pieces give each piece its place in each bin; then each piece
//! writes its items. Items are first collected by bin in buffers of a cache line or a few, which are written whole
//! (software write combining): otherwise every item would touch another page and half-written lines would come and go.

use rayon::prelude::*;

use crate::Stop;

/// Items of a bin that are collected before they are written.
const BUFFER_ITEMS: usize = 16;

/// Bins up to which collecting pays: the buffers must stay in the second-level cache.
const BUFFERED_BINS_MAX: usize = 4096;

/// A slice that tasks write to at places of their own.
struct Target<T>(*mut T, usize);

// SAFETY: tasks write disjoint places, and nothing reads before all are done.
unsafe impl<T: Send> Send for Target<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Target<T> {}

impl<T: Copy> Target<T> {
    fn new(slice: &mut [T]) -> Target<T> {
        Target(slice.as_mut_ptr(), slice.len())
    }

    /// # Safety
    /// No other task writes these places.
    #[inline(always)]
    unsafe fn write(&self, at: usize, items: &[T]) {
        assert!(
            at + items.len() <= self.1,
            "a partition function that changes its answers"
        );
        // SAFETY: in bounds as asserted, and the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), self.0.add(at), items.len()) }
    }
}

/// Counts of each bin, by piece of `piece` items.
pub(super) fn count<K: Copy + Sync>(
    keys: &[K],
    piece: usize,
    bins: usize,
    stop: Stop<'_>,
    bin: impl Fn(K) -> usize + Sync,
) -> Vec<Vec<usize>> {
    keys.par_chunks(piece)
        .map(|keys| {
            let mut counts = vec![0; bins];
            if !stop.is_set() {
                keys.iter().for_each(|&key| counts[bin(key)] += 1);
            }
            counts
        })
        .collect()
}

/// [`partition_unless`], to the end.
pub(crate) fn partition<K: Copy + Send + Sync, V: Copy + Send + Sync>(
    keys: &[K],
    values: &[V],
    keys_out: &mut [K],
    values_out: &mut [V],
    bins: usize,
    bin: impl Fn(K) -> usize + Sync,
) -> Vec<usize> {
    partition_unless(Stop::never(), keys, values, keys_out, values_out, bins, bin)
}

/// Writes keys and values side by side by bin, in input order within each, and returns the first place of each bin and
/// the end. `bin` must be below `bins`, else this panics; all slices are of one length. Once the work is no longer
/// wanted, what comes out is anything.
pub fn partition_unless<K: Copy + Send + Sync, V: Copy + Send + Sync>(
    stop: Stop<'_>,
    keys: &[K],
    values: &[V],
    keys_out: &mut [K],
    values_out: &mut [V],
    bins: usize,
    bin: impl Fn(K) -> usize + Sync,
) -> Vec<usize> {
    let lengths = [values.len(), keys_out.len(), values_out.len()];
    assert!(lengths.iter().all(|&len| len == keys.len()), "partition: lengths");
    let piece = super::piece_items(keys.len()).max(bins * 16);
    let mut places = count(keys, piece, bins, stop, &bin);
    let mut offsets = Vec::with_capacity(bins + 1);
    let mut next = 0;
    for b in 0..bins {
        offsets.push(next);
        for counts in &mut places {
            next += std::mem::replace(&mut counts[b], next);
        }
    }
    offsets.push(next);
    let target = (Target::new(keys_out), Target::new(values_out));
    let target = &target;
    let pieces = keys.par_chunks(piece).zip(values.par_chunks(piece)).zip(places);
    pieces.for_each(|((keys, values), mut places)| {
        // A piece that is not counted has no places: it is not written either, as the flag stays set.
        if stop.is_set() {
            return;
        }
        if bins > BUFFERED_BINS_MAX || keys.len() < bins * BUFFER_ITEMS {
            for (key, value) in keys.iter().zip(values) {
                let at = &mut places[bin(*key)];
                // SAFETY: the counts give every item of every piece a place of its own.
                unsafe {
                    target.0.write(*at, std::slice::from_ref(key));
                    target.1.write(*at, std::slice::from_ref(value));
                }
                *at += 1;
            }
            return;
        }
        let mut buffers = vec![([keys[0]; BUFFER_ITEMS], [values[0]; BUFFER_ITEMS]); bins];
        let mut filled = vec![0u8; bins];
        for (&key, &value) in keys.iter().zip(values) {
            let b = bin(key);
            let buffer = &mut buffers[b];
            let at = filled[b] as usize;
            buffer.0[at] = key;
            buffer.1[at] = value;
            if at + 1 < BUFFER_ITEMS {
                filled[b] += 1;
                continue;
            }
            // SAFETY: as above.
            unsafe {
                target.0.write(places[b], &buffer.0);
                target.1.write(places[b], &buffer.1);
            }
            places[b] += BUFFER_ITEMS;
            filled[b] = 0;
        }
        for (b, &at) in filled.iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                target.0.write(places[b], &buffers[b].0[..at as usize]);
                target.1.write(places[b], &buffers[b].1[..at as usize]);
            }
        }
    });
    offsets
}
