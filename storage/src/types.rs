//! The SQL types of columns and how each is stored: the one mapping between `SqlType` and Arrow fields.
//!
//! More than 400 lines because it is the one mapping of types, a few lines for each.

use crate::array_type::ArrayType;
use crate::bits::{BITS, BITS_MAX};
use crate::composite_type::{CompositeType, Described};
use crate::datetime::{IntervalRange, TIMETZ_BYTES};
use crate::enum_type::EnumType;
use crate::error::{ErrorKind, Result, StorageError};
use crate::network;
use crate::range::RangeType;
use crate::tid::TID;
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Key of the Arrow field metadata that names the declared SQL type where the Arrow type alone does not.
pub const TYPE_KEY: &str = "tenon.type";
/// Metadata that names a `pg_type.oid`: of what has no storage type (oid, name, regclass), and of composite values.
pub const OID_KEY: &str = "tenon.oid";
/// Beside it, in the metadata of composite values: the `pg_type.oid` of the type of their arrays.
pub const ARRAY_OID_KEY: &str = "tenon.array_oid";
/// What a composite type is called in metadata, with its place among those of the process: no type's name begins so.
const COMPOSITE: &str = "\u{1}composite ";
/// What holds numerics of any precision, with the display scale of each value: see `numeric::key`. Byte strings are never
/// of this type.
pub const NUMERIC: DataType = DataType::LargeBinary;
/// The first oid of what is made by statements.
pub const OIDS_OF_OBJECTS: u32 = 16_384;
/// Longest n in `varchar(n)`, as in PostgreSQL.
pub const MAX_LENGTH: u32 = 10_485_760;

