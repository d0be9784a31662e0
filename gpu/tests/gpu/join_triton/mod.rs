//! The Triton join against a plain reference.

mod faults;
mod random;
mod reference;
