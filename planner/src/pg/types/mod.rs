//! SQL types between the parser, DataFusion and the wire.

mod describe;
pub(crate) mod planner;

pub use describe::pg_type;
pub(crate) use describe::{array_oid, describe, type_for_oid, type_oid};
pub(crate) use tenon_storage::types::{ARRAY_OID_KEY, OID_KEY};

use datafusion::arrow::datatypes::DataType;
use tenon_storage::SqlType;

/// What carries `"char"`.
pub(crate) fn char_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))
}

/// PostgreSQL's name of a type, as its errors write it.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric".into(),
        DataType::List(item) => format!("{}[]", type_name(item.data_type())),
        DataType::Struct(_) if SqlType::range_of(data_type).is_none() => "record".into(),
        other => SqlType::from_data_type(other).map_or_else(|| other.to_string(), |known| known.to_string()),
    }
}
