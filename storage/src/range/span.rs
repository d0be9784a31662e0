//! Ranges that are not empty, by the keys of their bounds, and what PostgreSQL's operators make of them.

use super::RangeType;
use super::keys::next;
use crate::error::{ErrorKind, Result, StorageError};
use std::borrow::Cow;
use std::cmp::Ordering;

/// One end of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound<'a> {
    /// The key of the value; None: there is no end.
    pub value: Option<Cow<'a, [u8]>>,
    pub inclusive: bool,
}

/// A range that holds something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    pub lower: Bound<'a>,
    pub upper: Bound<'a>,
}

/// Which end a bound is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Lower,
    Upper,
}

impl<'a> Bound<'a> {
    pub fn infinite() -> Bound<'a> {
        Bound {
            value: None,
            inclusive: false,
        }
    }

    pub fn of(value: Option<Cow<'a, [u8]>>, inclusive: bool) -> Bound<'a> {
        Bound {
            inclusive: inclusive && value.is_some(),
            value,
        }
    }

    fn turned(&self) -> Bound<'a> {
        Bound::of(self.value.clone(), !self.inclusive)
    }
}

/// PostgreSQL's `range_cmp_bounds`.
fn compare(a: (&Bound, End), b: (&Bound, End)) -> Ordering {
    let outer = |end| match end {
        End::Lower => Ordering::Less,
        End::Upper => Ordering::Greater,
    };
    let ((a, a_end), (b, b_end)) = (a, b);
    match (&a.value, &b.value) {
        (None, None) if a_end == b_end => Ordering::Equal,
        (None, _) => outer(a_end),
        (_, None) => outer(b_end).reverse(),
        (Some(own), Some(other)) => own.cmp(other).then_with(|| match (a.inclusive, b.inclusive) {
            (false, false) if a_end == b_end => Ordering::Equal,
            (false, _) => outer(a_end).reverse(),
            (true, false) => outer(b_end),
            (true, true) => Ordering::Equal,
        }),
    }
}

impl<'a> Span<'a> {
    pub fn lowers(&self, other: &Span) -> Ordering {
        compare((&self.lower, End::Lower), (&other.lower, End::Lower))
    }

    pub fn uppers(&self, other: &Span) -> Ordering {
        compare((&self.upper, End::Upper), (&other.upper, End::Upper))
    }

    /// The lower bound beside another's upper one.
    fn lower_to_upper(&self, other: &Span) -> Ordering {
        compare((&self.lower, End::Lower), (&other.upper, End::Upper))
    }

    pub fn overlaps(&self, other: &Span) -> bool {
        self.lower_to_upper(other) != Ordering::Greater && other.lower_to_upper(self) != Ordering::Greater
    }

    pub fn contains(&self, other: &Span) -> bool {
        self.lowers(other) != Ordering::Greater && self.uppers(other) != Ordering::Less
    }

    /// Whether a value of this key is within.
    pub fn holds(&self, key: &[u8]) -> bool {
        let above = self.lower.value.as_deref().is_none_or(|own| match own.cmp(key) {
            Ordering::Less => true,
            Ordering::Equal => self.lower.inclusive,
            Ordering::Greater => false,
        });
        above
            && self.upper.value.as_deref().is_none_or(|own| match own.cmp(key) {
                Ordering::Less => false,
                Ordering::Equal => self.upper.inclusive,
                Ordering::Greater => true,
            })
    }

    /// Ends before the other begins.
    pub fn is_before(&self, other: &Span) -> bool {
        other.lower_to_upper(self) == Ordering::Greater
    }

    /// Ends just where the other begins, with nothing between them nor in both.
    pub fn meets(&self, other: &Span) -> bool {
        match (&self.upper.value, &other.lower.value) {
            // Bounds of discrete ranges have one form, so there is something between two that differ.
            (Some(own), Some(other_own)) => own == other_own && self.upper.inclusive != other.lower.inclusive,
            _ => false,
        }
    }

    pub fn is_adjacent(&self, other: &Span) -> bool {
        self.meets(other) || other.meets(self)
    }

