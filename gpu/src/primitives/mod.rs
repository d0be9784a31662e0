//! Data-parallel primitives over device buffers: one file each, a safe function over one kernel family.

pub mod fill;
pub mod gather;
pub mod histogram;
pub mod map;
pub mod radix;
pub mod reduce;
pub mod scan;
pub mod search;
pub mod segmented;
pub mod select;
pub mod sort;
pub mod split;
