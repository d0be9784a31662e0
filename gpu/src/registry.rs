//! Every program of the crate, with its specialisations: the tests compile each for every supported architecture.

use std::path::Path;

use rayon::prelude::*;

pub use crate::compile::ARCHITECTURES;
use crate::compile::{Cache, Nvrtc, Program};
use crate::error::{GpuError, Result};
use crate::{join, pipeline, primitives};

/// All programs. One line a family.
pub fn programs() -> Vec<Program> {
    let families: &[fn() -> Vec<Program>] = &[
        primitives::fill::programs,
        primitives::gather::programs,
        primitives::gather_bits::programs,
        primitives::histogram::programs,
        primitives::map::programs,
        primitives::reduce::programs,
        primitives::scan::programs,
        primitives::radix::programs,
        primitives::split::programs,
        primitives::search::programs,
        primitives::segmented::programs,
        primitives::select::programs,
        primitives::bitonic::programs,
        primitives::merge::programs,
        primitives::pieces::programs,
        primitives::quick_sort::programs,
        primitives::sort_columns::programs,
        primitives::sort_strings::programs,
        join::hash::programs,
        join::css_tree::programs,
        join::spans::programs,
        join::expand::programs,
        join::band::programs,
        join::nested_loop::programs,
        join::triton::programs,
        pipeline::programs,
    ];
    families.iter().flat_map(|family| family()).collect()
}

/// Compiles all programs by this NVRTC for these architectures into the cache, so that a device of theirs with the
/// same NVRTC finds them there. Needs no GPU. Returns how many programs there are for each architecture.
pub fn compile_all_kernels(nvrtc_library: &Path, architectures: &[u32], cache: &Cache) -> Result<usize> {
    let programs = programs();
    for &architecture in architectures {
        let nvrtc = Nvrtc::load_from(nvrtc_library, architecture, u32::MAX)
            .map_err(|reason| GpuError::Invalid(format!("NVRTC {}: {reason}", nvrtc_library.display())))?;
        programs
            .par_iter()
            .try_for_each(|program| cache.get(&nvrtc, program).map(drop))?;
    }
    Ok(programs.len())
}
