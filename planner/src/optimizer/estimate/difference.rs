//! Comparisons between two columns: how often `a - b` falls into a range. Covers `a < b`, and bands such as
//! `a BETWEEN b - 5 AND b + 5`, whose two bounds must be taken together.

use datafusion::common::Column;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::ColumnProfile;
use super::stored::number;

/// `left - right` lies within `low..high`; both are places on the number line.
pub(super) struct Difference<'a> {
    pub left: &'a Column,
    pub right: &'a Column,
    pub low: f64,
    pub high: f64,
}

/// `column + constant`.
fn linear(expr: &Expr) -> Option<(&Column, f64)> {
    let constant = |expr: &Expr| match expr {
        Expr::Literal(value, _) => number(value),
        _ => None,
    };
    let (left, sum, right) = match expr {
        Expr::Column(column) => return Some((column, 0.0)),
        Expr::Cast(cast) => return linear(&cast.expr),
        Expr::Alias(alias) => return linear(&alias.expr),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Plus => (left.as_ref(), true, right.as_ref()),
            Operator::Minus => (left.as_ref(), false, right.as_ref()),
            _ => return None,
        },
        Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
            ("checked_add", [left, right]) => (left, true, right),
            ("checked_subtract", [left, right]) => (left, false, right),
            _ => return None,
        },
        _ => return None,
    };
    let (inner, shift) = match (constant(left), constant(right)) {
        (None, Some(shift)) => (left, if sum { shift } else { -shift }),
        (Some(shift), None) if sum => (right, shift),
        _ => return None,
    };
    let (column, more) = linear(inner)?;
    Some((column, shift + more))
}

/// What a comparison says of the difference of two columns; the columns in a fixed order, so that two comparisons of
/// the same pair meet.
pub(super) fn of<'a>(left: &'a Expr, op: Operator, right: &'a Expr) -> Option<Difference<'a>> {
    let ((a, a_shift), (b, b_shift)) = (linear(left)?, linear(right)?);
    if a == b {
        return None;
    }
    // a + s < b + t  <=>  a - b < t - s
    let bound = b_shift - a_shift;
    let (low, high) = match op {
        Operator::Lt | Operator::LtEq => (f64::NEG_INFINITY, bound),
        Operator::Gt | Operator::GtEq => (bound, f64::INFINITY),
        _ => return None,
    };
    Some(if a <= b {
        Difference {
            left: a,
            right: b,
            low,
            high,
        }
    } else {
        Difference {
            left: b,
            right: a,
            low: -high,
            high: -low,
        }
    })
}

/// Share of the pairs whose difference is in the range: the left column's histogram, read around each value that stands
/// for the right one.
pub(super) fn share(left: &ColumnProfile, right: &ColumnProfile, low: f64, high: f64) -> Option<f64> {
    let (l, r) = (left.stored.as_ref()?, right.stored.as_ref()?);
    let (own, other) = (l.distribution(), r.distribution());
    let distinct = l.distinct();
    let below = |place: f64| {
        if place == f64::INFINITY {
            return Some(own.valid_share());
        }
        if place == f64::NEG_INFINITY {
            return Some(0.0);
        }
        Some(own.share_below(&l.bound_at(place)?, true, distinct))
    };
    let mut sum = 0.0;
    for (value, weight) in other.representatives() {
        let place = r.place(value)?;
        sum += weight * (below(place + high)? - below(place + low)?).max(0.0);
    }
    // No fewer than one row would meet by chance of equal values.
    Some(sum.max(1.0 / distinct.max(r.distinct()).max(1.0) * 0.1).min(1.0))
}
