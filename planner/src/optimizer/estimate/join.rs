//! Equality between the columns of two relations.

use std::collections::BTreeMap;

use tenon_storage::Bound;

use super::ColumnProfile;

/// The share of the cross product in which all key pairs are equal. Keys between the same two tables belong together (a
/// composite key): they have no more distinct values than the smaller table has rows, and no fewer than any one of them.
pub fn equality_selectivity(keys: &[(ColumnProfile, ColumnProfile)], left_rows: f64, right_rows: f64) -> f64 {
    let table = |profile: &ColumnProfile| profile.stored.as_ref().map(|stored| stored.table.version());
    // By pair of tables: the largest number of values of one key, their combinations, and the smaller table's rows.
    type Combinations = (f64, f64, f64);
    let mut pairs: BTreeMap<(Option<u64>, Option<u64>), Combinations> = BTreeMap::new();
    for (left, right) in keys {
        let rows = left
            .base_rows
            .unwrap_or(left_rows)
            .min(right.base_rows.unwrap_or(right_rows));
        let pair = pairs
            .entry((table(left), table(right)))
            .or_insert((1.0, 1.0, f64::INFINITY));
        let values = left.distinct_or(left_rows).max(right.distinct_or(right_rows));
        pair.0 = pair.0.max(values);
        pair.1 *= values;
        pair.2 = pair.2.min(rows);
    }
    let domains = pairs
        .values()
        .map(|&(widest, combinations, rows)| combinations.min(rows).max(widest));
    1.0 / domains.product::<f64>()
}

/// What skew and domains that overlap in part make of one key pair's selectivity: a factor on 1 / max(distinct).
///
/// Common values of both sides meet each other (PostgreSQL's eqjoinsel does the same); all other rows meet within the
/// part of the domains that overlaps.
pub fn equality_correction(left: &ColumnProfile, right: &ColumnProfile) -> f64 {
    let overlap = overlap(left, right);
    let (Some(l), Some(r)) = (&left.stored, &right.stored) else {
        return overlap;
    };
    let (left_distinct, right_distinct) = (l.distinct().max(1.0), r.distinct().max(1.0));
    let domain = left_distinct.max(right_distinct);
    // A key that is unique on one side meets each value of the other once: no skew can matter.
    let unique = |distinct: f64, profile: &ColumnProfile| profile.base_rows.is_some_and(|rows| distinct > 0.9 * rows);
    if unique(left_distinct, left) || unique(right_distinct, right) || l.data_type() != r.data_type() {
        return overlap;
    }
    let (l, r) = (l.distribution(), r.distribution());
    let mut common: Vec<(&Bound, f64)> = r.common.iter().map(|(value, share)| (value, *share)).collect();
    common.sort_by(|a, b| a.0.partial_cmp(b.0).unwrap_or(std::cmp::Ordering::Equal));
    let (mut both, mut left_common, mut right_common, mut met) = (0.0, 0.0, 0.0, 0.0);
    for (value, share) in &l.common {
        let order = |own: &(&Bound, f64)| own.0.partial_cmp(value).unwrap_or(std::cmp::Ordering::Equal);
        if let Ok(at) = common.binary_search_by(order) {
            both += share * common[at].1;
            left_common += share;
            right_common += common[at].1;
            met += 1.0;
        }
    }
    let rest = (l.valid_share() - left_common).max(0.0) * (r.valid_share() - right_common).max(0.0);
    let selectivity = both + rest * overlap / (domain - met).max(1.0);
    (selectivity * domain).max(1e-6)
}

/// What the columns' bounds make of 1 / max(distinct): rows outside the overlap are lost on both sides, and so are values
/// of the domains.
fn overlap(left: &ColumnProfile, right: &ColumnProfile) -> f64 {
    let (Some(left_min), Some(left_max), Some(right_min), Some(right_max)) = (left.min, left.max, right.min, right.max)
    else {
        return 1.0;
    };
    let (low, high) = (left_min.max(right_min), left_max.min(right_max));
    if low > high {
        return 1e-6;
    }
    let within = |min: f64, max: f64| if max > min { (high - low) / (max - min) } else { 1.0 };
    let (of_left, of_right) = (within(left_min, left_max), within(right_min, right_max));
    let (Some(left_values), Some(right_values)) = (left.distinct, right.distinct) else {
        return of_left.max(of_right).clamp(1e-6, 1.0);
    };
    let domain = left_values.max(right_values).max(1.0);
    let met = (left_values * of_left).max(right_values * of_right).max(1.0);
    (rows_within(left, of_left) * rows_within(right, of_right) * domain / met).clamp(1e-6, domain)
}

/// The share of a column's rows that are in a part of its range. Where filters have left rows that are together, that is the
/// part that they are in as far as they fit: a query asks for days of which there is something to join.
fn rows_within(column: &ColumnProfile, part: f64) -> f64 {
    match (column.together, &column.stored) {
        (Some(together), Some(stored)) if stored.is_in_order() => (part / together.max(1e-9)).min(1.0),
        _ => part,
    }
}
