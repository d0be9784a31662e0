//! Every program of the crate, with its specialisations: the tests compile each for every supported architecture.

use crate::compile::Program;
use crate::primitives;

/// Architectures that every program must compile for: Ampere, Hopper, Blackwell.
pub const ARCHITECTURES: [u32; 3] = [80, 90, 100];

/// All programs. One line a family.
pub fn programs() -> Vec<Program> {
    let families: &[fn() -> Vec<Program>] = &[
        primitives::fill::programs,
        primitives::gather::programs,
        primitives::map::programs,
        primitives::reduce::programs,
        primitives::scan::programs,
    ];
    families.iter().flat_map(|family| family()).collect()
}
