//! CPU twins of the primitives: the same functions over slices, on all cores of the current rayon pool. They serve
//! where there is no GPU, and as what the GPU is measured against.
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
mod stop;

pub use prefetch::prefetch;
pub use stop::Stop;

/// Items of a piece: a few hundred pieces at most keep all cores busy, and none smaller than is worth a task.
pub(crate) fn piece_items(items: usize) -> usize {
    const PIECE_ITEMS_MIN: usize = 16 << 10;
    items.div_ceil(rayon::current_num_threads() * 8).max(PIECE_ITEMS_MIN)
}
