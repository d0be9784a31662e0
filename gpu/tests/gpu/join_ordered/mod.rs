//! Joins over sorted keys, and nested loops, against plain references.

mod css_tree_cpu;
