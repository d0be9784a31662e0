//! Data-parallel primitives over device buffers: one file each, a safe function over one kernel family.

pub mod fill;
pub mod gather;
pub mod map;
pub mod radix;
pub mod reduce;
pub mod scan;
pub mod sort;
pub mod split;