/// A column's SQL type.
///
/// `char(n)` values are stored without their trailing blanks, so that plain string comparison is right; the wire pads
/// them again. `uuid` is 16 bytes, `json` its text. `jsonb` is the text that `json::Json` writes, in an Arrow type of its own, so
/// that whatever computes with it keeps its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SqlType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// `numeric`: any precision, NaN and infinities.
    Numeric,
    /// `numeric(precision, scale)` that a decimal of 128 bits holds.
    NumericOf(u8, i8),
    /// `numeric(precision, scale)` beyond that: stored like `numeric`.
    NumericWide(u16, i16),
    Text,
    /// At most 63 bytes: longer texts are cut.
    Name,
    Varchar,
    VarcharOf(u32),
    CharOf(u32),
    /// `char(n)` values of any n beside each other, and strings beside them: stored with their blanks.
    Bpchar,
    Date,
    Time,
    /// So many digits of the seconds.
    TimeOf(u8),
    TimeTz,
    TimeTzOf(u8),
    Timestamp,
    TimestampOf(u8),
    TimestampTz,
    TimestampTzOf(u8),
    Interval,
    /// The fields that are kept, and digits of the seconds.
    IntervalOf(Option<IntervalRange>, Option<u8>),
    Bytea,
    Uuid,
    Json,
    Jsonb,
    /// `bit` of any length, which casts and columns never name: what operators give.
    Bit,
    BitOf(u32),
    VarBit,
    VarBitOf(u32),
    Inet,
    Cidr,
    MacAddr,
    MacAddr8,
    /// A row's address.
    Tid,
    Range(RangeType),
    Multirange(RangeType),
    Enum(&'static EnumType),
    Composite(&'static CompositeType),
    Array(ArrayType),
}

/// The types without a modifier, but for arrays.
const SCALARS: [SqlType; 28] = [
    SqlType::Bool,
    SqlType::Int2,
    SqlType::Int4,
    SqlType::Int8,
    SqlType::Float4,
    SqlType::Float8,
    SqlType::Numeric,
    SqlType::Text,
    SqlType::Name,
    SqlType::Varchar,
    SqlType::Bpchar,
    SqlType::Date,
    SqlType::Time,
    SqlType::TimeTz,
    SqlType::Timestamp,
    SqlType::TimestampTz,
    SqlType::Interval,
    SqlType::Bytea,
    SqlType::Uuid,
    SqlType::Json,
    SqlType::Jsonb,
    SqlType::Bit,
    SqlType::VarBit,
    SqlType::Inet,
    SqlType::Cidr,
    SqlType::MacAddr,
    SqlType::MacAddr8,
    SqlType::Tid,
];

/// The time zone string of `timestamptz` columns.
pub const UTC: &str = "UTC";

impl SqlType {
    /// The type that the column's arrays have.
    pub fn data_type(self) -> DataType {
        match self {
            SqlType::Bool => DataType::Boolean,
            SqlType::Int2 => DataType::Int16,
            SqlType::Int4 => DataType::Int32,
            SqlType::Int8 => DataType::Int64,
            SqlType::Float4 => DataType::Float32,
            SqlType::Float8 => DataType::Float64,
            SqlType::Numeric | SqlType::NumericWide(..) => NUMERIC,
            SqlType::NumericOf(precision, scale) => DataType::Decimal128(precision, scale),
            SqlType::Text
            | SqlType::Name
            | SqlType::Varchar
            | SqlType::VarcharOf(_)
            | SqlType::CharOf(_)
            | SqlType::Bpchar
            | SqlType::Json => DataType::Utf8View,
            SqlType::Jsonb => DataType::LargeUtf8,
            SqlType::Date => DataType::Date32,
            SqlType::Time | SqlType::TimeOf(_) => DataType::Time64(TimeUnit::Microsecond),
            SqlType::TimeTz | SqlType::TimeTzOf(_) => DataType::FixedSizeBinary(TIMETZ_BYTES as i32),
            SqlType::Timestamp | SqlType::TimestampOf(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            SqlType::TimestampTz | SqlType::TimestampTzOf(_) => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
            }
            SqlType::Interval | SqlType::IntervalOf(..) => DataType::Interval(IntervalUnit::MonthDayNano),
            SqlType::Bytea => DataType::BinaryView,
            SqlType::Uuid => DataType::FixedSizeBinary(16),
            SqlType::Bit | SqlType::BitOf(_) | SqlType::VarBit | SqlType::VarBitOf(_) => BITS,
            SqlType::Inet => network::INET,
            SqlType::Cidr => network::CIDR,
            SqlType::MacAddr => network::MACADDR,
            SqlType::MacAddr8 => network::MACADDR8,
            SqlType::Tid => TID,
            SqlType::Range(of) => of.data_type(),
            SqlType::Multirange(of) => of.multirange_data_type(),
            SqlType::Enum(of) => of.data_type(),
            SqlType::Composite(of) => of.data_type(),
            SqlType::Array(of) => of.data_type(),
        }
    }

    /// The field of a column: metadata is present only where the Arrow type does not say the SQL type.
    pub fn field(self, name: impl Into<String>, nullable: bool) -> Field {
        let field = Field::new(name, self.data_type(), nullable);
        let told = SqlType::from_data_type(field.data_type()) == Some(self);
        if told {
            field
        } else {
            let mut metadata = vec![(TYPE_KEY.to_string(), self.mark())];
            match self {
                SqlType::Composite(of) => metadata.extend(of.oids()),
                SqlType::Array(of) if let SqlType::Composite(_) = of.element() => {
                    metadata.push((OID_KEY.to_string(), self.oid().to_string()));
                }
                _ => {}
            }
            field.with_metadata(metadata.into_iter().collect())
        }
    }

    /// What metadata calls the type.
    fn mark(self) -> String {
        match self {
            SqlType::Composite(of) => format!("{COMPOSITE}{}", of.place()),
            SqlType::Array(of) if let SqlType::Composite(_) = of.element() => {
                of.element().mark() + &"[]".repeat(of.dimensions())
            }
            other => other.to_string(),
        }
    }

    fn of_mark(text: &str) -> Option<SqlType> {
        match text.strip_prefix(COMPOSITE) {
            Some(place) => {
                let own = place.trim_end_matches("[]");
                let of = SqlType::Composite(CompositeType::at(own.parse().ok()?)?);
                let dimensions = (place.len() - own.len()) / 2;
                Some((0..dimensions).fold(of, |item, _| SqlType::Array(ArrayType::of_items(item))))
            }
            None => text.parse().ok(),
        }
    }

    /// The SQL type of a field: what its metadata declares, else what its Arrow type corresponds to.
    pub fn from_field(field: &Field) -> Option<SqlType> {
        field
            .metadata()
            .get(TYPE_KEY)
            .and_then(|declared| SqlType::of_mark(declared))
            .filter(|declared: &SqlType| declared.data_type() == *field.data_type())
            .or_else(|| SqlType::from_data_type(field.data_type()))
            .or_else(|| SqlType::composite_of(field))
    }

    /// The composite type, or that of an array's items, whose oid a field tells.
    fn composite_of(field: &Field) -> Option<SqlType> {
        let oid = field.metadata().get(OID_KEY)?.parse().ok()?;
        let (mut item, mut dimensions) = (field.data_type(), 0);
        while let DataType::List(own) = item {
            (item, dimensions) = (own.data_type(), dimensions + 1);
        }
        Some(match dimensions {
            0 => SqlType::Composite(CompositeType::of_oid(oid, item)?),
            _ => {
                let of = SqlType::Composite(CompositeType::of_array_oid(oid, item)?);
                SqlType::Array(ArrayType::of_items(of).with_dimensions(dimensions))
            }
        })
    }

    /// The SQL type in which values of an Arrow type are kept: also of types that storage widens (unsigned integers,
    /// other time units, other string layouts, dictionaries).
    pub fn from_data_type(data_type: &DataType) -> Option<SqlType> {
        Some(match data_type {
            DataType::Boolean => SqlType::Bool,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => SqlType::Int2,
            DataType::UInt16 | DataType::Int32 => SqlType::Int4,
            DataType::UInt32 | DataType::Int64 => SqlType::Int8,
            DataType::UInt64 => SqlType::NumericOf(20, 0),
            DataType::Float16 | DataType::Float32 => SqlType::Float4,
            DataType::Float64 => SqlType::Float8,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale) => SqlType::NumericOf(*precision, *scale),
            DataType::Decimal256(..) | DataType::LargeBinary => SqlType::Numeric,
            DataType::Utf8 | DataType::Utf8View | DataType::Null => SqlType::Text,
            DataType::LargeUtf8 => SqlType::Jsonb,
            DataType::Date32 => SqlType::Date,
            DataType::Time32(_) | DataType::Time64(_) => SqlType::Time,
            DataType::Date64 | DataType::Timestamp(_, None) => SqlType::Timestamp,
            DataType::Timestamp(_, Some(_)) => EnumType::of(data_type).map_or(SqlType::TimestampTz, SqlType::Enum),
            DataType::Interval(_) | DataType::Duration(_) => SqlType::Interval,
            DataType::BinaryView => SqlType::Bytea,
            DataType::Binary => SqlType::Bit,
            DataType::FixedSizeBinary(16) => SqlType::Uuid,
            DataType::FixedSizeBinary(12) => SqlType::TimeTz,
            of if *of == network::INET => SqlType::Inet,
            of if *of == network::CIDR => SqlType::Cidr,
            of if *of == network::MACADDR => SqlType::MacAddr,
            of if *of == network::MACADDR8 => SqlType::MacAddr8,
            of if *of == TID => SqlType::Tid,
            DataType::FixedSizeBinary(_) => SqlType::Bytea,
            DataType::Struct(_) => SqlType::range_of(data_type)?,
            DataType::Dictionary(_, values) => SqlType::from_data_type(values)?,
            DataType::RunEndEncoded(_, values) => SqlType::from_data_type(values.data_type())?,
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                SqlType::Array(ArrayType::of_items(SqlType::from_field(item)?))
            }
            _ => return None,
        })
    }

    /// `pg_type.oid`.
    pub fn oid(self) -> u32 {
        match self {
            SqlType::Bool => 16,
            SqlType::Bytea => 17,
            SqlType::Name => 19,
            SqlType::Int8 => 20,
            SqlType::Int2 => 21,
            SqlType::Int4 => 23,
            SqlType::Text => 25,
            SqlType::Tid => 27,
            SqlType::Json => 114,
            SqlType::Cidr => 650,
            SqlType::Float4 => 700,
            SqlType::Float8 => 701,
            SqlType::MacAddr8 => 774,
            SqlType::MacAddr => 829,
            SqlType::Inet => 869,
            SqlType::CharOf(_) | SqlType::Bpchar => 1042,
            SqlType::Varchar | SqlType::VarcharOf(_) => 1043,
            SqlType::Date => 1082,
            SqlType::Time | SqlType::TimeOf(_) => 1083,
            SqlType::Timestamp | SqlType::TimestampOf(_) => 1114,
            SqlType::TimestampTz | SqlType::TimestampTzOf(_) => 1184,
            SqlType::Interval | SqlType::IntervalOf(..) => 1186,
            SqlType::TimeTz | SqlType::TimeTzOf(_) => 1266,
            SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => 1700,
            SqlType::Bit | SqlType::BitOf(_) => 1560,
            SqlType::VarBit | SqlType::VarBitOf(_) => 1562,
            SqlType::Uuid => 2950,
            SqlType::Jsonb => 3802,
            SqlType::Range(of) => of.oids().0,
            SqlType::Multirange(of) => of.multirange_oids().0,
            SqlType::Enum(of) => of.oid,
            SqlType::Composite(of) => of.oid(),
            SqlType::Array(of) => of.oid(),
        }
    }

    /// `pg_attribute.atttypmod`; -1 where the type has none.
    pub fn typmod(self) -> i32 {
        match self {
            SqlType::VarcharOf(length) | SqlType::CharOf(length) => length as i32 + 4,
            SqlType::BitOf(length) | SqlType::VarBitOf(length) => length as i32,
            SqlType::NumericOf(precision, scale) => ((i32::from(precision) << 16) | (i32::from(scale) & 0x7ff)) + 4,
            SqlType::NumericWide(precision, scale) => ((i32::from(precision) << 16) | (i32::from(scale) & 0x7ff)) + 4,
            SqlType::TimeOf(digits)
            | SqlType::TimeTzOf(digits)
            | SqlType::TimestampOf(digits)
            | SqlType::TimestampTzOf(digits) => digits.into(),
            SqlType::IntervalOf(range, digits) => {
                let bits = range.map_or(0x7fff, IntervalRange::bits);
                (bits << 16) | digits.map_or(0xffff, i32::from)
            }
            SqlType::Array(of) => of.element().typmod(),
            _ => -1,
        }
    }

    /// Digits of the seconds that a declared time keeps; None: all.
    pub fn seconds_digits(self) -> Option<u8> {
        match self {
            SqlType::TimeOf(digits)
            | SqlType::TimeTzOf(digits)
            | SqlType::TimestampOf(digits)
            | SqlType::TimestampTzOf(digits) => Some(digits),
            SqlType::IntervalOf(_, digits) => digits,
            _ => None,
        }
    }

    /// What a declared interval keeps.
    pub fn interval_limits(self) -> (Option<IntervalRange>, Option<u8>) {
        match self {
            SqlType::IntervalOf(range, digits) => (range, digits),
            _ => (None, None),
        }
    }

    /// Dates, times and intervals.
    pub fn is_temporal(self) -> bool {
        matches!(
            self.unlimited(),
            SqlType::Date
                | SqlType::Time
                | SqlType::TimeTz
                | SqlType::Timestamp
                | SqlType::TimestampTz
                | SqlType::Interval
        )
    }

    /// A time's or interval's type without digits and fields, a bit string's without a length; others as they are.
    pub fn unlimited(self) -> SqlType {
        match self {
            SqlType::TimeOf(_) => SqlType::Time,
            SqlType::TimeTzOf(_) => SqlType::TimeTz,
            SqlType::TimestampOf(_) => SqlType::Timestamp,
            SqlType::TimestampTzOf(_) => SqlType::TimestampTz,
            SqlType::IntervalOf(..) => SqlType::Interval,
            SqlType::BitOf(_) => SqlType::Bit,
            SqlType::VarBitOf(_) => SqlType::VarBit,
            other => other,
        }
    }

    /// The type of an oid and a modifier that a scalar type has; of an enum and its version, of a composite type and its place.
    pub fn of_oid(oid: u32, typmod: i32) -> Option<SqlType> {
        let length = u32::try_from(typmod - 4)
            .ok()
            .filter(|length| (1..=MAX_LENGTH).contains(length));
        Some(match (oid, length) {
            (1043, Some(length)) => SqlType::VarcharOf(length),
            (1042, Some(length)) => SqlType::CharOf(length),
            (1560, _) if typmod > 0 => SqlType::BitOf(typmod as u32),
            (1562, _) if typmod > 0 => SqlType::VarBitOf(typmod as u32),
            (1700, _) if typmod >= 4 => {
                let packed = i64::from(typmod - 4);
                // The scale has eleven bits, one of them its sign.
                SqlType::numeric(packed >> 16, ((packed & 0x7ff) ^ 0x400) - 0x400).ok()?
            }
            (1083, _) if (0..=6).contains(&typmod) => SqlType::TimeOf(typmod as u8),
            (1266, _) if (0..=6).contains(&typmod) => SqlType::TimeTzOf(typmod as u8),
            (1114, _) if (0..=6).contains(&typmod) => SqlType::TimestampOf(typmod as u8),
            (1184, _) if (0..=6).contains(&typmod) => SqlType::TimestampTzOf(typmod as u8),
            _ if let Some(of) = SqlType::range_of_oid(oid) => of,
            _ if oid >= OIDS_OF_OBJECTS => {
                let version = u32::try_from(typmod).ok()?;
                let of = EnumType::of_version(version).filter(|of| of.oid == oid);
                match of {
                    Some(of) => SqlType::Enum(of),
                    None => SqlType::Composite(CompositeType::at(version).filter(|of| of.oid() == oid)?),
                }
            }
            _ => *SCALARS.iter().find(|known| known.oid() == oid)?,
        })
    }

    /// The name as PostgreSQL's `format_type` and its error messages give it.
    pub fn sql_name(self) -> String {
        self.to_string()
    }

    /// The name without length or precision, as input errors give it.
    pub fn base_name(self) -> &'static str {
        match self {
            SqlType::Bool => "boolean",
            SqlType::Int2 => "smallint",
            SqlType::Int4 => "integer",
            SqlType::Int8 => "bigint",
            SqlType::Float4 => "real",
            SqlType::Float8 => "double precision",
            SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => "numeric",
            SqlType::Text => "text",
            SqlType::Name => "name",
            SqlType::Varchar | SqlType::VarcharOf(_) => "character varying",
            SqlType::CharOf(_) | SqlType::Bpchar => "character",
            SqlType::Date => "date",
            SqlType::Time | SqlType::TimeOf(_) => "time",
            SqlType::TimeTz | SqlType::TimeTzOf(_) => "time with time zone",
            SqlType::Timestamp | SqlType::TimestampOf(_) => "timestamp",
            SqlType::TimestampTz | SqlType::TimestampTzOf(_) => "timestamp with time zone",
            SqlType::Interval | SqlType::IntervalOf(..) => "interval",
            SqlType::Bytea => "bytea",
            SqlType::Uuid => "uuid",
            SqlType::Json => "json",
            SqlType::Jsonb => "jsonb",
            SqlType::Bit | SqlType::BitOf(_) => "bit",
            SqlType::VarBit | SqlType::VarBitOf(_) => "bit varying",
            SqlType::Inet => "inet",
            SqlType::Cidr => "cidr",
            SqlType::MacAddr => "macaddr",
            SqlType::MacAddr8 => "macaddr8",
            SqlType::Tid => "tid",
            SqlType::Range(of) => of.name(),
            SqlType::Multirange(of) => of.multirange_name(),
            SqlType::Enum(of) => &of.name,
            SqlType::Composite(of) => of.name(),
            SqlType::Array(of) => of.base_name(),
        }
    }

    /// Strings whose values are compared byte by byte.
    pub fn is_string(self) -> bool {
        self.data_type() == DataType::Utf8View
    }

    /// Whether values are compared by a collation: texts and arrays of such, but not json.
    pub fn is_collated(self) -> bool {
        match self {
            SqlType::Array(of) => of.element().is_collated(),
            of => matches!(of.oid(), 19 | 25 | 1042 | 1043),
        }
    }

    /// `bit` and `bit varying`.
    pub fn is_bits(self) -> bool {
        self.data_type() == BITS
    }

    /// The type of addresses that an Arrow type is.
    pub fn address_of(data_type: &DataType) -> Option<SqlType> {
        SqlType::from_data_type(data_type).filter(|of| of.is_address())
    }

    /// `inet`, `cidr`, `macaddr`, `macaddr8`, and `tid`: addresses of hosts, of interfaces, of rows.
    pub fn is_address(self) -> bool {
        matches!(
            self,
            SqlType::Inet | SqlType::Cidr | SqlType::MacAddr | SqlType::MacAddr8 | SqlType::Tid
        )
    }

    /// Strings of which a value keeps so much only.
    pub fn is_limited_string(self) -> bool {
        matches!(self, SqlType::Name | SqlType::VarcharOf(_) | SqlType::CharOf(_))
    }

    /// Types whose declared length is checked when a row is written.
    pub fn has_length(self) -> bool {
        self.is_limited_string() || matches!(self, SqlType::BitOf(_) | SqlType::VarBitOf(_))
    }

    /// `numeric(precision, scale)`.
    pub fn numeric(precision: i64, scale: i64) -> Result<SqlType> {
        if !(1..=1000).contains(&precision) {
            let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
            return Err(StorageError::new(ErrorKind::InvalidParameter, message));
        }
        if !(-1000..=1000).contains(&scale) {
            let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
            return Err(StorageError::new(ErrorKind::InvalidParameter, message));
        }
        if precision > 38 || !(0..=precision).contains(&scale) {
            return Ok(SqlType::NumericWide(precision as u16, scale as i16));
        }
        Ok(SqlType::NumericOf(precision as u8, scale as i8))
    }
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlType::NumericOf(precision, scale) => write!(f, "numeric({precision},{scale})"),
            SqlType::NumericWide(precision, scale) => write!(f, "numeric({precision},{scale})"),
            SqlType::VarcharOf(length) => write!(f, "character varying({length})"),
            SqlType::CharOf(length) => write!(f, "character({length})"),
            SqlType::Bpchar => f.write_str("bpchar"),
            SqlType::BitOf(length) => write!(f, "bit({length})"),
            SqlType::VarBitOf(length) => write!(f, "bit varying({length})"),
            SqlType::Time => f.write_str("time without time zone"),
            SqlType::Timestamp => f.write_str("timestamp without time zone"),
            SqlType::TimeOf(digits) => write!(f, "time({digits}) without time zone"),
            SqlType::TimeTzOf(digits) => write!(f, "time({digits}) with time zone"),
            SqlType::TimestampOf(digits) => write!(f, "timestamp({digits}) without time zone"),
            SqlType::TimestampTzOf(digits) => write!(f, "timestamp({digits}) with time zone"),
            SqlType::IntervalOf(range, digits) => {
                f.write_str("interval")?;
                if let Some(range) = range {
                    write!(f, " {}", range.name())?;
                }
                digits.map_or(Ok(()), |digits| write!(f, "({digits})"))
            }
            SqlType::Enum(of) => f.write_str(&crate::quote::identifier(&of.name)),
            SqlType::Range(of @ RangeType::User(_)) => f.write_str(&crate::quote::identifier(of.name())),
            SqlType::Multirange(of @ RangeType::User(_)) => {
                f.write_str(&crate::quote::identifier(of.multirange_name()))
            }
            SqlType::Composite(of) => f.write_str(&crate::quote::identifier(of.name())),
            SqlType::Array(of) => of.fmt(f),
            other => f.write_str(other.base_name()),
        }
    }
}

