//! Reduce on the CPU.

use rayon::prelude::*;

use super::piece_items;
use tenon_gpu::number::{Number, Reduction, Widen};

/// The reduction of the input, accumulated as `A`; of no items, the identity. The same result in every run on as many
/// threads.
pub fn reduce<T: Widen<A>, A: Number>(input: &[T], reduction: Reduction) -> A {
    let partials: Vec<A> = input
        .par_chunks(piece_items(input.len()))
        .map(|piece| match reduction {
            Reduction::Sum => fold(piece, Reduction::Sum),
            Reduction::Min => fold(piece, Reduction::Min),
            Reduction::Max => fold(piece, Reduction::Max),
        })
        .collect();
    partials
        .iter()
        .fold(A::identity(reduction), |a, &b| a.combine(b, reduction))
}

/// Eight accumulators, so that the compiler can use vector registers and the additions do not wait for one another.
#[inline(always)]
pub(super) fn fold<T: Widen<A>, A: Number>(piece: &[T], reduction: Reduction) -> A {
    let mut sums = [A::identity(reduction); 8];
    let (rows, rest) = piece.as_chunks::<8>();
    for row in rows {
        for (sum, item) in sums.iter_mut().zip(row) {
            *sum = sum.combine(item.widen(), reduction);
        }
    }
    let sum = rest.iter().fold(sums[0], |a, b| a.combine(b.widen(), reduction));
    sums[1..].iter().fold(sum, |a, &b| a.combine(b, reduction))
}
