//! The share of rows that a conjunction of filters leaves.

use std::collections::BTreeMap;

use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::difference::{self, Difference};
use super::stored::{Stored, number};
use super::{ColumnProfile, Profile, sampled};
use crate::optimizer::parameters::PARAMETER;

/// A predicate that nothing is known about.
pub const UNKNOWN: f64 = 0.33;
const UNKNOWN_EQUAL: f64 = 0.1;
/// Both ends of a range that are not known before the plan runs, as in PostgreSQL (DEFAULT_RANGE_INEQ_SEL).
const UNKNOWN_RANGE: f64 = 0.005;
/// Items of a list that is not known before the plan runs, as in PostgreSQL (estimate_array_length).
const UNKNOWN_ITEMS: f64 = 10.0;
const LIKE_PREFIX: f64 = 0.03;
const LIKE_SUBSTRING: f64 = 0.08;

/// What comparisons with literals leave of a column.
#[derive(Clone, Copy, Default)]
struct Range<'a> {
    low: Option<(&'a ScalarValue, bool)>,
    high: Option<(&'a ScalarValue, bool)>,
}

/// Conjuncts are taken as independent, except that ranges of one column are intersected first, and so are ranges of the
/// difference of two columns.
pub fn selectivity<'a>(filters: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema, profile: &Profile) -> f64 {
    let mut ranges: BTreeMap<&Column, Range> = BTreeMap::new();
    // Ends of ranges that are not known.
    let mut open: BTreeMap<&Column, (bool, bool)> = BTreeMap::new();
    let mut differences: BTreeMap<(&Column, &Column), (f64, f64)> = BTreeMap::new();
    let mut share = 1.0;
    for conjunct in filters.into_iter().flat_map(split_conjunction) {
        let parts = comparisons(conjunct);
        if parts.is_empty() {
            share *= one(conjunct, schema, profile);
        }
        for (left, op, right) in parts {
            if let Some((column, op, value)) = with_literal(left, op, right) {
                ranges.entry(column).or_default().narrow(op, value);
            } else if let Some((column, op)) = with_unknown(left, op, right) {
                let ends = open.entry(column).or_default();
                match op {
                    Operator::Gt | Operator::GtEq => ends.0 = true,
                    _ => ends.1 = true,
                }
            } else if let Some(Difference { left, right, low, high }) = difference::of(left, op, right) {
                let range = differences
                    .entry((left, right))
                    .or_insert((f64::NEG_INFINITY, f64::INFINITY));
                *range = (range.0.max(low), range.1.min(high));
            } else {
                share *= sampled::share(conjunct, schema, profile).unwrap_or(0.45);
            }
        }
    }
    for (column, (low, high)) in open {
        let known = ranges.remove(column);
        let has = |end: fn(&Range) -> bool| known.as_ref().is_some_and(end);
        share *= match (
            low || has(|range| range.low.is_some()),
            high || has(|range| range.high.is_some()),
        ) {
            (true, true) => UNKNOWN_RANGE,
            _ => UNKNOWN,
        };
    }
    for (column, range) in ranges {
        share *= range.share(&profile.of_column(column, schema));
    }
    for ((left, right), (low, high)) in differences {
        let (left, right) = (profile.of_column(left, schema), profile.of_column(right, schema));
        let guess = if low.is_finite() && high.is_finite() {
            UNKNOWN * UNKNOWN
        } else {
            0.45
        };
        share *= difference::share(&left, &right, low, high).unwrap_or(guess);
    }
    share.clamp(0.0, 1.0)
}

/// Notes what filters leave on columns by whose order their table is: rows that are together.
pub fn gather<'a>(filters: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema, profile: &mut Profile) {
    let mut by_table: BTreeMap<u64, Vec<&Expr>> = BTreeMap::new();
    for conjunct in filters.into_iter().flat_map(split_conjunction) {
        let mut columns = conjunct.column_refs().into_iter();
        let (Some(column), None) = (columns.next(), columns.next()) else {
            continue;
        };
        let known = profile.of_column(column, schema);
        if let Some(stored) = known.stored.filter(Stored::is_in_order) {
            by_table.entry(stored.table.version()).or_default().push(conjunct);
        }
    }
    for (table, conjuncts) in by_table {
        let share = selectivity(conjuncts, schema, profile);
        for column in &mut profile.columns {
            let is_of_table = |stored: &Stored| stored.table.version() == table;
            if column.stored.as_ref().is_some_and(is_of_table) {
                column.together = Some(column.together.unwrap_or(1.0) * share);
            }
        }
    }
}