/// As text: `Display`'s, but that an enum is its oid and version, a composite type all that there is to it, and so are an
/// array's items.
impl Serialize for SqlType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&stored(*self))
    }
}

impl<'de> Deserialize<'de> for SqlType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SqlType, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        from_stored(&text).ok_or_else(|| serde::de::Error::custom(format!("no type is stored as \"{text}\"")))
    }
}

fn stored(of: SqlType) -> String {
    match of {
        SqlType::Enum(of) => format!("enum {} {}", of.oid, of.version()),
        SqlType::Composite(of) => {
            let own = serde_json::to_string(of.describe()).unwrap_or_default();
            format!("composite {own}")
        }
        SqlType::Range(RangeType::User(of)) => format!("range {}", of.oid),
        SqlType::Multirange(RangeType::User(of)) => format!("range {}", of.multirange_oid),
        SqlType::Array(of) => stored(of.element()) + &"[]".repeat(of.dimensions()),
        other => other.to_string(),
    }
}

fn from_stored(text: &str) -> Option<SqlType> {
    if let Some(item) = text.strip_suffix("[]") {
        return Some(SqlType::Array(ArrayType::of_items(from_stored(item)?)));
    }
    if let Some(own) = text.strip_prefix("composite ") {
        let own: Described = serde_json::from_str(own).ok()?;
        return Some(SqlType::Composite(CompositeType::described(own)));
    }
    if let Some(oid) = text.strip_prefix("range ") {
        return SqlType::range_of_oid(oid.parse().ok()?);
    }
    match text.strip_prefix("enum ") {
        Some(own) => {
            let (oid, version) = own.split_once(' ')?;
            SqlType::of_oid(oid.parse().ok()?, version.parse().ok()?)
        }
        None => text.parse().ok(),
    }
}

