//! The Triton join against a plain reference.

mod faults;
mod partition;
mod race;
mod random;
mod reference;