/// The order comparisons that a conjunct makes: one, or BETWEEN's two.
fn comparisons(expr: &Expr) -> Vec<(&Expr, Operator, &Expr)> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Lt | LtEq | Gt | GtEq),
            right,
        }) => vec![(left, *op, right)],
        Expr::Between(between) if !between.negated => vec![
            (&between.expr, Operator::GtEq, &between.low),
            (&between.expr, Operator::LtEq, &between.high),
        ],
        _ => vec![],
    }
}

/// `column <op> literal`, whichever side it is written on.
fn with_literal<'a>(left: &'a Expr, op: Operator, right: &'a Expr) -> Option<(&'a Column, Operator, &'a ScalarValue)> {
    match (strip(left), strip(right)) {
        (Expr::Column(column), Expr::Literal(value, _)) => Some((column, op, value)),
        (Expr::Literal(value, _), Expr::Column(column)) => Some((column, op.swap()?, value)),
        _ => None,
    }
}

/// `column <op> value`, whichever side it is written on, where only running the plan tells the value.
fn with_unknown<'a>(left: &'a Expr, op: Operator, right: &'a Expr) -> Option<(&'a Column, Operator)> {
    match (strip(left), strip(right)) {
        (Expr::Column(column), value) if is_unknown(value) => Some((column, op)),
        (value, Expr::Column(column)) if is_unknown(value) => Some((column, op.swap()?)),
        _ => None,
    }
}

/// Whether an expression has one value for all rows, which only running the plan tells.
fn is_unknown(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => false,
        Expr::Placeholder(_) => true,
        Expr::ScalarFunction(call) => {
            call.name() == PARAMETER || !call.args.is_empty() && call.args.iter().any(is_unknown)
        }
        Expr::Cast(cast) => is_unknown(&cast.expr),
        _ => false,
    }
}

fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => strip(&cast.expr),
        Expr::Alias(alias) => strip(&alias.expr),
        other => other,
    }
}

impl<'a> Range<'a> {
    fn narrow(&mut self, op: Operator, value: &'a ScalarValue) {
        let inclusive = matches!(op, Operator::LtEq | Operator::GtEq);
        let tighter = |held: &ScalarValue, wanted: std::cmp::Ordering| match (number(held), number(value)) {
            (Some(held), Some(new)) => new.partial_cmp(&held) == Some(wanted),
            _ => value.partial_cmp(held) == Some(wanted),
        };
        let (bound, wanted) = match op {
            Operator::Lt | Operator::LtEq => (&mut self.high, std::cmp::Ordering::Less),
            _ => (&mut self.low, std::cmp::Ordering::Greater),
        };
        if bound.is_none_or(|(held, _)| tighter(held, wanted)) {
            *bound = Some((value, inclusive));
        }
    }

    fn share(&self, known: &ColumnProfile) -> f64 {
        if let Some(share) = self.by_distribution(known) {
            return share;
        }
        let place = |bound: Option<(&ScalarValue, bool)>, missing: f64| match bound {
            Some((value, _)) => number(value),
            None => Some(missing),
        };
        let (low, high) = (place(self.low, f64::NEG_INFINITY), place(self.high, f64::INFINITY));
        match (known.min, known.max, low, high) {
            (Some(min), Some(max), Some(low), Some(high)) if max > min => {
                let covered = ((high.min(max) - low.max(min)) / (max - min)).clamp(0.0, 1.0);
                covered.max(1.0 / known.distinct_or(1000.0))
            }
            (Some(min), Some(_), Some(low), Some(high)) => f64::from(low <= min && min <= high).max(1e-3),
            _ if self.low.is_some() && self.high.is_some() => UNKNOWN * UNKNOWN,
            _ => UNKNOWN,
        }
    }

    fn by_distribution(&self, known: &ColumnProfile) -> Option<f64> {
        let stored = known.stored.as_ref()?;
        let distribution = stored.distribution();
        let distinct = stored.distinct();
        let below = match self.high {
            Some((value, inclusive)) => distribution.share_below(&stored.bound(value)?, inclusive, distinct),
            None => distribution.valid_share(),
        };
        let under = match self.low {
            Some((value, inclusive)) => distribution.share_below(&stored.bound(value)?, !inclusive, distinct),
            None => 0.0,
        };
        // The sample cannot see ranges finer than its buckets: they hold a value or so.
        let rows = distribution.rows.max(1) as f64;
        let least = (1.0 / distinct.max(1.0)).min(0.001).max(1.0 / rows);
        Some((below - under).clamp(least, 1.0))
    }
}

