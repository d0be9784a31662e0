//! What a result column or parameter is called on the wire.

use super::char_type;
use crate::pg::outcome::{ColumnDesc, PgType};
use crate::pg::rewrite::displayed_name;
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit};
use datafusion::common::DFSchema;
use tenon_storage::range::UserRange;
use tenon_storage::types::{OID_KEY, TYPE_KEY};
use tenon_storage::{ArrayType, EnumType, SqlType};

/// Result columns of a plan with this schema.
pub(crate) fn describe(schema: &DFSchema) -> Vec<ColumnDesc> {
    schema
        .fields()
        .iter()
        .map(|field| ColumnDesc {
            name: displayed_name(field.name()).to_string(),
            data_type: field.data_type().clone(),
            pg_type: pg_type(field),
            origin: None,
        })
        .collect()
}

/// The PostgreSQL type of a field: declared where metadata says so, else by its Arrow type.
pub fn pg_type(field: &Field) -> PgType {
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
            match (item.data_type(), pg_type(item).oid) {
                // An array of several dimensions is of the same type.
                (DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..), array) => plain(array),
                // Of a composite type too: an array of it has no type of its own.
                (DataType::Struct(_), oid) if SqlType::range_of_oid(oid).is_none() => plain(array_oid(2249)),
                (_, item) => plain(array_oid(item)),
            }
        }
        // row_number() and its kin: never near the limit of int8.
        DataType::UInt64 => plain(20),
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::LargeBinary => plain(1700),
        of @ DataType::Struct(_) => plain(SqlType::range_of(of).map_or(2249, SqlType::oid)),
        other => plain(SqlType::from_data_type(other).map_or(25, SqlType::oid)),
    }
}

/// The oid of a field whose type only pg_catalog has.
pub(crate) fn type_oid(field: &Field) -> Option<u32> {
    field.metadata().get(OID_KEY).and_then(|oid| oid.parse().ok())
}

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
        650 => 651,
        774 => 775,
        829 => 1040,
        27 => 1010,
        869 => 1041,
        1042 => 1014,
        1043 => 1015,
        1082 => 1182,
        1083 => 1183,
        1114 => 1115,
        1184 => 1185,
        1266 => 1270,
        1186 => 1187,
        1560 => 1561,
        1562 => 1563,
        1700 => 1231,
        2249 => 2287,
        2950 => 2951,
        3802 => 3807,
        4072 => 4073,
        own => match SqlType::range_of_oid(own) {
            Some(of) => SqlType::Array(ArrayType::of_items(of)).oid(),
            None => EnumType::newest(own).map_or(1009, |of| of.array_oid),
        },
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
        26 => Some(Field::new("", DataType::UInt32, true)),
        24 | 2205 | 2206 | 4089 | 4096 => {
            let metadata = [(OID_KEY.to_string(), oid.to_string())].into();
            Some(Field::new("", DataType::UInt32, true).with_metadata(metadata))
        }
        18 | 25 | 705 | 2278 | 4072 => known(SqlType::Text),
        1042 => known(SqlType::Bpchar),
        19 => known(SqlType::Name),
        1043 => known(SqlType::Varchar),
        114 => known(SqlType::Json),
        3802 => known(SqlType::Jsonb),
        700 => known(SqlType::Float4),
        701 => known(SqlType::Float8),
        1082 => known(SqlType::Date),
        1083 => known(SqlType::Time),
        1114 => known(SqlType::Timestamp),
        1184 => known(SqlType::TimestampTz),
        1266 => known(SqlType::TimeTz),
        1186 => Some(Field::new("", DataType::Interval(IntervalUnit::MonthDayNano), true)),
        // As a parameter, numeric keeps what digits it has: the scale is the value's own.
        1700 => known(SqlType::Numeric),
        1560 => known(SqlType::Bit),
        1562 => known(SqlType::VarBit),
        2950 => known(SqlType::Uuid),
        650 => known(SqlType::Cidr),
        774 => known(SqlType::MacAddr8),
        829 => known(SqlType::MacAddr),
        27 => known(SqlType::Tid),
        869 => known(SqlType::Inet),
        own if let Some(of) = SqlType::range_of_oid(own) => known(of),
        own if let Some(of) = UserRange::element_of(own) => known(SqlType::Array(ArrayType::of_items(of))),
        1002 => known(SqlType::Array(ArrayType::of_items(SqlType::Text))),
        own if let Some(of) = EnumType::newest(own) => match SqlType::Enum(of) {
            one if of.oid == own => known(one),
            one => known(SqlType::Array(ArrayType::of_items(one))),
        },
        1028 => Some(Field::new("", DataType::new_list(DataType::UInt32, true), true)),
        _ => ARRAY_ELEMENTS.into_iter().find_map(|element| {
            let array = SqlType::Array(ArrayType::of_items(SqlType::of_oid(element, -1)?));
            (array.oid() == oid).then(|| array.field("", true))
        }),
    }
}

/// The oids of the types whose arrays a parameter can be.
const ARRAY_ELEMENTS: [u32; 40] = [
    27, 3904, 3906, 3908, 3910, 3912, 3926, 4451, 4532, 4533, 4534, 4535, 4536, 650, 774, 829, 869, 16, 17, 19, 20, 21,
    23, 25, 114, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1266, 1560, 1562, 1700, 2950, 3802,
];
