//! CPU twins of the join operators (He 2008, section 4): the same keys, the same pairs, on the host's cores.

mod css_tree;
pub mod hash;
mod matcher;
pub mod radix;

pub use css_tree::{CssKey, CssTree};
pub use matcher::{Emit, Matcher, PAIRS_MAX};
