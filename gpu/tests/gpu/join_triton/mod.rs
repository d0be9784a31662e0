//! The Triton join against a plain reference.

mod faults;
mod partition;
mod random;
mod reference;
