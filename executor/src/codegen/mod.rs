//! Expressions as C++ for generated kernels.
//!
//! ```text
//! columns   -> arrays that go to the device as they are (inputs), or what a kernel loads by itself (given)
//! literals  -> parameters of the kernel
//! the rest  -> lines of C++ over values (translator; logic, compare, arithmetic, numbers, texts): names, with whether
//!              they are null and what they can be (value, types)
//! order     -> a word by which rows come in the order of a value
//! ```
//!
//! Truth has SQL's three values. Numbers carry the range that the columns at hand prove, so that most arithmetic needs no
//! check. Where an operation may have no value (an overflow, a division by zero), the kernel raises a flag, its results are
//! thrown away, and the CPU does the work: it raises the error, or none, as if there were no device. What has no device form
//! is refused with the reason.

mod arithmetic;
mod compare;
mod evaluate;
mod given;
mod inputs;
mod logic;
mod numbers;
mod numerics;
mod order;
mod texts;
mod translator;
mod types;
mod value;

pub use given::Given;
pub use order::Ordered;
pub use translator::{Inputs, NARROW_MAX, Translator};
pub use types::{Range, Translated, c_number, c_type, scale};
pub use value::Value;

/// What generated code calls.
pub const FUNCTIONS: &str = "#include \"condition.cuh\"";
