//! All tests of the crate that need more than one module, as one binary: one link, one process.
//!
//! They run on the simulator; `TENON_DEVICE=cuda` runs those that are not about the simulator itself on the GPU.

mod compile_all;
mod cuda_probe;
mod data;
mod faults;
mod join;
mod join_ordered;
mod join_triton;
mod pool;
mod primitives_basic;
mod simulator;
mod sort;
mod sort_columns;
mod sort_others;
mod split;
mod transfer;

use tenon_gpu::primitives::expression::Expression;

/// An expression of this program's own.
fn expression(text: &str) -> Expression<'_> {
    // SAFETY: all that is given here computes with its arguments and literals alone.
    unsafe { Expression::new(text) }
}
