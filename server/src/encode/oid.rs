//! `pg_type.oid` of the built-in types that the wire knows, and what RowDescription says of them.

use arrow::datatypes::DataType;
use tenon_storage::composite_type::of_rows_of_array;
use tenon_storage::range::{UserRange, is_range};
use tenon_storage::{EnumType, SqlType};

pub const BOOL: u32 = 16;
pub const BYTEA: u32 = 17;
pub const CHAR: u32 = 18;
pub const NAME: u32 = 19;
pub const INT8: u32 = 20;
pub const INT2: u32 = 21;
pub const INT2VECTOR: u32 = 22;
pub const INT4: u32 = 23;
pub const REGPROC: u32 = 24;
pub const TEXT: u32 = 25;
pub const OID: u32 = 26;
pub const XID: u32 = 28;
pub const CID: u32 = 29;
pub const TID: u32 = 27;
pub const OIDVECTOR: u32 = 30;
pub const JSON: u32 = 114;
pub const CIDR: u32 = 650;
pub const MACADDR8: u32 = 774;
pub const MACADDR: u32 = 829;
pub const INET: u32 = 869;
pub const FLOAT4: u32 = 700;
pub const FLOAT8: u32 = 701;
pub const UNKNOWN: u32 = 705;
pub const BPCHAR: u32 = 1042;
pub const VARCHAR: u32 = 1043;
pub const DATE: u32 = 1082;
pub const TIME: u32 = 1083;
pub const TIMETZ: u32 = 1266;
pub const TIMESTAMP: u32 = 1114;
pub const TIMESTAMPTZ: u32 = 1184;
pub const INTERVAL: u32 = 1186;
pub const BIT: u32 = 1560;
pub const VARBIT: u32 = 1562;
pub const NUMERIC: u32 = 1700;
pub const REGCLASS: u32 = 2205;
pub const REGTYPE: u32 = 2206;
pub const RECORD: u32 = 2249;
pub const VOID: u32 = 2278;
pub const RECORD_ARRAY: u32 = 2287;
pub const UUID: u32 = 2950;
pub const JSONB: u32 = 3802;
pub const JSONPATH: u32 = 4072;

/// Array type and element type, both ways round.
const ARRAYS: &[(u32, u32)] = &[
    (651, CIDR),
    (775, MACADDR8),
    (1000, BOOL),
    (1001, BYTEA),
    (1002, CHAR),
    (1003, NAME),
    (1005, INT2),
    (1007, INT4),
    (1009, TEXT),
    (1014, BPCHAR),
    (1010, TID),
    (1015, VARCHAR),
    (1016, INT8),
    (1021, FLOAT4),
    (1022, FLOAT8),
    (1028, OID),
    (1040, MACADDR),
    (1041, INET),
    (1115, TIMESTAMP),
    (1182, DATE),
    (1183, TIME),
    (1270, TIMETZ),
    (1185, TIMESTAMPTZ),
    (1187, INTERVAL),
    (1231, NUMERIC),
    (1561, BIT),
    (1563, VARBIT),
    (199, JSON),
    (RECORD_ARRAY, RECORD),
    (2951, UUID),
    (3807, JSONB),
    (4073, JSONPATH),
    // Ranges and multiranges.
    (3905, 3904),
    (3907, 3906),
    (3909, 3908),
    (3911, 3910),
    (3913, 3912),
    (3927, 3926),
    (6150, 4451),
    (6151, 4532),
    (6152, 4533),
    (6153, 4534),
    (6155, 4535),
    (6157, 4536),
    (INT2VECTOR, INT2),
    (OIDVECTOR, OID),
];

/// The type of an oid, where it is one of addresses.
pub fn address(oid: u32) -> Option<SqlType> {
    Some(match oid {
        INET => SqlType::Inet,
        CIDR => SqlType::Cidr,
        MACADDR => SqlType::MacAddr,
        MACADDR8 => SqlType::MacAddr8,
        TID => SqlType::Tid,
        _ => return None,
    })
}

/// The element type of an array type.
pub fn element_of(array: u32) -> Option<u32> {
    let built_in = ARRAYS.iter().find(|(a, _)| *a == array).map(|(_, element)| *element);
    built_in.or_else(|| UserRange::element_of(array).map(SqlType::oid))
}

/// The composite type whose arrays' type has an oid, which is the one behind its own.
pub fn record_of(array: u32, data_type: &DataType) -> Option<u32> {
    let mut leaf = data_type;
    while let DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) = leaf {
        leaf = item.data_type();
    }
    let is_array = leaf != data_type && matches!(leaf, DataType::Struct(_)) && !is_range(leaf);
    (is_array && array != RECORD_ARRAY)
        .then(|| of_rows_of_array(array).or(array.checked_sub(1)))
        .flatten()
}

/// The array type of an element type.
pub fn array_of(element: u32) -> Option<u32> {
    ARRAYS.iter().find(|(_, e)| *e == element).map(|(array, _)| *array)
}

/// `pg_type.typlen`: bytes of a fixed-size type, -1 for the others.
pub fn type_size(oid: u32) -> i16 {
    match oid {
        BOOL | CHAR => 1,
        INT2 => 2,
        INT4 | FLOAT4 | DATE | OID | REGPROC | REGCLASS | REGTYPE | XID | CID => 4,
        INT8 | FLOAT8 | TIME | TIMESTAMP | TIMESTAMPTZ => 8,
        MACADDR | TID => 6,
        MACADDR8 => 8,
        TIMETZ => 12,
        INTERVAL | UUID => 16,
        NAME => 64,
        UNKNOWN => -2,
        VOID => 4,
        own if EnumType::newest(own).is_some_and(|of| of.oid == own) => 4,
        _ => -1,
    }
}
