//! Partitions of tables: the conditions that their bounds are, as SQL text over the columns of the table at the root, and
//! how bounds and keys are shown.

pub(crate) mod constraint;
pub(crate) mod shown;

use crate::catalog::bind::named_in_full;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::functions::partition_hash::IN_HASH_PARTITION;
use std::sync::Arc;
use tenon_storage::Subject;
use tenon_storage::{
    DatabaseState, Partition, PartitionBound, PartitionKey, PartitionStrategy, Partitioning, RangeValue, Relation,
    SqlType, TableDefinition, quote,
};

/// The rows of a partition, as a query.
pub(crate) fn query(snapshot: &DatabaseState, partition: &Partition) -> Result<String> {
    let root = snapshot
        .table_by_oid(partition.root)
        .ok_or_else(|| SqlError::internal("a partition has no table"))?;
    let definition = root.definition();
    let columns = partition.schema.fields().iter().map(|field| quote::name(field.name()));
    Ok(format!(
        "SELECT {} FROM {}.{} WHERE {}",
        columns.collect::<Vec<_>>().join(", "),
        quote::name(&definition.schema_name),
        quote::name(&definition.name),
        condition(snapshot, partition)
    ))
}

/// Which rows of the table are the partition's: those within its bound and the bounds of what it is part of.
pub(crate) fn condition(snapshot: &DatabaseState, partition: &Partition) -> String {
    let own = own_condition(snapshot, partition);
    match snapshot.relation_by_oid(partition.parent) {
        Some(Relation::Partition(parent)) => format!("{} AND {own}", condition(snapshot, parent)),
        _ => own,
    }
}

/// Which rows of its parent are the partition's. Never NULL.
pub(crate) fn own_condition(snapshot: &DatabaseState, partition: &Partition) -> String {
    let parent = snapshot.relation_by_oid(partition.parent);
    let Some(partitioning) = parent.and_then(Relation::partitioning) else {
        return "false".into();
    };
    if partition.bound != PartitionBound::Default {
        return within(partitioning, &partition.bound);
    }
    let siblings = snapshot.partitions(partition.parent);
    let others = siblings.iter().filter(|sibling| sibling.oid != partition.oid);
    let others: Vec<String> = others.map(|sibling| within(partitioning, &sibling.bound)).collect();
    match others.is_empty() {
        true => "true".into(),
        false => format!("(NOT ({}))", others.join(" OR ")),
    }
}

/// The condition of a bound. Never NULL.
pub(crate) fn within(partitioning: &Partitioning, bound: &PartitionBound) -> String {
    let keys = &partitioning.keys;
    match bound {
        PartitionBound::Default => "true".into(),
        PartitionBound::List(values) => {
            let Some(key) = keys.first() else {
                return "false".into();
            };
            let known: Vec<String> = values.iter().flatten().map(|value| literal(key, value)).collect();
            let mut parts = Vec::new();
            if !known.is_empty() {
                let of = &key.expression;
                parts.push(format!("({of} IS NOT NULL AND {of} IN ({}))", known.join(", ")));
            }
            if values.contains(&None) {
                parts.push(format!("{} IS NULL", key.expression));
            }
            format!("({})", parts.join(" OR "))
        }
        PartitionBound::Range { from, to } => {
            let not_null = keys.iter().map(|key| format!("{} IS NOT NULL", key.expression));
            let mut parts: Vec<String> = not_null.collect();
            parts.extend(beyond(keys, from, true));
            parts.extend(beyond(keys, to, false));
            format!("({})", parts.join(" AND "))
        }
        PartitionBound::Hash { modulus, remainder } => {
            let key = |key: &PartitionKey| match key.sql_type.is_string() {
                true => format!("CAST({} AS text)", key.expression),
                false => key.expression.clone(),
            };
            let keys: Vec<String> = keys.iter().map(key).collect();
            format!("{IN_HASH_PARTITION}({modulus}, {remainder}, {})", keys.join(", "))
        }
    }
}

/// What each row of a table must satisfy to be in a partition.
pub(crate) struct Route {
    /// The table or partition that is divided.
    pub relation: String,
    pub partitioning: Partitioning,
    pub condition: String,
}

