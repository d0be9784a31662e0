//! The join operators on the CPU (He 2008, section 4): the same keys, the same pairs, on the host's cores.
//!
//! | what | where |
//! | --- | --- |
//! | what an operator does; keys and rows of one input | [`Matcher`], [`Side`] |
//! | NINLJ; cross join | [`NestedLoopMatcher`], [`CrossMatcher`] |
//! | INLJ, SMJ, bands, inequalities: spans of a sorted build side | [`RangeMatcher`], [`Probe`], [`CssTree`] |
//! | hash joins | [`hash`], [`radix`] |

mod css_tree;
pub mod hash;
mod matcher;
mod nested_loop;
pub mod radix;
mod ranges;
mod side;

pub use css_tree::{CssKey, CssTree};
pub use matcher::{Emit, Matcher, PAIRS_MAX};
pub use nested_loop::{CrossMatcher, NestedLoopMatcher};
pub use ranges::{Probe, RangeMatcher, Wanted};
pub use side::Side;
