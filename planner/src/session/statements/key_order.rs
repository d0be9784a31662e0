//! The order of an index's key, and its operator class.

use crate::catalog::bind::parts;
use crate::pg::error::{Result, SqlError, state};
use datafusion::sql::sqlparser::ast::{IndexColumn, OrderByOptions};
use tenon_storage::ColumnOrder;

/// Operator classes that are their types' own.
const OWN_CLASSES: [&str; 27] = [
    "bool_ops",
    "int2_ops",
    "int4_ops",
    "int8_ops",
    "float4_ops",
    "float8_ops",
    "numeric_ops",
    "text_ops",
    "varchar_ops",
    "bpchar_ops",
    "name_ops",
    "date_ops",
    "time_ops",
    "timestamp_ops",
    "timestamptz_ops",
    "interval_ops",
    "uuid_ops",
    "bytea_ops",
    "jsonb_ops",
    "oid_ops",
    "inet_ops",
    "macaddr_ops",
    "timetz_ops",
    "enum_ops",
    "array_ops",
    "bit_ops",
    "varbit_ops",
];

/// Operator classes that are no type's own, and order as that does here.
const LIKE_OWN: [&str; 4] = [
    "text_pattern_ops",
    "varchar_pattern_ops",
    "bpchar_pattern_ops",
    "cidr_ops",
];

/// The operator class of an index's key that is no btree, where it is not the type's own.
pub(super) fn other_class(column: &IndexColumn) -> ColumnOrder {
    const OWN: [&str; 4] = ["array_ops", "jsonb_ops", "range_ops", "multirange_ops"];
    let class = column.operator_class.as_ref().and_then(|class| parts(class).pop());
    ColumnOrder {
        operator_class: class.filter(|class| !OWN.contains(&class.as_str())),
        ..ColumnOrder::default()
    }
}

/// What CREATE INDEX says of a key: ASC and NULLS LAST where it says nothing.
pub(super) fn order(column: &IndexColumn) -> Result<ColumnOrder> {
    let operator_class = column
        .operator_class
        .as_ref()
        .map(|class| parts(class).pop().unwrap_or_default())
        .filter(|class| !OWN_CLASSES.contains(&class.as_str()));
    if let Some(class) = &operator_class
        && !LIKE_OWN.contains(&class.as_str())
    {
        let message = format!("operator class \"{class}\" does not exist for access method \"btree\"");
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
    }
    let OrderByOptions { asc, nulls_first } = column.column.options;
    let descending = asc == Some(false);
    Ok(ColumnOrder {
        descending,
        nulls_first: nulls_first.unwrap_or(descending),
        operator_class,
    })
}
