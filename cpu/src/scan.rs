//! Prefix scan on the CPU, in blocks: reduce each piece, scan the sums, scan each piece.
//!
//! A round takes one piece of cache size for each thread, so that the second pass over it reads the cache.

use rayon::prelude::*;

use super::reduce::fold;
use tenon_gpu::number::{Number, Reduction, Widen};

/// Bytes of input that one thread scans at a time: within a second-level cache.
const PIECE_BYTES: usize = 256 << 10;

/// `output[i]` becomes the reduction of `input[..i]`; an output element more than there are items becomes the
/// reduction of all. Panics on other lengths.
pub fn exclusive_scan<T: Widen<A>, A: Number>(input: &[T], output: &mut [A], reduction: Reduction) {
    assert!(
        output.len() == input.len() || output.len() == input.len() + 1,
        "exclusive scan: lengths"
    );
    let total = scan(input, &mut output[..input.len()], reduction, false);
    if let Some(last) = output.get_mut(input.len()) {
        *last = total;
    }
}

/// `output[i]` becomes the reduction of `input[..=i]`. Panics if lengths differ.
pub fn inclusive_scan<T: Widen<A>, A: Number>(input: &[T], output: &mut [A], reduction: Reduction) {
    assert_eq!(output.len(), input.len(), "inclusive scan: lengths");
    scan(input, output, reduction, true);
}

/// Scans and returns the reduction of all.
fn scan<T: Widen<A>, A: Number>(input: &[T], output: &mut [A], reduction: Reduction, inclusive: bool) -> A {
    let threads = rayon::current_num_threads();
    let piece = (PIECE_BYTES / size_of::<T>().max(1)).max(1);
    let mut before = A::identity(reduction);
    if threads == 1 || input.len() <= piece {
        return scan_piece(input, output, before, reduction, inclusive);
    }
    for (input, output) in input.chunks(piece * threads).zip(output.chunks_mut(piece * threads)) {
        let mut sums: Vec<A> = input.par_chunks(piece).map(|p| fold(p, reduction)).collect();
        for sum in &mut sums {
            (*sum, before) = (before, before.combine(*sum, reduction));
        }
        let pieces = input.par_chunks(piece).zip(output.par_chunks_mut(piece)).zip(&sums);
        pieces.for_each(|((input, output), &before)| {
            scan_piece(input, output, before, reduction, inclusive);
        });
    }
    before
}

fn scan_piece<T: Widen<A>, A: Number>(
    input: &[T],
    output: &mut [A],
    mut before: A,
    reduction: Reduction,
    inclusive: bool,
) -> A {
    for (to, from) in output.iter_mut().zip(input) {
        let next = before.combine(from.widen(), reduction);
        *to = if inclusive { next } else { before };
        before = next;
    }
    before
}
