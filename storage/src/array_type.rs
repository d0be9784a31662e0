//! The type of an array: its element's, and how many dimensions its values have.

use crate::types::SqlType;
use arrow::datatypes::{DataType, Field};
use std::fmt;
use std::sync::Arc;

/// An array type. Its Arrow type is a list, of lists where it has several dimensions.
///
/// The element stands as its oid and modifier, an enum as its oid and version, a composite type as its oid and place, so that the type can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayType {
    element: u32,
    typmod: i32,
    dimensions: u8,
}

impl ArrayType {
    /// The array whose items are of this type: of one dimension more, where that is an array.
    pub fn of_items(item: SqlType) -> ArrayType {
        match item {
            SqlType::Array(inner) => ArrayType {
                dimensions: inner.dimensions.saturating_add(1),
                ..inner
            },
            scalar => ArrayType {
                element: scalar.oid(),
                typmod: match scalar {
                    SqlType::Enum(of) => of.version() as i32,
                    SqlType::Composite(of) => of.place() as i32,
                    other => other.typmod(),
                },
                dimensions: 1,
            },
        }
    }

    pub fn with_dimensions(self, dimensions: usize) -> ArrayType {
        ArrayType {
            dimensions: dimensions.clamp(1, usize::from(u8::MAX)) as u8,
            ..self
        }
    }

    pub fn element(self) -> SqlType {
        SqlType::of_oid(self.element, self.typmod).unwrap_or(SqlType::Text)
    }

    pub fn dimensions(self) -> usize {
        usize::from(self.dimensions)
    }

    pub(crate) fn data_type(self) -> DataType {
        (0..self.dimensions).fold(self.element().data_type(), |item, _| {
            DataType::List(Arc::new(Field::new("item", item, true)))
        })
    }

    /// `pg_type.oid`.
    pub(crate) fn oid(self) -> u32 {
        match self.element {
            16 => 1000,
            17 => 1001,
            19 => 1003,
            20 => 1016,
            21 => 1005,
            23 => 1007,
            25 => 1009,
            27 => 1010,
            114 => 199,
            650 => 651,
            700 => 1021,
            701 => 1022,
            774 => 775,
            829 => 1040,
            869 => 1041,
            1042 => 1014,
            1043 => 1015,
            1082 => 1182,
            1083 => 1183,
            1114 => 1115,
            1184 => 1185,
            1186 => 1187,
            1266 => 1270,
            1700 => 1231,
            1560 => 1561,
            1562 => 1563,
            2950 => 2951,
            3802 => 3807,
            _ => match self.element() {
                SqlType::Enum(of) => of.array_oid,
                SqlType::Composite(of) => of.array_oid(),
                SqlType::Range(of) => of.oids().1,
                SqlType::Multirange(of) => of.multirange_oids().1,
                _ => 1009,
            },
        }
    }

    pub(crate) fn base_name(self) -> &'static str {
        match self.element() {
            SqlType::Bool => "boolean[]",
            SqlType::Int2 => "smallint[]",
            SqlType::Int4 => "integer[]",
            SqlType::Int8 => "bigint[]",
            SqlType::Float4 => "real[]",
            SqlType::Float8 => "double precision[]",
            SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => "numeric[]",
            SqlType::Name => "name[]",
            SqlType::Varchar | SqlType::VarcharOf(_) => "character varying[]",
            SqlType::CharOf(_) | SqlType::Bpchar => "character[]",
            SqlType::Date => "date[]",
            SqlType::Time | SqlType::TimeOf(_) => "time without time zone[]",
            SqlType::TimeTz | SqlType::TimeTzOf(_) => "time with time zone[]",
            SqlType::Timestamp | SqlType::TimestampOf(_) => "timestamp without time zone[]",
            SqlType::TimestampTz | SqlType::TimestampTzOf(_) => "timestamp with time zone[]",
            SqlType::Interval | SqlType::IntervalOf(..) => "interval[]",
            SqlType::Bytea => "bytea[]",
            SqlType::Uuid => "uuid[]",
            SqlType::Json => "json[]",
            SqlType::Jsonb => "jsonb[]",
            SqlType::Bit | SqlType::BitOf(_) => "bit[]",
            SqlType::VarBit | SqlType::VarBitOf(_) => "bit varying[]",
            SqlType::Inet => "inet[]",
            SqlType::Cidr => "cidr[]",
            SqlType::MacAddr => "macaddr[]",
            SqlType::MacAddr8 => "macaddr8[]",
            SqlType::Tid => "tid[]",
            SqlType::Range(of) => of.array_names().0,
            SqlType::Multirange(of) => of.array_names().1,
            SqlType::Enum(of) => &of.array_name,
            SqlType::Composite(of) => &of.array_name,
            _ => "text[]",
        }
    }
}

impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.element())?;
        (0..self.dimensions).try_for_each(|_| f.write_str("[]"))
    }
}
