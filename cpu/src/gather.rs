//! Gather and scatter on the CPU.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use rayon::prelude::*;

use super::piece_items;
use tenon_gpu::memory::Element;
use tenon_gpu::primitives::fill::Index;

/// Items that are looked up together: enough independent misses for the memory system, unrolled by the compiler.
const BATCH: usize = 16;

/// Sets `output[i]` to `source[indexes[i]]`, or to `missing` where the index is outside of `source`. Panics if
/// lengths differ.
pub fn gather<T: Element, I: Index>(source: &[T], indexes: &[I], output: &mut [T], missing: T) {
    assert_eq!(indexes.len(), output.len(), "gather: lengths");
    let piece = piece_items(indexes.len());
    let pieces = indexes.par_chunks(piece).zip(output.par_chunks_mut(piece));
    pieces.for_each(|(indexes, output)| {
        for (indexes, output) in indexes.chunks(BATCH).zip(output.chunks_mut(BATCH)) {
            for (to, index) in output.iter_mut().zip(indexes) {
                *to = source.get(index.to_u64() as usize).copied().unwrap_or(missing);
            }
        }
    });
}

/// Sets `output[indexes[i]]` to `input[i]`; drops items whose index is outside of `output`. Of items with the same
/// index one wins, word by word. Panics if lengths differ.
pub fn scatter<T: Element, I: Index>(input: &[T], indexes: &[I], output: &mut [T]) {
    assert_eq!(indexes.len(), input.len(), "scatter: lengths");
    let target = Target {
        address: AtomicPtr::new(output.as_mut_ptr().cast()),
        len: output.len() as u64,
        slice: PhantomData,
    };
    let piece = piece_items(indexes.len());
    input
        .par_chunks(piece)
        .zip(indexes.par_chunks(piece))
        .for_each(|(input, indexes)| {
            for (&item, index) in input.iter().zip(indexes) {
                target.write(index.to_u64(), item);
            }
        });
}

/// Sets bit `i` of `output` to bit `indexes[i]` of `bits` (all set if there are none), and to 0 where the index is not
/// below `source_items`. Panics unless `output` has a word for each 32 indexes and `bits` one for each 32 rows.
pub fn gather_bits<I: Index>(bits: Option<&[u32]>, source_items: u64, indexes: &[I], output: &mut [u32]) {
    assert_eq!(output.len(), indexes.len().div_ceil(32), "gather of bits: lengths");
    let piece = piece_items(indexes.len()).next_multiple_of(32);
    let pieces = indexes.par_chunks(piece).zip(output.par_chunks_mut(piece / 32));
    pieces.for_each(|(indexes, output)| {
        for (word, indexes) in output.iter_mut().zip(indexes.chunks(32)) {
            let is_set = |index: u64| {
                index < source_items && bits.is_none_or(|bits| bits[index as usize / 32] >> (index % 32) & 1 == 1)
            };
            let bits = indexes.iter().enumerate();
            *word = bits.fold(0, |word, (i, index)| word | (is_set(index.to_u64()) as u32) << i);
        }
    });
}

/// A slice that tasks write to by relaxed atomic stores, which cost what plain ones do, so that equal indexes are no
/// data race.
struct Target<'a, T> {
    address: AtomicPtr<u8>,
    len: u64,
    slice: PhantomData<&'a mut [T]>,
}

impl<T: Element> Target<'_, T> {
    #[inline]
    fn write(&self, at: u64, value: T) {
        if at >= self.len {
            return;
        }
        let word = align_of::<T>().min(8);
        let target = self
            .address
            .load(Ordering::Relaxed)
            .wrapping_add(at as usize * size_of::<T>());
        let source = (&raw const value).cast::<u8>();
        for offset in (0..size_of::<T>()).step_by(word) {
            // SAFETY: `at` is in range, so both lie within an element; words of at most its alignment are aligned; the
            // slice is borrowed for as long as the tasks run, and they access it by these atomics only.
            unsafe {
                let (to, from) = (target.add(offset), source.add(offset));
                match word {
                    1 => AtomicU8::from_ptr(to).store(from.read(), Ordering::Relaxed),
                    2 => AtomicU16::from_ptr(to.cast()).store(from.cast::<u16>().read(), Ordering::Relaxed),
                    4 => AtomicU32::from_ptr(to.cast()).store(from.cast::<u32>().read(), Ordering::Relaxed),
                    _ => AtomicU64::from_ptr(to.cast()).store(from.cast::<u64>().read(), Ordering::Relaxed),
                }
            }
        }
    }
}