/// The levels of a table's partitions at which a row may find none.
pub(crate) fn routes(snapshot: &DatabaseState, root: &TableDefinition) -> Vec<Route> {
    let Some(partitioning) = &root.partitioning else {
        return Vec::new();
    };
    let level = |oid: u32, name: &str, partitioning: &Partitioning, within_it: Option<String>| {
        let partitions = snapshot.partitions(oid);
        if partitions
            .iter()
            .any(|partition| partition.bound == PartitionBound::Default)
        {
            return None;
        }
        let bounds = partitions
            .iter()
            .map(|partition| within(partitioning, &partition.bound));
        let mut parts: Vec<String> = within_it.into_iter().map(|own| format!("NOT ({own})")).collect();
        parts.extend(bounds);
        Some(Route {
            relation: name.to_string(),
            partitioning: partitioning.clone(),
            condition: match parts.is_empty() {
                true => "false".into(),
                false => parts.join(" OR "),
            },
        })
    };
    let mut routes: Vec<Route> = level(root.oid, &root.name, partitioning, None).into_iter().collect();
    for partition in snapshot.partitions_under(root.oid) {
        if let Some(partitioning) = &partition.partitioning {
            let own = condition(snapshot, &partition);
            routes.extend(level(partition.oid, &partition.name, partitioning, Some(own)));
        }
    }
    routes
}

/// What the partitions of a table ask of their own rows: conditions with the errors for rows that violate them.
pub(crate) fn checks(snapshot: &DatabaseState, root: &TableDefinition) -> Vec<(String, SqlState, String, Subject)> {
    if root.partitioning.is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for partition in snapshot.partitions_under(root.oid) {
        for column in &partition.not_null {
            let column = &root.columns[*column].name;
            found.push((
                format!(
                    "NOT ({}) OR {} IS NOT NULL",
                    condition(snapshot, &partition),
                    quote::name(column)
                ),
                state::NOT_NULL_VIOLATION,
                format!(
                    "null value in column \"{column}\" of relation \"{}\" violates not-null constraint",
                    partition.name
                ),
                Subject::table(&root.schema_name, &partition.name).column(column),
            ));
        }
        for check in &partition.checks {
            found.push((
                format!("NOT ({}) OR ({})", condition(snapshot, &partition), check.condition),
                state::CHECK_VIOLATION,
                format!(
                    "new row for relation \"{}\" violates check constraint \"{}\"",
                    partition.name, check.name
                ),
                Subject::table(&root.schema_name, &partition.name).constraint(&check.name),
            ));
        }
    }
    found
}

/// Keys that are at or after a lower bound, or before an upper one; None where all are.
fn beyond(keys: &[PartitionKey], bound: &[RangeValue], lower: bool) -> Option<String> {
    let (key, rest) = keys.split_first()?;
    let of = &key.expression;
    let value = match (bound.first()?, lower) {
        (RangeValue::Min, true) | (RangeValue::Max, false) => return None,
        (RangeValue::Min, false) | (RangeValue::Max, true) => return Some("false".into()),
        (RangeValue::Value(value), _) => literal(key, value),
    };
    let (strict, or_equal) = if lower { (">", ">=") } else { ("<", "<=") };
    if rest.is_empty() {
        let operator = if lower { or_equal } else { strict };
        return Some(format!("{of} {operator} {value}"));
    }
    match beyond(rest, &bound[1..], lower) {
        None => Some(format!("{of} {or_equal} {value}")),
        // Said of the first key alone, too: zone maps know single columns.
        Some(rest) => Some(format!(
            "({of} {or_equal} {value} AND ({of} {strict} {value} OR ({rest})))"
        )),
    }
}

/// A partition that has none itself, or those below a relation, in the order of the levels.
pub(crate) fn leaves(state: &DatabaseState, of: &Relation) -> Vec<Arc<Partition>> {
    let own = of.as_partition().cloned().into_iter();
    let all = own.chain(state.partitions_under(of.oid()));
    all.filter(|own| own.partitioning.is_none()).collect()
}

/// A value of a key's type.
pub(crate) fn literal(key: &PartitionKey, value: &str) -> String {
    format!("CAST({} AS {})", quote::literal(value), type_name(key.sql_type))
}

/// Types whose values are shown alike whatever a session's settings are.
pub(crate) fn is_moment(sql_type: SqlType) -> bool {
    use SqlType::*;
    matches!(sql_type, Date | Time | TimeTz | Timestamp | TimestampTz | Interval)
}

/// A key to be shown: its text where it has one, beside dates and times.
pub(crate) fn as_shown(key: &PartitionKey) -> String {
    match is_moment(key.sql_type) {
        true => key.expression.clone(),
        false => format!("CAST({} AS text)", key.expression),
    }
}

fn type_name(sql_type: SqlType) -> String {
    match sql_type {
        _ if sql_type.is_string() && !matches!(sql_type, SqlType::Json | SqlType::Jsonb) => "text".into(),
        other => named_in_full(other),
    }
}

/// What PARTITION BY says of the strategy.
pub(crate) fn word(strategy: PartitionStrategy) -> &'static str {
    match strategy {
        PartitionStrategy::Range => "RANGE",
        PartitionStrategy::List => "LIST",
        PartitionStrategy::Hash => "HASH",
    }
}
