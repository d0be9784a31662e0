//! Integers as PostgreSQL writes them.

/// Appends a decimal integer.
#[inline]
pub fn write_int<I: itoa::Integer>(value: I, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}
