//! Keys and bounds as PostgreSQL prints them.

use super::word;
use tenon_storage::{PartitionBound, PartitionKey, Partitioning, RangeValue, SqlType, quote};

/// `RANGE (a, (b + 1))`
pub(crate) fn keys(partitioning: &Partitioning) -> String {
    let keys: Vec<String> = partitioning.keys.iter().map(key).collect();
    format!("{} ({})", word(partitioning.strategy), keys.join(", "))
}

/// `(a, b)`
pub(crate) fn key_names(partitioning: &Partitioning) -> String {
    let keys: Vec<String> = partitioning.keys.iter().map(key).collect();
    format!("({})", keys.join(", "))
}

/// A column by the name that needs quotes or not; an expression in parentheses unless it is a call.
pub(crate) fn key(key: &PartitionKey) -> String {
    if !key.is_column {
        return match key.expression.starts_with('(') {
            true => format!("({})", key.expression),
            false => key.expression.clone(),
        };
    }
    let name = key.expression.trim_matches('"').replace("\"\"", "\"");
    quote::identifier(&name)
}

/// `FOR VALUES FROM (1) TO (10)`
pub(crate) fn bound(partitioning: &Partitioning, bound: &PartitionBound) -> String {
    match bound {
        PartitionBound::Default => "DEFAULT".into(),
        PartitionBound::List(values) => {
            let values: Vec<String> = values
                .iter()
                .map(|own| match (own, partitioning.keys.first()) {
                    (Some(own), Some(key)) => value(key, own),
                    _ => "NULL".into(),
                })
                .collect();
            format!("FOR VALUES IN ({})", values.join(", "))
        }
        PartitionBound::Range { from, to } => {
            format!(
                "FOR VALUES FROM ({}) TO ({})",
                end(partitioning, from),
                end(partitioning, to)
            )
        }
        PartitionBound::Hash { modulus, remainder } => {
            format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
        }
    }
}

pub(crate) fn end(partitioning: &Partitioning, values: &[RangeValue]) -> String {
    let values: Vec<String> = values
        .iter()
        .zip(&partitioning.keys)
        .map(|(own, key)| match own {
            RangeValue::Min => "MINVALUE".into(),
            RangeValue::Max => "MAXVALUE".into(),
            RangeValue::Value(own) => value(key, own),
        })
        .collect();
    values.join(", ")
}

/// A constant as PostgreSQL deparses it where its type is known.
fn value(key: &PartitionKey, value: &str) -> String {
    let plain = match key.sql_type {
        SqlType::Bool => true,
        SqlType::Int4 => !value.starts_with('-'),
        SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => {
            value.starts_with(|c: char| c.is_ascii_digit()) && value.contains(['.', 'e', 'E'])
        }
        _ => false,
    };
    match plain {
        true => value.to_string(),
        false => quote::literal(value),
    }
}
