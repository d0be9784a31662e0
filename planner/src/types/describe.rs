//! What a result column or parameter is called on the wire.

use crate::catalog::char_type;
use crate::outcome::{ColumnDesc, PgType};
use crate::rewrite::displayed_name;
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::DFSchema;
use tenon_storage::SqlType;
use tenon_storage::types::TYPE_KEY;

/// Result columns of a plan with this schema.
pub(crate) fn describe(schema: &DFSchema) -> Vec<ColumnDesc> {
    schema
        .fields()
        .iter()
        .map(|field| ColumnDesc {
            name: displayed_name(field.name()).to_string(),
            data_type: field.data_type().clone(),
            pg_type: pg_type(field),
        })
        .collect()
}

/// The PostgreSQL type of a field: declared where metadata says so, else by its Arrow type.
pub(crate) fn pg_type(field: &Field) -> PgType {
    let plain = |oid| PgType { oid, typmod: -1 };
    if let Some(declared) = field.metadata().get(OID_KEY).and_then(|oid| oid.parse().ok()) {
        return plain(declared);
    }
    if field.metadata().contains_key(TYPE_KEY)
        && let Some(declared) = SqlType::from_field(field)
    {
        return PgType {
            oid: declared.oid(),
            typmod: declared.typmod(),
        };
    }
    match field.data_type() {
        // What carries the types of system tables: see `catalog::columns`.
        DataType::UInt32 => plain(26),
        of if *of == char_type() => plain(18),
        DataType::LargeList(item) if item.data_type() == &DataType::Int16 => plain(22),
        DataType::LargeList(item) if item.data_type() == &DataType::UInt32 => plain(30),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            plain(array_oid(pg_type(item).oid))
        }
        // row_number() and its kin: never near the limit of int8.
        DataType::UInt64 => plain(20),
        DataType::Decimal128(..) | DataType::Decimal256(..) => plain(1700),
        DataType::Struct(_) => plain(2249),
        other => plain(SqlType::from_data_type(other).map_or(25, SqlType::oid)),
    }
}

/// The oid of a field whose type only pg_catalog has.
pub(crate) fn type_oid(field: &Field) -> Option<u32> {
    field.metadata().get(OID_KEY).and_then(|oid| oid.parse().ok())
}

/// Metadata that names a `pg_type.oid` with no storage type (oid, name, regclass).
pub(crate) const OID_KEY: &str = "tenon.oid";

/// The array type's oid of an element type's.
pub(crate) fn array_oid(element: u32) -> u32 {
    match element {
        16 => 1000,
        17 => 1001,
        18 => 1002,
        19 => 1003,
        20 => 1016,
        21 => 1005,
        23 => 1007,
        25 => 1009,
        26 => 1028,
        114 => 199,
        700 => 1021,
        701 => 1022,
        1042 => 1014,
        1043 => 1015,
        1082 => 1182,
        1083 => 1183,
        1114 => 1115,
        1184 => 1185,
        1186 => 1187,
        1700 => 1231,
        2950 => 2951,
        3802 => 3807,
        _ => 1009,
    }
}

/// The field of a parameter declared with a type oid; None where the oid is unknown to us (0: to be inferred).
pub(crate) fn type_for_oid(oid: u32) -> Option<Field> {
    let known = |sql_type: SqlType| Some(sql_type.field("", true));
    match oid {
        16 => known(SqlType::Bool),
        17 => known(SqlType::Bytea),
        20 => known(SqlType::Int8),
        21 => known(SqlType::Int2),
        23 => known(SqlType::Int4),
        26 | 24 | 2205 | 2206 | 4089 => Some(Field::new("", DataType::UInt32, true)),
        18 | 19 | 25 | 705 | 1042 => known(SqlType::Text),
        1043 => known(SqlType::Varchar),
        114 => known(SqlType::Json),
        3802 => known(SqlType::Jsonb),
        700 => known(SqlType::Float4),
        701 => known(SqlType::Float8),
        1082 => known(SqlType::Date),
        1083 => known(SqlType::Time),
        1114 => known(SqlType::Timestamp),
        1184 => known(SqlType::TimestampTz),
        1186 => Some(Field::new("", DataType::Interval(IntervalUnit::MonthDayNano), true)),
        // As a parameter, numeric keeps what digits it has: the scale is the value's own.
        1700 => known(SqlType::Numeric),
        2950 => known(SqlType::Uuid),
        1000 | 1005 | 1007 | 1016 | 1009 | 1015 | 1021 | 1022 | 1028 | 1115 | 1182 | 1185 | 1231 | 2951 => {
            let element = match oid {
                1000 => DataType::Boolean,
                1005 => DataType::Int16,
                1007 => DataType::Int32,
                1028 => DataType::UInt32,
                1016 => DataType::Int64,
                1021 => DataType::Float32,
                1022 => DataType::Float64,
                1115 => DataType::Timestamp(TimeUnit::Microsecond, None),
                1182 => DataType::Date32,
                1185 => SqlType::TimestampTz.data_type(),
                1231 => SqlType::Numeric.data_type(),
                2951 => SqlType::Uuid.data_type(),
                _ => DataType::Utf8View,
            };
            Some(Field::new("", DataType::new_list(element, true), true))
        }
        _ => None,
    }
}
