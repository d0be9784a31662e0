//! `interval` in binary: microseconds, days and months.

use tenon_storage::datetime::Span;

pub fn write_binary(span: Span, out: &mut Vec<u8>) {
    out.extend_from_slice(&span.us.to_be_bytes());
    out.extend_from_slice(&span.days.to_be_bytes());
    out.extend_from_slice(&span.months.to_be_bytes());
}