impl std::str::FromStr for SqlType {
    type Err = StorageError;

    /// Reads a type's name, as `Display` writes it or by its usual aliases, in lower case.
    fn from_str(text: &str) -> Result<SqlType> {
        if let Some(temporal) = temporal(text) {
            return Ok(temporal);
        }
        let unknown = || StorageError::new(ErrorKind::InvalidParameter, format!("type \"{text}\" does not exist"));
        if let Some(item) = text.trim_end().strip_suffix("[]") {
            return Ok(SqlType::Array(ArrayType::of_items(item.parse()?)));
        }
        let (name, arguments) = match text.split_once('(') {
            Some((name, rest)) => {
                let rest = rest.strip_suffix(')').ok_or_else(unknown)?;
                let numbers: Option<Vec<i64>> = rest.split(',').map(|number| number.trim().parse().ok()).collect();
                (name.trim(), numbers.ok_or_else(unknown)?)
            }
            None => (text.trim(), Vec::new()),
        };
        let most = if name.contains("bit") { BITS_MAX } else { MAX_LENGTH };
        let length = |of: fn(u32) -> SqlType| match arguments[0] {
            length if (1..=i64::from(most)).contains(&length) => Ok(of(length as u32)),
            length if length < 1 => {
                let message = format!("length for type {name} must be at least 1");
                Err(StorageError::new(ErrorKind::InvalidParameter, message))
            }
            _ => {
                let message = format!("length for type {name} cannot exceed {most}");
                Err(StorageError::new(ErrorKind::InvalidParameter, message))
            }
        };
        Ok(match (name, arguments.len()) {
            ("boolean" | "bool", 0) => SqlType::Bool,
            ("smallint" | "int2", 0) => SqlType::Int2,
            ("integer" | "int" | "int4", 0) => SqlType::Int4,
            ("bigint" | "int8", 0) => SqlType::Int8,
            ("real" | "float4", 0) => SqlType::Float4,
            ("double precision" | "float8" | "float", 0) => SqlType::Float8,
            ("numeric" | "decimal" | "dec", 0) => SqlType::Numeric,
            ("numeric" | "decimal" | "dec", 1) => SqlType::numeric(arguments[0], 0)?,
            ("numeric" | "decimal" | "dec", 2) => SqlType::numeric(arguments[0], arguments[1])?,
            ("text", 0) => SqlType::Text,
            ("name", 0) => SqlType::Name,
            ("character varying" | "varchar", 0) => SqlType::Varchar,
            ("character varying" | "varchar", 1) => length(SqlType::VarcharOf)?,
            ("character" | "char", 0) => SqlType::CharOf(1),
            ("bpchar", 0) => SqlType::Bpchar,
            ("character" | "char" | "bpchar", 1) => length(SqlType::CharOf)?,
            ("date", 0) => SqlType::Date,
            ("time without time zone" | "time", 0) => SqlType::Time,
            ("timestamp without time zone" | "timestamp", 0) => SqlType::Timestamp,
            ("timestamp with time zone" | "timestamptz", 0) => SqlType::TimestampTz,
            ("time with time zone" | "timetz", 0) => SqlType::TimeTz,
            ("interval", 0) => SqlType::Interval,
            ("bytea", 0) => SqlType::Bytea,
            ("uuid", 0) => SqlType::Uuid,
            ("json", 0) => SqlType::Json,
            ("jsonb", 0) => SqlType::Jsonb,
            ("inet", 0) => SqlType::Inet,
            ("cidr", 0) => SqlType::Cidr,
            ("macaddr", 0) => SqlType::MacAddr,
            ("macaddr8", 0) => SqlType::MacAddr8,
            ("tid", 0) => SqlType::Tid,
            ("bit", 0) => SqlType::Bit,
            ("bit", 1) => length(SqlType::BitOf)?,
            ("bit varying" | "varbit", 0) => SqlType::VarBit,
            ("bit varying" | "varbit", 1) => length(SqlType::VarBitOf)?,
            (name, 0) => SqlType::range_of_name(name).ok_or_else(unknown)?,
            _ => return Err(unknown()),
        })
    }
}

