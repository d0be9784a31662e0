//! Ranges and multiranges: constructors, the functions of their parts, operators and aggregates.
//!
//! - `values`: arguments as ranges and as keys of bounds;
//! - `construct`: `int4range(1, 10)`, `int4multirange(...)`;
//! - `parts`: `lower`, `isempty` and others of one value;
//! - `operators`: what operators are, under names that no client can write;
//! - `aggregate`: `range_agg`, `range_intersect_agg`.

mod aggregate;
mod construct;
mod operators;
mod parts;
mod values;

pub(super) use aggregate::functions as aggregates;
pub(crate) use construct::constructor;
pub(super) use operators::{operator, with_parameters};
pub(crate) use parts::{converted, converts};

use datafusion::logical_expr::ScalarUDF;

pub(super) fn functions() -> Vec<ScalarUDF> {
    [construct::functions(), parts::functions()].concat()
}
