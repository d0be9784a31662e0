//! One column of a batch, downcast once: the values behind a flat enum, ready to be written cell by cell.

use super::{array, oid};
use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::datatypes::*;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use tenon_planner::error::{Result, SqlError, state};
use tenon_planner::outcome::PgType;
use tenon_planner::settings::Charset;
use tenon_planner::wire_type;
use tenon_storage::network;
use tenon_storage::range;
use tenon_storage::tid::TID;
use tenon_storage::{CompositeType, EnumType, SqlType};

/// A column of a batch and the PostgreSQL type that the client was told.
pub struct Column<'a> {
    nulls: Option<NullBuffer>,
    pub(super) values: Values<'a>,
    pub(super) oid: u32,
    /// `char(n)`: n, to which blanks fill strings up. 0 for other types.
    pub(super) pad: usize,
    /// What texts in binary format are written in.
    pub(super) charset: Charset,
}

/// The values, by how they are written rather than by their every Arrow type.
pub(super) enum Values<'a> {
    AllNull,
    Bool(&'a BooleanArray),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F16(&'a Float16Array),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Decimal32(&'a [i32], i8),
    Decimal64(&'a [i64], i8),
    Decimal128(&'a [i128], i8),
    Decimal256(&'a [i256], i8),
    /// Numerics of any precision.
    Numeric(&'a LargeBinaryArray),
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    /// Enums by their labels, and any other type as Arrow's own formatter writes it.
    Formatted(StringArray),
    /// Bit strings, as the characters of their bits.
    Bits(&'a BinaryArray),
    BinaryView(&'a BinaryViewArray),
    FixedBinary(&'a FixedSizeBinaryArray),
    /// Ranges or multiranges of a type.
    Ranges(range::Values<'a>, SqlType),
    Date32(&'a [i32]),
    Date64(&'a [i64]),
    Time32(&'a [i32], TimeUnit),
    Time64(&'a [i64], TimeUnit),
    /// Since 1970; the flag tells `timestamptz`.
    Timestamp(&'a [i64], TimeUnit, bool),
    Duration(&'a [i64], TimeUnit),
    IntervalMonths(&'a [i32]),
    IntervalDayTime(&'a [IntervalDayTime]),
    IntervalMonthDayNano(&'a [IntervalMonthDayNano]),
    List(array::Spans<'a>, Box<Column<'a>>),
    Record(Vec<Column<'a>>),
    Dictionary(Keys<'a>, Box<Column<'a>>),
}

/// Dictionary codes of any width.
pub(super) enum Keys<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

impl Keys<'_> {
    #[inline]
    pub(super) fn get(&self, row: usize) -> usize {
        match self {
            Keys::I8(k) => k[row] as usize,
            Keys::I16(k) => k[row] as usize,
            Keys::I32(k) => k[row] as usize,
            Keys::I64(k) => k[row] as usize,
            Keys::U8(k) => k[row] as usize,
            Keys::U16(k) => k[row] as usize,
            Keys::U32(k) => k[row] as usize,
            Keys::U64(k) => k[row] as usize,
        }
    }
}

impl<'a> Column<'a> {
    /// `announced` is the type that the client was told: it fixes the binary format where several Arrow types share
    /// one, and the length of `char(n)`.
    pub fn new(array: &'a dyn Array, announced: PgType) -> Result<Self> {
        let oid = announced.oid;
        macro_rules! primitive {
            ($variant:ident, $arrow:ty $(, $extra:expr)*) => {
                Values::$variant(array.as_primitive::<$arrow>().values() $(, $extra)*)
            };
        }
        let values = match array.data_type() {
            DataType::Null => Values::AllNull,
            DataType::Boolean => Values::Bool(array.as_boolean()),
            DataType::Int8 => primitive!(I8, Int8Type),
            DataType::Int16 => primitive!(I16, Int16Type),
            DataType::Int32 => primitive!(I32, Int32Type),
            DataType::Int64 => primitive!(I64, Int64Type),
            DataType::UInt8 => primitive!(U8, UInt8Type),
            DataType::UInt16 => primitive!(U16, UInt16Type),
            DataType::UInt32 => primitive!(U32, UInt32Type),
            DataType::UInt64 => primitive!(U64, UInt64Type),
            DataType::Float16 => Values::F16(array.as_primitive()),
            DataType::Float32 => primitive!(F32, Float32Type),
            DataType::Float64 => primitive!(F64, Float64Type),
            DataType::Decimal32(_, scale) => primitive!(Decimal32, Decimal32Type, *scale),
            DataType::Decimal64(_, scale) => primitive!(Decimal64, Decimal64Type, *scale),
            DataType::Decimal128(_, scale) => primitive!(Decimal128, Decimal128Type, *scale),
            DataType::Decimal256(_, scale) => primitive!(Decimal256, Decimal256Type, *scale),
            DataType::Utf8 => Values::Utf8(array.as_string()),
            DataType::LargeUtf8 => Values::LargeUtf8(array.as_string()),
            DataType::Utf8View => Values::Utf8View(array.as_string_view()),
            DataType::Binary => Values::Bits(array.as_binary()),
            DataType::LargeBinary => Values::Numeric(array.as_binary()),
            DataType::BinaryView => Values::BinaryView(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Values::FixedBinary(array.as_fixed_size_binary()),
            DataType::Date32 => primitive!(Date32, Date32Type),
            DataType::Date64 => primitive!(Date64, Date64Type),
            DataType::Time32(unit @ TimeUnit::Second) => primitive!(Time32, Time32SecondType, *unit),
            DataType::Time32(unit) => primitive!(Time32, Time32MillisecondType, *unit),
            DataType::Time64(unit @ TimeUnit::Microsecond) => primitive!(Time64, Time64MicrosecondType, *unit),
            DataType::Time64(unit) => primitive!(Time64, Time64NanosecondType, *unit),
            of if EnumType::of(of).is_some() => Values::Formatted(labels(array)),
            DataType::Timestamp(unit, zone) => {
                let zoned = zone.is_some();
                match unit {
                    TimeUnit::Second => primitive!(Timestamp, TimestampSecondType, *unit, zoned),
                    TimeUnit::Millisecond => primitive!(Timestamp, TimestampMillisecondType, *unit, zoned),
                    TimeUnit::Microsecond => primitive!(Timestamp, TimestampMicrosecondType, *unit, zoned),
                    TimeUnit::Nanosecond => primitive!(Timestamp, TimestampNanosecondType, *unit, zoned),
                }
            }
            DataType::Duration(unit) => match unit {
                TimeUnit::Second => primitive!(Duration, DurationSecondType, *unit),
                TimeUnit::Millisecond => primitive!(Duration, DurationMillisecondType, *unit),
                TimeUnit::Microsecond => primitive!(Duration, DurationMicrosecondType, *unit),
                TimeUnit::Nanosecond => primitive!(Duration, DurationNanosecondType, *unit),
            },
            DataType::Interval(IntervalUnit::YearMonth) => primitive!(IntervalMonths, IntervalYearMonthType),
            DataType::Interval(IntervalUnit::DayTime) => primitive!(IntervalDayTime, IntervalDayTimeType),
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                primitive!(IntervalMonthDayNano, IntervalMonthDayNanoType)
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let (spans, items) = array::Spans::of(array)?;
                // A list of lists is one array of more dimensions, under the same type.
                let nested = matches!(
                    items.data_type(),
                    DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
                );
                let element = oid::element_of(oid).or_else(|| oid::record_of(oid, array.data_type()));
                let element = element.unwrap_or_else(|| natural_oid(items.data_type()));
                let item = PgType {
                    oid: if nested { oid } else { element },
                    ..announced
                };
                Values::List(spans, Box::new(Column::new(items, item)?))
            }
            of if let (Some(of), Some(values)) = (SqlType::range_of(of), range::Values::of(array)) => {
                Values::Ranges(values, of)
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns().iter().zip(fields).enumerate();
                let of = CompositeType::of_oid(oid, array.data_type());
                let wire = |at: usize, field: &Field| match of {
                    Some(of) => {
                        let own = &of.attributes()[at];
                        PgType {
                            oid: own.domain.unwrap_or_else(|| own.sql_type.oid()),
                            typmod: own.sql_type.typmod(),
                        }
                    }
                    None => wire_type(field),
                };
                let columns = columns.map(|(at, (column, field))| Column::new(column.as_ref(), wire(at, field)));
                Values::Record(columns.collect::<Result<_>>()?)
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                Values::Dictionary(
                    keys_of(dictionary.keys())?,
                    Box::new(Column::new(dictionary.values().as_ref(), announced)?),
                )
            }
            _ => Values::Formatted(formatted(array)?),
        };
        // A type modifier of char(n) is n + 4.
        let pad = if oid == oid::BPCHAR {
            announced.typmod.saturating_sub(4).max(0) as usize
        } else {
            0
        };
        Ok(Self {
            nulls: array.nulls().cloned(),
            values,
            oid,
            pad,
            charset: Charset::default(),
        })
    }

    /// Its texts are written in this encoding where the format is binary.
    pub fn speak(&mut self, charset: Charset) {
        match &mut self.values {
            Values::List(_, items) | Values::Dictionary(_, items) => items.speak(charset),
            Values::Record(fields) => fields.iter_mut().for_each(|field| field.speak(charset)),
            _ => {}
        }
        self.charset = charset;
    }

    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return true;
        }
        match &self.values {
            Values::AllNull => true,
            Values::Dictionary(keys, values) => values.is_null(keys.get(row)),
            _ => false,
        }
    }
}

fn keys_of(keys: &dyn Array) -> Result<Keys<'_>> {
    Ok(match keys.data_type() {
        DataType::Int8 => Keys::I8(keys.as_primitive::<Int8Type>().values()),
        DataType::Int16 => Keys::I16(keys.as_primitive::<Int16Type>().values()),
        DataType::Int32 => Keys::I32(keys.as_primitive::<Int32Type>().values()),
        DataType::Int64 => Keys::I64(keys.as_primitive::<Int64Type>().values()),
        DataType::UInt8 => Keys::U8(keys.as_primitive::<UInt8Type>().values()),
        DataType::UInt16 => Keys::U16(keys.as_primitive::<UInt16Type>().values()),
        DataType::UInt32 => Keys::U32(keys.as_primitive::<UInt32Type>().values()),
        DataType::UInt64 => Keys::U64(keys.as_primitive::<UInt64Type>().values()),
        other => return Err(SqlError::internal(format!("dictionary keys of type {other}"))),
    })
}

/// The labels of values of an enum.
fn labels(array: &dyn Array) -> StringArray {
    let of = EnumType::of(array.data_type());
    of.map_or_else(|| StringArray::new_null(array.len()), |of| of.texts(array))
}

/// Values of types that PostgreSQL has no like of, as text.
fn formatted(array: &dyn Array) -> Result<StringArray> {
    let unprintable = |e| {
        SqlError::new(
            state::FEATURE_NOT_SUPPORTED,
            format!("cannot show {}: {e}", array.data_type()),
        )
    };
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options).map_err(unprintable)?;
    let text = |row| formatter.value(row).try_to_string().map_err(unprintable);
    (0..array.len())
        .map(|row| {
            if array.is_null(row) {
                Ok(None)
            } else {
                text(row).map(Some)
            }
        })
        .collect()
}

/// The PostgreSQL type that an Arrow type has where nobody chose one: inside records and lists.
pub fn natural_oid(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Boolean => oid::BOOL,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => oid::INT2,
        DataType::Int32 | DataType::UInt16 => oid::INT4,
        DataType::Int64 | DataType::UInt32 => oid::INT8,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..)
        | DataType::LargeBinary => oid::NUMERIC,
        DataType::Float16 | DataType::Float32 => oid::FLOAT4,
        DataType::Float64 => oid::FLOAT8,
        DataType::FixedSizeBinary(12) => oid::TIMETZ,
        of if *of == network::INET => oid::INET,
        of if *of == network::CIDR => oid::CIDR,
        of if *of == network::MACADDR => oid::MACADDR,
        of if *of == network::MACADDR8 => oid::MACADDR8,
        of if *of == TID => oid::TID,
        DataType::Binary => oid::BIT,
        DataType::BinaryView | DataType::FixedSizeBinary(_) => oid::BYTEA,
        DataType::Date32 | DataType::Date64 => oid::DATE,
        DataType::Time32(_) | DataType::Time64(_) => oid::TIME,
        DataType::Timestamp(_, None) => oid::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => EnumType::of(data_type).map_or(oid::TIMESTAMPTZ, |of| of.oid),
        DataType::Duration(_) | DataType::Interval(_) => oid::INTERVAL,
        DataType::Struct(_) => SqlType::range_of(data_type).map_or(oid::RECORD, SqlType::oid),
        DataType::Dictionary(_, values) => natural_oid(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => match item.data_type() {
            inner @ (DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)) => natural_oid(inner),
            leaf => match EnumType::of(leaf) {
                Some(of) => of.array_oid,
                None => oid::array_of(natural_oid(leaf)).unwrap_or(oid::TEXT),
            },
        },
        _ => oid::TEXT,
    }
}
