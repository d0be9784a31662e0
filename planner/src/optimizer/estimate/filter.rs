//! The share of rows that a conjunction of filters leaves.

use std::collections::HashMap;

use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::{Profile, number};

/// A predicate that nothing is known about.
pub const UNKNOWN: f64 = 0.33;
const LIKE_PREFIX: f64 = 0.03;
const LIKE_SUBSTRING: f64 = 0.08;

/// Conjuncts are taken as independent, except that ranges of one column are intersected first.
pub fn selectivity<'a>(filters: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema, profile: &Profile) -> f64 {
    let mut ranges: HashMap<&Column, (f64, f64)> = HashMap::new();
    let mut share = 1.0;
    for conjunct in filters.into_iter().flat_map(split_conjunction) {
        match range(conjunct) {
            Some(found) => {
                for (column, low, high) in found {
                    let range = ranges.entry(column).or_insert((f64::NEG_INFINITY, f64::INFINITY));
                    *range = (range.0.max(low), range.1.min(high));
                }
            }
            None => share *= one(conjunct, schema, profile),
        }
    }
    for (column, (low, high)) in ranges {
        let known = profile.of_column(column, schema);
        share *= match (known.min, known.max) {
            (Some(min), Some(max)) if max > min => {
                let covered = ((high.min(max) - low.max(min)) / (max - min)).clamp(0.0, 1.0);
                covered.max(1.0 / known.distinct_or(1000.0))
            }
            (Some(min), Some(_)) => f64::from(low <= min && min <= high).max(1e-3),
            _ if low.is_finite() && high.is_finite() => UNKNOWN * UNKNOWN,
            _ => UNKNOWN,
        };
    }
    share
}

/// `column <op> literal` as a range of that column.
fn range(expr: &Expr) -> Option<Vec<(&Column, f64, f64)>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, value, op) = match (strip(left), strip(right)) {
                (Expr::Column(column), Expr::Literal(value, _)) => (column, value, *op),
                (Expr::Literal(value, _), Expr::Column(column)) => (column, value, op.swap()?),
                _ => return None,
            };
            let value = number(value)?;
            let (low, high) = match op {
                Operator::Lt | Operator::LtEq => (f64::NEG_INFINITY, value),
                Operator::Gt | Operator::GtEq => (value, f64::INFINITY),
                _ => return None,
            };
            Some(vec![(column, low, high)])
        }
        Expr::Between(between) if !between.negated => match (strip(&between.expr), &*between.low, &*between.high) {
            (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) => {
                Some(vec![(column, number(low)?, number(high)?)])
            }
            _ => None,
        },
        _ => None,
    }
}

fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => strip(&cast.expr),
        Expr::Alias(alias) => strip(&alias.expr),
        other => other,
    }
}

fn one(expr: &Expr, schema: &DFSchema, profile: &Profile) -> f64 {
    let distinct = |e: &Expr| match strip(e) {
        Expr::Column(column) => profile.of_column(column, schema).distinct,
        _ => None,
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Or => {
                let (l, r) = (
                    selectivity([left.as_ref()], schema, profile),
                    selectivity([right.as_ref()], schema, profile),
                );
                l + r - l * r
            }
            Operator::And => selectivity([expr], schema, profile),
            Operator::Eq => match (distinct(left), distinct(right)) {
                (Some(l), Some(r)) => 1.0 / l.max(r).max(1.0),
                (Some(d), None) | (None, Some(d)) => 1.0 / d.max(1.0),
                _ => 0.1,
            },
            Operator::NotEq => 0.9,
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => 0.45,
            _ => UNKNOWN,
        },
        Expr::InList(list) => {
            let each = distinct(&list.expr).map_or(0.04, |d| 1.0 / d.max(1.0));
            let share = (each * list.list.len() as f64).min(1.0);
            if list.negated { 1.0 - share } else { share }
        }
        Expr::Like(like) => {
            let prefix = matches!(&*like.pattern, Expr::Literal(v, _) if !v.to_string().starts_with('%'));
            let share = if prefix { LIKE_PREFIX } else { LIKE_SUBSTRING };
            if like.negated { 1.0 - share } else { share }
        }
        Expr::Not(inner) => (1.0 - selectivity([inner.as_ref()], schema, profile)).max(0.05),
        Expr::IsNull(_) => 0.05,
        Expr::IsNotNull(_) => 1.0,
        _ => UNKNOWN,
    }
}
