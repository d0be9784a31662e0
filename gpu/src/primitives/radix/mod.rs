//! One-sweep radix passes (Adinets & Merrill 2022), the core of sort and split.
//!
//! One kernel counts all digits in one read; then every pass reads and writes the data once. A pass works in tiles: a
//! tile ranks its items by digit within warps, publishes its counts, and looks back over the tiles before it for its
//! place in each bin, so no separate scan of counts is needed (contrast Patidar & Narayanan 2009, section 3.1, whose
//! counts go through memory). Passes in which all keys share the digit are dropped on the device, without a
//! round trip to the host.
//!
//! Memory: 1 KiB of descriptors a tile, twice, besides the caller's buffers. Items: any number; launches take
//! portions of 2^28 items, so that 30 bits count a portion.

mod key;
mod launch;
mod tuning;

pub use key::flip_bits;
pub use key::{Order, RadixCode, SortKey};
pub use launch::programs;
pub(crate) use launch::{Buffers, CodeParams, Digits, Outputs, Radix};
pub use tuning::{RadixTuning, tile_items};