/// `column = literal`.
fn equal(known: &ColumnProfile, value: &ScalarValue) -> f64 {
    if value.is_null() {
        return 0.0;
    }
    if let Some(stored) = &known.stored
        && let Some(bound) = stored.bound(value)
    {
        return stored.distribution().share_equal(&bound, stored.distinct().max(1.0));
    }
    known.distinct.map_or(UNKNOWN_EQUAL, |distinct| 1.0 / distinct.max(1.0))
}

fn one(expr: &Expr, schema: &DFSchema, profile: &Profile) -> f64 {
    let column = |e: &Expr| match strip(e) {
        Expr::Column(column) => Some(profile.of_column(column, schema)),
        _ => None,
    };
    let literal = |e: &'_ Expr| match strip(e) {
        Expr::Literal(value, _) => Some(value.clone()),
        _ => None,
    };
    let tried = || sampled::share(expr, schema, profile);
    match expr {
        Expr::Literal(ScalarValue::Boolean(value), _) => f64::from(value.unwrap_or(false)),
        Expr::Alias(alias) => one(&alias.expr, schema, profile),
        Expr::Column(own) => {
            let known = profile.of_column(own, schema);
            equal(&known, &ScalarValue::Boolean(Some(true)))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Or => tried().unwrap_or_else(|| {
                let (l, r) = (
                    selectivity([left.as_ref()], schema, profile),
                    selectivity([right.as_ref()], schema, profile),
                );
                l + r - l * r
            }),
            Operator::And => selectivity([expr], schema, profile),
            Operator::Eq | Operator::NotEq => {
                let sides = (column(left), literal(left), column(right), literal(right));
                let share = match sides {
                    (Some(known), _, _, Some(value)) | (_, Some(value), Some(known), _) => equal(&known, &value),
                    (Some(l), _, Some(r), _) => match (l.distinct, r.distinct) {
                        (None, None) => UNKNOWN_EQUAL,
                        (l, r) => 1.0 / l.unwrap_or(1.0).max(r.unwrap_or(1.0)).max(1.0),
                    },
                    (Some(known), ..) | (_, _, Some(known), _) if known.distinct.is_some() => {
                        1.0 / known.distinct_or(1.0)
                    }
                    _ => match tried() {
                        Some(share) => return share,
                        None => UNKNOWN_EQUAL,
                    },
                };
                if *op == Operator::Eq { share } else { 1.0 - share }
            }
            _ => tried().unwrap_or(UNKNOWN),
        },
        Expr::InList(list) => {
            let share = match column(&list.expr) {
                Some(known) => {
                    let share = |member: &Expr| match literal(member) {
                        Some(value) => equal(&known, &value),
                        None => known.distinct.map_or(UNKNOWN_EQUAL, |distinct| 1.0 / distinct.max(1.0)),
                    };
                    list.list.iter().map(share).sum::<f64>().min(1.0)
                }
                None => match tried() {
                    Some(share) => return share,
                    None => (0.04 * list.list.len() as f64).min(1.0),
                },
            };
            if list.negated { 1.0 - share } else { share }
        }
        Expr::Like(like) => tried().unwrap_or_else(|| {
            let prefix = matches!(&*like.pattern, Expr::Literal(v, _) if !v.to_string().starts_with('%'));
            let share = if prefix { LIKE_PREFIX } else { LIKE_SUBSTRING };
            if like.negated { 1.0 - share } else { share }
        }),
        Expr::ScalarFunction(call) if matches!(call.name(), "any_eq" | "all_ne") && call.args.len() == 2 => {
            let known = column(&call.args[0]).and_then(|known| known.distinct);
            let Some(distinct) = known.filter(|_| is_unknown(&call.args[1])) else {
                return tried().unwrap_or(UNKNOWN);
            };
            let share = (UNKNOWN_ITEMS / distinct.max(1.0)).min(1.0);
            if call.name() == "any_eq" { share } else { 1.0 - share }
        }
        Expr::Not(inner) => (1.0 - selectivity([inner.as_ref()], schema, profile)).max(0.005),
        Expr::IsNull(inner) => 1.0 - valid(column(inner), 0.95),
        Expr::IsNotNull(inner) => valid(column(inner), 1.0),
        _ => tried().unwrap_or(UNKNOWN),
    }
}

/// Share of the rows in which a column is not NULL.
fn valid(known: Option<ColumnProfile>, unknown: f64) -> f64 {
    let stored = known.and_then(|known| known.stored);
    stored.map_or(unknown, |stored| stored.valid_share())
}
