//! Data-parallel primitives over device buffers: one file each, a safe function over one kernel family.

pub mod bitonic;
pub mod expression;
pub mod fill;
pub mod gather;
pub mod gather_bits;
pub mod histogram;
pub mod map;
pub mod merge;
pub mod pieces;
pub mod quick_sort;
pub mod radix;
pub mod read;
pub mod reduce;
pub mod scan;
pub mod search;
pub mod segmented;
pub mod select;
pub mod sort;
pub mod sort_columns;
pub mod sort_records;
pub mod sort_strings;
pub mod split;
