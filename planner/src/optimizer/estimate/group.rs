//! GROUP BY: how many groups there are.

use std::collections::BTreeMap;

use datafusion::logical_expr::{Aggregate, Expr};

use super::{ColumnProfile, Profile, sampled};

/// Groups of keys from one table are no more than its rows; of keys from several, as many as there are combinations.
pub(super) fn of_aggregate(aggregate: &Aggregate, input: Profile) -> Profile {
    let schema = aggregate.input.schema();
    let mut keys: Vec<ColumnProfile> = Vec::new();
    for expr in &aggregate.group_expr {
        let mut key = input.of_expr(expr, schema);
        if key.distinct.is_none() && !matches!(expr, Expr::Column(_)) {
            key.distinct = sampled::distinct(expr, schema, &input);
        }
        keys.push(key);
    }
    let unknown = (input.rows / 10.0).max(1.0);
    // By table: distinct combinations, and the table's rows.
    let mut tables: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let mut groups = 1.0;
    for key in &keys {
        let distinct = key.distinct_or(unknown);
        match (&key.stored, key.base_rows) {
            (Some(stored), Some(rows)) => {
                let table = tables.entry(stored.table.version()).or_insert((1.0, rows.max(1.0)));
                table.0 *= distinct;
            }
            _ => groups *= distinct,
        }
    }
    for (combinations, rows) in tables.values() {
        groups *= combinations.min(*rows);
    }
    let rows = drawn(groups, input.rows).max(1.0);
    let rows = if aggregate.group_expr.is_empty() { 1.0 } else { rows };
    keys.resize(aggregate.schema.fields().len(), ColumnProfile::default());
    Profile { rows, columns: keys }
}

/// Of `groups` equally likely groups, those that at least one of `rows` rows falls into (Cardenas 1975).
fn drawn(groups: f64, rows: f64) -> f64 {
    if groups <= 1.0 {
        return groups;
    }
    let missed = (rows * (-1.0 / groups).ln_1p()).exp();
    (groups * (1.0 - missed)).min(rows)
}
