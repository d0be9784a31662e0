//! The CPU operators against the standard library. As what the GPU's results are compared with they are in the GPU's tests.

mod css_tree;
mod sort;
