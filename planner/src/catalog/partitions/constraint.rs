//! The conditions of a partition's rows as `pg_get_partition_constraintdef` prints them.

use super::shown;
use tenon_storage::{
    DatabaseState, Partition, PartitionBound, PartitionKey, Partitioning, RangeValue, Relation, SqlType, quote,
};

/// None where any row may be the partition's.
pub(crate) fn definition(snapshot: &DatabaseState, partition: &Partition) -> Option<String> {
    all_of(conditions(snapshot, partition))
}

/// Those of what it is a part of, then its own.
fn conditions(snapshot: &DatabaseState, partition: &Partition) -> Vec<String> {
    let Some(parent) = snapshot.relation_by_oid(partition.parent) else {
        return Vec::new();
    };
    let mut out = match parent {
        Relation::Partition(parent) => conditions(snapshot, parent),
        _ => Vec::new(),
    };
    let Some(of) = parent.partitioning() else { return out };
    match &partition.bound {
        PartitionBound::Default => out.extend(of_default(snapshot, partition, of)),
        PartitionBound::List(values) => out.extend(within_list(of, values)),
        PartitionBound::Range { from, to } => {
            out.extend(of.keys.iter().map(is_not_null));
            out.extend(within_range(of, from, to));
        }
        PartitionBound::Hash { modulus, remainder } => {
            let keys: Vec<String> = of.keys.iter().map(operand).collect();
            let (oid, keys) = (partition.parent, keys.join(", "));
            out.push(format!(
                "satisfies_hash_partition('{oid}'::oid, {modulus}, {remainder}, {keys})"
            ));
        }
    }
    out
}

fn all_of(parts: Vec<String>) -> Option<String> {
    joined(parts, " AND ")
}

fn joined(mut parts: Vec<String>, word: &str) -> Option<String> {
    match parts.len() {
        0 | 1 => parts.pop(),
        _ => Some(format!("({})", parts.join(word))),
    }
}

fn is_not_null(key: &PartitionKey) -> String {
    format!("({} IS NOT NULL)", operand(key))
}

fn within_list(of: &Partitioning, values: &[Option<String>]) -> Vec<String> {
    let Some(key) = of.keys.first() else { return Vec::new() };
    let known: Vec<String> = values.iter().flatten().map(|value| constant(key, value)).collect();
    let is_one = match known.as_slice() {
        [] => None,
        [only] => Some(format!("({} = {only})", compared(key))),
        several => Some(format!("({} = ANY (ARRAY[{}]))", compared(key), several.join(", "))),
    };
    match values.contains(&None) {
        true => {
            let is_null = format!("({} IS NULL)", operand(key));
            let parts = std::iter::once(is_null).chain(is_one).collect();
            joined(parts, " OR ").into_iter().collect()
        }
        false => std::iter::once(is_not_null(key)).chain(is_one).collect(),
    }
}

/// What the other partitions are not.
fn of_default(snapshot: &DatabaseState, partition: &Partition, of: &Partitioning) -> Option<String> {
    let siblings = snapshot.partitions(partition.parent);
    let mut values = Vec::new();
    let mut ranges = Vec::new();
    for sibling in siblings.iter().filter(|sibling| sibling.oid != partition.oid) {
        match &sibling.bound {
            PartitionBound::List(own) => values.extend(own.clone()),
            PartitionBound::Range { from, to } => ranges.push((from, to)),
            _ => {}
        }
    }
    let key = of.keys.first()?;
    let others = match ranges.is_empty() {
        true if values.is_empty() => return None,
        true => {
            values.sort_by(|a, b| in_order(key, a.as_deref(), b.as_deref()));
            all_of(within_list(of, &values))
        }
        false => {
            let first = |from: &[RangeValue]| match from.first() {
                Some(RangeValue::Value(value)) => Some(value.clone()),
                _ => None,
            };
            ranges.sort_by(|(a, _), (b, _)| in_order(key, first(a).as_deref(), first(b).as_deref()));
            let ranges = ranges
                .into_iter()
                .filter_map(|(from, to)| all_of(within_range(of, from, to)));
            let any = joined(ranges.collect(), " OR ");
            all_of(of.keys.iter().map(is_not_null).chain(any).collect())
        }
    };
    Some(format!("(NOT {})", others?))
}

