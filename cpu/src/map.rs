//! Map on the CPU.

use rayon::prelude::*;

use super::piece_items;

/// Sets `output[i]` to `f(input[i])`. Panics if lengths differ.
pub fn map<A: Copy + Sync, B: Send>(input: &[A], output: &mut [B], f: impl Fn(A) -> B + Sync) {
    assert_eq!(input.len(), output.len(), "map: lengths");
    let piece = piece_items(input.len());
    input
        .par_chunks(piece)
        .zip(output.par_chunks_mut(piece))
        .for_each(|(input, output)| {
            for (to, &from) in output.iter_mut().zip(input) {
                *to = f(from);
            }
        });
}
