//! Search of many probes in a sorted array on the CPU: binary, a batch of probes in step so that their cache misses
//! overlap.

use rayon::prelude::*;

use super::piece_items;
use tenon_gpu::number::Number;
use tenon_gpu::primitives::fill::Index;

/// Probes searched in step: about as many misses as a core has outstanding.
const BATCH: usize = 16;

/// Whether `a` comes before `b` in a sorted array: NaN last.
#[expect(clippy::eq_op, reason = "a NaN differs from itself")]
fn sorts_before<T: Number>(a: T, b: T) -> bool {
    (a < b) | ((b != b) & (a == a))
}

/// Sets `output[i]` to the first place in `sorted` whose key is not below `probes[i]`. Panics if lengths differ.
pub fn lower_bound<T: Number, I: Index>(sorted: &[T], probes: &[T], output: &mut [I]) {
    search(sorted, probes, output, |key, probe| sorts_before(key, probe));
}

/// Sets `output[i]` to the first place in `sorted` whose key is above `probes[i]`. Panics if lengths differ.
pub fn upper_bound<T: Number, I: Index>(sorted: &[T], probes: &[T], output: &mut [I]) {
    search(sorted, probes, output, |key, probe| !sorts_before(probe, key));
}

/// Both bounds. Panics if lengths differ.
pub fn equal_range<T: Number, I: Index>(sorted: &[T], probes: &[T], lower: &mut [I], upper: &mut [I]) {
    lower_bound(sorted, probes, lower);
    upper_bound(sorted, probes, upper);
}

fn search<T: Number, I: Index>(sorted: &[T], probes: &[T], output: &mut [I], lies_after: impl Fn(T, T) -> bool + Sync) {
    assert_eq!(probes.len(), output.len(), "search: lengths");
    let piece = piece_items(probes.len()) / BATCH * BATCH;
    let pieces = probes.par_chunks(piece).zip(output.par_chunks_mut(piece));
    pieces.for_each(|(probes, output)| {
        for (probes, output) in probes.chunks(BATCH).zip(output.chunks_mut(BATCH)) {
            let mut base = [0usize; BATCH];
            let mut length = sorted.len();
            while length > 0 {
                let step = length / 2 + 1;
                for (base, &probe) in base.iter_mut().zip(probes) {
                    // Without a branch, which random probes would mispredict.
                    let at = *base + step - 1;
                    let after = lies_after(sorted[at.min(sorted.len() - 1)], probe) & (at < sorted.len());
                    *base += step * after as usize;
                }
                length = step - 1;
            }
            for (to, &base) in output.iter_mut().zip(&base) {
                *to = I::from_low(base as u64);
            }
        }
    });
}
