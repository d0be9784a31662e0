//! What operators cost, in rows streamed once: hashing a row is the dearest.

/// A row put into a hash table.
pub const BUILD: f64 = 2.5;
/// A row looked up in one.
pub const PROBE: f64 = 1.0;
/// A row put out.
pub const OUTPUT: f64 = 1.0;
/// A pair of rows joined without any predicate.
pub const CROSS: f64 = 20.0;
/// A pair of rows tested by a predicate that is no equality.
pub const PAIR: f64 = 0.1;
