//! Joins over sorted keys, and nested loops, against plain references.

mod check;
mod input;
mod nested_loop;
mod ranges;