    /// The smallest range that holds both.
    pub fn merged(&self, other: &Span<'a>) -> Span<'a> {
        let lower = if self.lowers(other) == Ordering::Greater {
            other
        } else {
            self
        };
        let upper = if self.uppers(other) == Ordering::Less {
            other
        } else {
            self
        };
        Span {
            lower: lower.lower.clone(),
            upper: upper.upper.clone(),
        }
    }

    /// What both hold; None: nothing.
    pub fn intersection(&self, other: &Span<'a>) -> Option<Span<'a>> {
        let lower = if self.lowers(other) == Ordering::Less {
            other
        } else {
            self
        };
        let upper = if self.uppers(other) == Ordering::Greater {
            other
        } else {
            self
        };
        self.overlaps(other).then(|| Span {
            lower: lower.lower.clone(),
            upper: upper.upper.clone(),
        })
    }

    /// What is before another range, and what is behind it.
    pub(super) fn without(&self, other: &Span<'a>) -> (Option<Span<'a>>, Option<Span<'a>>) {
        if !self.overlaps(other) {
            return match self.is_before(other) {
                true => (Some(self.clone()), None),
                false => (None, Some(self.clone())),
            };
        }
        let before = (self.lowers(other) == Ordering::Less).then(|| Span {
            lower: self.lower.clone(),
            upper: other.lower.turned(),
        });
        let behind = (self.uppers(other) == Ordering::Greater).then(|| Span {
            lower: other.upper.turned(),
            upper: self.upper.clone(),
        });
        (before, behind)
    }
}

/// The range between two bounds, in its one form where values have a next one; None: it is empty.
///
/// # Errors
/// 22000 where they are the other way round; 22003 or 22008 where there is no next value.
pub fn make<'a>(of: RangeType, lower: Bound<'a>, upper: Bound<'a>) -> Result<Option<Span<'a>>> {
    let is_empty = |lower: &Bound, upper: &Bound| match (&lower.value, &upper.value) {
        (Some(low), Some(high)) => match low.cmp(high) {
            Ordering::Less => Ok(false),
            Ordering::Equal => Ok(!(lower.inclusive && upper.inclusive)),
            Ordering::Greater => {
                let message = "range lower bound must be less than or equal to range upper bound";
                Err(StorageError::new(ErrorKind::DataException, message))
            }
        },
        _ => Ok(false),
    };
    let (mut lower, mut upper) = (
        Bound::of(lower.value, lower.inclusive),
        Bound::of(upper.value, upper.inclusive),
    );
    if is_empty(&lower, &upper)? {
        return Ok(None);
    }
    if of.is_discrete() {
        if let Some(value) = lower.value.as_deref().filter(|_| !lower.inclusive)
            && let Some(next) = next(of, value)?
        {
            lower = Bound::of(Some(next.into()), true);
        }
        if let Some(value) = upper.value.as_deref().filter(|_| upper.inclusive)
            && let Some(next) = next(of, value)?
        {
            upper = Bound::of(Some(next.into()), false);
        }
        if is_empty(&lower, &upper)? {
            return Ok(None);
        }
    }
    Ok(Some(Span { lower, upper }))
}

/// The union of two ranges, empty ones None.
///
/// # Errors
/// 22000 where something is between them.
pub fn contiguous<'a>(a: Option<Span<'a>>, b: Option<Span<'a>>) -> Result<Option<Span<'a>>> {
    match (a, b) {
        (Some(a), Some(b)) if a.overlaps(&b) || a.is_adjacent(&b) => Ok(Some(a.merged(&b))),
        (Some(_), Some(_)) => Err(not_contiguous("union")),
        (a, b) => Ok(a.or(b)),
    }
}

/// The difference of two ranges, empty ones None.
///
/// # Errors
/// 22000 where it is two ranges.
pub fn minus<'a>(a: Option<Span<'a>>, b: Option<Span<'a>>) -> Result<Option<Span<'a>>> {
    match (a, b) {
        (Some(a), Some(b)) => match a.without(&b) {
            (Some(_), Some(_)) => Err(not_contiguous("difference")),
            (before, behind) => Ok(before.or(behind)),
        },
        (a, _) => Ok(a),
    }
}

fn not_contiguous(what: &str) -> StorageError {
    let message = format!("result of range {what} would not be contiguous");
    StorageError::new(ErrorKind::DataException, message)
}
