//! Multiranges: ranges in order, of which no two overlap or are adjacent. The operators take ranges as well, as one or none.

use super::Span;
use super::bytes::write;
use std::cmp::Ordering;

/// The multirange of any ranges.
pub fn of_ranges(mut ranges: Vec<Span<'_>>) -> Vec<Span<'_>> {
    ranges.sort_by(|a, b| a.lowers(b).then_with(|| a.uppers(b)));
    let mut out: Vec<Span> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.overlaps(&range) || last.is_adjacent(&range) => *last = last.merged(&range),
            _ => out.push(range),
        }
    }
    out
}

/// The bytes of a multirange.
pub fn write_ranges(ranges: &[Span]) -> Vec<u8> {
    let mut out = Vec::with_capacity(24 * ranges.len());
    ranges.iter().for_each(|range| write(range, &mut out));
    out
}

/// The smallest range that holds all.
pub fn spanned<'a>(ranges: &[Span<'a>]) -> Option<Span<'a>> {
    let (first, last) = (ranges.first()?, ranges.last()?);
    Some(Span {
        lower: first.lower.clone(),
        upper: last.upper.clone(),
    })
}

/// What is in both.
pub fn intersection<'a>(a: &[Span<'a>], b: &[Span<'a>]) -> Vec<Span<'a>> {
    let (mut left, mut right, mut out) = (0, 0, Vec::new());
    while let (Some(own), Some(other)) = (a.get(left), b.get(right)) {
        out.extend(own.intersection(other));
        match own.uppers(other) {
            Ordering::Less => left += 1,
            _ => right += 1,
        }
    }
    out
}

/// What is in the first alone.
pub fn difference<'a>(a: &[Span<'a>], b: &[Span<'a>]) -> Vec<Span<'a>> {
    let (mut out, mut from) = (Vec::new(), 0);
    for own in a {
        while b.get(from).is_some_and(|other| other.is_before(own)) {
            from += 1;
        }
        let mut left = Some(own.clone());
        for other in &b[from..] {
            let Some(rest) = left.take() else { break };
            if rest.is_before(other) {
                left = Some(rest);
                break;
            }
            let (before, behind) = rest.without(other);
            out.extend(before);
            left = behind;
        }
        out.extend(left);
    }
    out
}

pub fn overlap(a: &[Span], b: &[Span]) -> bool {
    let (mut left, mut right) = (0, 0);
    while let (Some(own), Some(other)) = (a.get(left), b.get(right)) {
        match own {
            own if own.overlaps(other) => return true,
            own if own.is_before(other) => left += 1,
            _ => right += 1,
        }
    }
    false
}

/// Whether all of `inner` is in `outer`.
pub fn is_in(inner: &[Span], outer: &[Span]) -> bool {
    inner.iter().all(|own| {
        let at = outer.partition_point(|other| other.is_before(own));
        outer.get(at).is_some_and(|other| other.contains(own))
    })
}

/// What two that are not empty are to each other, by all that they span.
fn between(a: &[Span], b: &[Span], test: impl Fn(&Span, &Span) -> bool) -> bool {
    match (spanned(a), spanned(b)) {
        (Some(a), Some(b)) => test(&a, &b),
        _ => false,
    }
}

pub fn is_before(a: &[Span], b: &[Span]) -> bool {
    between(a, b, |a, b| a.is_before(b))
}

pub fn is_after(a: &[Span], b: &[Span]) -> bool {
    between(a, b, |a, b| b.is_before(a))
}

/// `&<`: does not extend to the right of the other.
pub fn is_not_right(a: &[Span], b: &[Span]) -> bool {
    between(a, b, |a, b| a.uppers(b) != Ordering::Greater)
}

/// `&>`: does not extend to the left of the other.
pub fn is_not_left(a: &[Span], b: &[Span]) -> bool {
    between(a, b, |a, b| a.lowers(b) != Ordering::Less)
}

pub fn is_adjacent(a: &[Span], b: &[Span]) -> bool {
    between(a, b, |a, b| a.is_adjacent(b))
}
