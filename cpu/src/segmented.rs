//! Segmented reduce on the CPU.

use rayon::prelude::*;

use super::piece_items;
use super::reduce::{fold, reduce};
use super::select::run_length_encode;
use tenon_gpu::memory::Element;
use tenon_gpu::number::{Number, Reduction, Widen};
use tenon_gpu::primitives::fill::Index;

/// Sets `output[s]` to the reduction of `input[offsets[s]..offsets[s + 1]]`; of an empty segment, to the identity.
/// Offsets ascend; those beyond the input count as its end. Panics unless there is one offset more than outputs.
pub fn segmented_reduce<T: Widen<A>, A: Number, I: Index>(
    input: &[T],
    offsets: &[I],
    output: &mut [A],
    reduction: Reduction,
) {
    assert_eq!(offsets.len(), output.len() + 1, "segmented reduce: lengths");
    // Pieces of segments with about the same number of items and segments each; a segment longer than a piece is
    // itself reduced by all cores.
    let work = |s: usize| (offsets[s].to_u64().min(input.len() as u64)) as usize + s;
    let piece = piece_items(input.len() + output.len());
    let mut rest = output;
    let mut pieces = Vec::new();
    let mut first = 0;
    while !rest.is_empty() {
        let target = work(first) + piece;
        let (mut low, mut high) = (first + 1, first + rest.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if work(middle) < target {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (part, after) = rest.split_at_mut(low - first);
        pieces.push((first, part));
        (first, rest) = (low, after);
    }
    pieces.into_par_iter().for_each(|(first, part)| {
        for (i, to) in part.iter_mut().enumerate() {
            let place = |s: usize| (offsets[s].to_u64().min(input.len() as u64)) as usize;
            let items = input.get(place(first + i)..place(first + i + 1)).unwrap_or(&[]);
            *to = match items.len() {
                0..=32 => items
                    .iter()
                    .fold(A::identity(reduction), |a, b| a.combine(b.widen(), reduction)),
                n if n <= piece => fold(items, reduction),
                _ => reduce(items, reduction),
            };
        }
    });
}

/// Reduces the values of each run of equal keys (by their bits); returns the number of runs. Panics if lengths of keys
/// and values differ, or if an output has fewer elements than there are runs.
pub fn reduce_by_key<K: Element, T: Widen<A>, A: Number>(
    keys: &[K],
    values: &[T],
    unique_keys: &mut [K],
    output: &mut [A],
    reduction: Reduction,
) -> u64 {
    assert_eq!(keys.len(), values.len(), "reduce by key: lengths");
    let mut offsets = vec![0u64; keys.len() + 1];
    let runs = run_length_encode(keys, unique_keys, &mut offsets);
    let end = runs as usize;
    assert!(
        unique_keys.len() >= end && output.len() >= end,
        "reduce by key: room for {runs} runs"
    );
    segmented_reduce(values, &offsets[..=end], &mut output[..end], reduction);
    runs
}
