//! Values in bytes whose order is that of the values.
//!
//! ```text
//! 00                       the empty range
//! 01 lower upper           any other
//! lower: 00                no bound
//!        01 key 00 or 01   inclusive, exclusive
//! upper: 01 key 00 or 01   exclusive, inclusive
//!        02                no bound
//! ```
//!
//! A multirange is its ranges, one behind the other. Keys of bounds are those of `keys`: none is the beginning of another.

use super::keys::key_length;
use super::{Bound, RangeType, Span};
use std::borrow::Cow;

const EMPTY: u8 = 0;
const FILLED: u8 = 1;
const FROM_NOWHERE: u8 = 0;
const BOUND: u8 = 1;
const TO_NOWHERE: u8 = 2;

/// The bytes of a range; None: the empty one.
pub fn to_bytes(range: Option<&Span>) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    match range {
        Some(range) => write(range, &mut out),
        None => out.push(EMPTY),
    }
    out
}

pub(super) fn write(range: &Span, out: &mut Vec<u8>) {
    out.push(FILLED);
    match &range.lower.value {
        None => out.push(FROM_NOWHERE),
        Some(key) => {
            out.push(BOUND);
            out.extend_from_slice(key);
            out.push(u8::from(!range.lower.inclusive));
        }
    }
    match &range.upper.value {
        None => out.push(TO_NOWHERE),
        Some(key) => {
            out.push(BOUND);
            out.extend_from_slice(key);
            out.push(u8::from(range.upper.inclusive));
        }
    }
}

/// The range of bytes that `to_bytes` made; None: the empty one, or bytes that are no range.
pub fn of_bytes(of: RangeType, bytes: &[u8]) -> Option<Span<'_>> {
    read(of, &mut { bytes })
}

/// The ranges of a multirange.
pub fn ranges_of_bytes(of: RangeType, mut bytes: &[u8]) -> Vec<Span<'_>> {
    std::iter::from_fn(|| read(of, &mut bytes)).collect()
}

fn read<'a>(of: RangeType, bytes: &mut &'a [u8]) -> Option<Span<'a>> {
    let rest = bytes.strip_prefix(&[FILLED])?;
    let (lower, rest) = bound(of, rest, FROM_NOWHERE)?;
    let (upper, rest) = bound(of, rest, TO_NOWHERE)?;
    *bytes = rest;
    let (lower, upper) = (
        Bound::of(lower.value, !lower.inclusive),
        Bound::of(upper.value, upper.inclusive),
    );
    Some(Span { lower, upper })
}

/// A bound, said to be inclusive where its last byte is 1.
fn bound(of: RangeType, bytes: &[u8], none: u8) -> Option<(Bound<'_>, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    if *first == none {
        return Some((Bound::infinite(), rest));
    }
    let (key, rest) = rest.split_at_checked(key_length(of, rest)?)?;
    let (last, rest) = rest.split_first()?;
    let bound = Bound {
        value: Some(Cow::Borrowed(key)),
        inclusive: *last == 1,
    };
    Some((bound, rest))
}