/// A time's or interval's name with digits or fields: `timestamp(3) with time zone`, `interval day to second(2)`.
fn temporal(text: &str) -> Option<SqlType> {
    let (name, digits) = match text.split_once('(') {
        Some((before, rest)) => {
            let (digits, after) = rest.split_once(')')?;
            (
                format!("{}{after}", before.trim_end()),
                Some(digits.trim().parse::<u32>().ok()?.min(6) as u8),
            )
        }
        None => (text.to_string(), None),
    };
    if let Some(fields) = name.strip_prefix("interval") {
        let fields = fields.trim();
        let range = IntervalRange::ALL.into_iter().find(|range| range.name() == fields);
        return match (range, digits) {
            (None, None) => None,
            (None, _) if !fields.is_empty() => None,
            limits => Some(SqlType::IntervalOf(limits.0, limits.1)),
        };
    }
    let digits = digits?;
    Some(match name.as_str() {
        "time" | "time without time zone" => SqlType::TimeOf(digits),
        "timetz" | "time with time zone" => SqlType::TimeTzOf(digits),
        "timestamp" | "timestamp without time zone" => SqlType::TimestampOf(digits),
        "timestamptz" | "timestamp with time zone" => SqlType::TimestampTzOf(digits),
        _ => return None,
    })
}
