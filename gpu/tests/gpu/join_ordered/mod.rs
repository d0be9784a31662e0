//! Joins over sorted keys, and nested loops, against plain references.

mod check;
mod css_tree_cpu;
mod input;
mod nested_loop;
mod ranges;
