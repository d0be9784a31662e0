//! CPU operators: the GPU's primitives and joins over slices, on all cores of the current rayon pool. They serve where there
//! is no GPU, where it is not worth its while, and as what the GPU is tested and measured against.
//!
//! Of the GPU's crate it knows the element types and errors that both share; it knows no SQL and no device.
//!
//! Work is cut into pieces that fit the second-level cache, so that two-pass algorithms read memory once.

pub mod gather;
pub mod histogram;
pub mod join;
pub mod map;
pub mod partition;
mod prefetch;
pub mod reduce;
pub mod scan;
pub mod search;
pub mod segmented;
pub mod select;
pub mod sort;
pub mod split;

use rayon::prelude::*;

pub use prefetch::prefetch;
pub use tenon_gpu::Stop;

/// `len` copies of a value, written by all cores: one core that clears memory used before takes longer than all cores then
/// take to fill it.
pub fn filled<T: Copy + Send + Sync>(value: T, len: usize) -> Vec<T> {
    const PIECE_ITEMS: usize = 64 << 10;
    // Other threads are not woken for what one does in no time.
    match len <= PIECE_ITEMS {
        true => vec![value; len],
        false => rayon::iter::repeat_n(value, len).with_min_len(PIECE_ITEMS).collect(),
    }
}

/// Items of a piece: a few hundred pieces at most keep all cores busy, and none smaller than is worth a task.
pub(crate) fn piece_items(items: usize) -> usize {
    const PIECE_ITEMS_MIN: usize = 16 << 10;
    items.div_ceil(rayon::current_num_threads() * 8).max(PIECE_ITEMS_MIN)
}