/// The order of values of a key; none before all.
fn in_order(key: &PartitionKey, a: Option<&str>, b: Option<&str>) -> std::cmp::Ordering {
    use SqlType::{Float4, Float8, Int2, Int4, Int8, Numeric, NumericOf, NumericWide};
    let number = |value: Option<&str>| value.and_then(|value| value.parse::<f64>().ok());
    match key.sql_type {
        Int2 | Int4 | Int8 | Float4 | Float8 | Numeric | NumericOf(..) | NumericWide(..) => {
            number(a).partial_cmp(&number(b)).unwrap_or(std::cmp::Ordering::Equal)
        }
        _ => a.cmp(&b),
    }
}

/// Keys from a bound on and before another: first those that are equal in both.
fn within_range(of: &Partitioning, from: &[RangeValue], to: &[RangeValue]) -> Vec<String> {
    let pairs = of.keys.iter().zip(from.iter().zip(to));
    let same: Vec<String> = pairs
        .map_while(|(key, ends)| match ends {
            (RangeValue::Value(a), RangeValue::Value(b)) if a == b => {
                Some(format!("({} = {})", compared(key), constant(key, a)))
            }
            _ => None,
        })
        .collect();
    let rest = same.len();
    let beyond = |bound: &[RangeValue], lower: bool| joined(arms(&of.keys[rest..], &bound[rest..], lower), " OR ");
    let (lower, upper) = (beyond(from, true), beyond(to, false));
    same.into_iter().chain(lower).chain(upper).collect()
}

/// `a > 1`, or `a = 1 AND b >= 2`: each key beyond its value where those before it are equal to theirs.
fn arms(keys: &[PartitionKey], bound: &[RangeValue], lower: bool) -> Vec<String> {
    let mut arms = Vec::new();
    let mut equal: Vec<String> = Vec::new();
    for (at, (key, value)) in keys.iter().zip(bound).enumerate() {
        let RangeValue::Value(value) = value else { break };
        let next = bound.get(at + 1);
        let operator = match (lower, next) {
            (true, None | Some(RangeValue::Min)) => ">=",
            (true, _) => ">",
            (false, Some(RangeValue::Max)) => "<=",
            (false, _) => "<",
        };
        let (own, value) = (compared(key), constant(key, value));
        let parts = equal.iter().cloned().chain([format!("({own} {operator} {value})")]);
        arms.extend(all_of(parts.collect()));
        equal.push(format!("({own} = {value})"));
    }
    arms
}

fn operand(key: &PartitionKey) -> String {
    match key.is_column {
        true => shown::key(key),
        false => key.expression.clone(),
    }
}

/// A key as it is compared: there are no operators of `varchar`.
fn compared(key: &PartitionKey) -> String {
    match key.sql_type {
        SqlType::Varchar | SqlType::VarcharOf(_) => format!("({})::text", operand(key)),
        _ => operand(key),
    }
}

/// A constant of a key's type.
fn constant(key: &PartitionKey, value: &str) -> String {
    let of = match key.sql_type {
        SqlType::Bool => return value.to_string(),
        SqlType::Int4 if !value.starts_with('-') => return value.to_string(),
        SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..)
            if value.starts_with(|c: char| c.is_ascii_digit()) && value.contains('.') =>
        {
            return value.to_string();
        }
        SqlType::Timestamp => "timestamp without time zone".to_string(),
        SqlType::Time => "time without time zone".to_string(),
        SqlType::CharOf(width) => {
            let padded = format!("{value:<width$}", width = width as usize);
            return format!("{}::{}", quote::literal(&padded), key.sql_type);
        }
        of => of.to_string(),
    };
    format!("{}::{of}", quote::literal(value))
}
