//! Tables made of rows that name some of their columns; the others get a value that says nothing.

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit, Schema, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use std::net::IpAddr;
use std::sync::Arc;
use tenon_storage::network;

/// A value of a system table's column.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Bool(bool),
    Number(i64),
    Float(f64),
    Text(String),
    Numbers(Vec<i64>),
    Texts(Vec<String>),
    /// An interval of seconds.
    Seconds(i32),
    /// Microseconds since 1970.
    Time(i64),
    Address(IpAddr),
    Null,
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Number(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Value::Number(value.into())
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Value::Number(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::Text(value)
    }
}

impl From<IpAddr> for Value {
    fn from(value: IpAddr) -> Self {
        Value::Address(value)
    }
}

impl From<Vec<i64>> for Value {
    fn from(value: Vec<i64>) -> Self {
        Value::Numbers(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// One row: the columns that have something to say.
pub(super) type Row = Vec<(&'static str, Value)>;

/// A row from pairs of a column's name and a value.
macro_rules! row {
    ($($name:literal: $value:expr),* $(,)?) => { vec![$(($name, crate::catalog::system::rows::Value::from($value))),*] };
}
pub(super) use row;

/// A table of these rows, after the batches given.
pub(super) fn table(schema: &SchemaRef, before: &[RecordBatch], rows: &[Row]) -> Result<Arc<MemTable>> {
    let mut batches = before.to_vec();
    if !rows.is_empty() {
        let columns = schema.fields().iter().map(|field| column(field, rows));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        batches.push(RecordBatch::try_new(schema.clone(), columns)?);
    }
    Ok(Arc::new(MemTable::try_new(schema.clone(), vec![batches])?))
}

/// A schema of nullable columns: `("name", "text")`, with the types text, oid, int, bigint, smallint, bool, float,
/// inet, interval, timestamptz, texts (text[]).
pub(super) fn schema(columns: &[(&str, &str)]) -> SchemaRef {
    let field = |(name, of): &(&str, &str)| {
        let data_type = match *of {
            "oid" => DataType::UInt32,
            "int" => DataType::Int32,
            "bigint" => DataType::Int64,
            "smallint" => DataType::Int16,
            "bool" => DataType::Boolean,
            "float" => DataType::Float64,
            "inet" => network::INET,
            "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            "texts" => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))),
            "interval" => DataType::Interval(IntervalUnit::MonthDayNano),
            _ => DataType::Utf8,
        };
        super::columns::column(name, data_type, true)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// The columns of a view in a list of views: a line has a view's name and those of its columns, behind which a type stands
/// after a colon where it is not text.
pub(super) fn listed(list: &'static str, view: &str) -> Option<Vec<(&'static str, &'static str)>> {
    let line = list
        .lines()
        .find_map(|line| line.strip_prefix(view)?.strip_prefix(' '))?;
    let column = |word: &'static str| word.split_once(':').unwrap_or((word, "text"));
    Some(line.split(' ').map(column).collect())
}

fn column(field: &Field, rows: &[Row]) -> Result<ArrayRef> {
    let values = rows.iter().map(|row| {
        let given = row
            .iter()
            .find(|(name, _)| name == field.name())
            .map(|(_, value)| value);
        scalar(field, given)
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    // Of one byte's keys, of which a dictionary made of scalars would take one a row.
    if let DataType::Dictionary(_, item) = field.data_type() {
        let plain = values.iter().map(|value| value.cast_to(item));
        let plain = ScalarValue::iter_to_array(plain.collect::<Result<Vec<_>>>()?)?;
        return Ok(cast(&plain, field.data_type())?);
    }
    ScalarValue::iter_to_array(values)
}

/// What a row has in a column of this type; NULL where it has nothing.
pub(super) fn value_of(row: &Row, column: &str, data_type: &DataType) -> ScalarValue {
    let given = row.iter().find(|(name, _)| *name == column).map(|(_, value)| value);
    let found = scalar(&Field::new(column, data_type.clone(), true), given);
    found.unwrap_or(ScalarValue::Null)
}

fn scalar(field: &Field, value: Option<&Value>) -> Result<ScalarValue> {
    let given = match value {
        Some(Value::Bool(value)) => ScalarValue::Boolean(Some(*value)),
        Some(Value::Number(value)) => ScalarValue::Int64(Some(*value)),
        Some(Value::Float(value)) => ScalarValue::Float64(Some(*value)),
        Some(Value::Text(value)) => ScalarValue::Utf8(Some(value.clone())),
        Some(Value::Numbers(values)) => {
            let values: Vec<_> = values.iter().map(|value| ScalarValue::Int64(Some(*value))).collect();
            ScalarValue::List(ScalarValue::new_list(&values, &DataType::Int64, true))
        }
        Some(Value::Texts(values)) => {
            let values: Vec<_> = values
                .iter()
                .map(|value| ScalarValue::Utf8(Some(value.clone())))
                .collect();
            ScalarValue::List(ScalarValue::new_list(&values, &DataType::Utf8, true))
        }
        Some(Value::Seconds(seconds)) => {
            let nanoseconds = i64::from(*seconds) * 1_000_000_000;
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, nanoseconds)))
        }
        Some(Value::Address(of)) => {
            let bytes = network::Address::of_host(*of).to_bytes(false);
            ScalarValue::FixedSizeBinary(network::INET_BYTES as i32, Some(bytes))
        }
        Some(Value::Time(us)) => ScalarValue::TimestampMicrosecond(Some(*us), Some("UTC".into())),
        Some(Value::Null) => return ScalarValue::try_from(field.data_type()),
        None if field.is_nullable() => return ScalarValue::try_from(field.data_type()),
        None => match field.data_type() {
            DataType::Utf8 | DataType::Utf8View => ScalarValue::Utf8(Some(String::new())),
            DataType::Boolean => ScalarValue::Boolean(Some(false)),
            of if *of == crate::pg::types::char_type() => ScalarValue::Utf8(Some(String::new())),
            data_type => ScalarValue::new_zero(data_type)?,
        },
    };
    given.cast_to(field.data_type())
}
