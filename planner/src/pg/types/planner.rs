//! SQL type names to fields: PostgreSQL's types in storage's representation, with storage's metadata.

use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as Ast, ExactNumberInfo, IntervalFields, ObjectName, TimezoneInfo,
};
use std::sync::Arc;
use tenon_storage::datetime::IntervalRange;
use tenon_storage::types::OID_KEY;
use tenon_storage::{ArrayType, SqlType};

/// The name of a field that a cast written in the statement has for its target. DataFusion's own casts have none.
pub(crate) const WRITTEN: &str = "cast";

#[derive(Debug)]
pub(crate) struct PgTypePlanner;

impl TypePlanner for PgTypePlanner {
    fn plan_type_field(&self, sql_type: &Ast) -> datafusion::error::Result<Option<FieldRef>> {
        field_of(sql_type)
            .map(|field| Some(Arc::new(field.with_name(WRITTEN))))
            .map_err(to_datafusion)
    }
}

pub(crate) fn field_of(declared: &Ast) -> Result<Field> {
    if let Ast::Array(ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element)) = declared
        && let Some((oid, data_type)) = catalog_type(element)
    {
        let metadata = [(OID_KEY.to_string(), oid.to_string())].into();
        let element = Field::new("item", data_type, true).with_metadata(metadata);
        return Ok(Field::new("", DataType::List(Arc::new(element)), true));
    }
    if let Some((oid, data_type)) = catalog_type(declared) {
        let metadata = [(OID_KEY.to_string(), oid.to_string())].into();
        return Ok(Field::new("", data_type, true).with_metadata(metadata));
    }
    Ok(sql_type(declared)?.field("", true))
}

/// Types of pg_catalog that no table stores: their oid, and what carries them.
fn catalog_type(declared: &Ast) -> Option<(u32, DataType)> {
    let name = match declared {
        Ast::Regclass => "regclass".to_string(),
        Ast::Custom(name, _) => last(name),
        _ => return None,
    };
    Some(match name.as_str() {
        "oid" => (26, DataType::UInt32),
        "xid" | "cid" => (28, DataType::Int32),
        "regclass" => (2205, DataType::UInt32),
        "regtype" => (2206, DataType::UInt32),
        "regproc" | "regprocedure" => (24, DataType::UInt32),
        "regnamespace" => (4089, DataType::UInt32),
        "regrole" => (4096, DataType::UInt32),
        "\"char\"" => (18, DataType::Utf8View),
        "unknown" => (705, DataType::Utf8View),
        "void" => (2278, DataType::Utf8View),
        _ => return None,
    })
}

fn last(name: &ObjectName) -> String {
    let ident = name.0.last().and_then(|part| part.as_ident());
    ident.map_or_else(String::new, |ident| match ident.quote_style {
        Some(_) if matches!(ident.value.as_str(), "char" | "bit") => format!("\"{}\"", ident.value),
        _ => ident.value.to_lowercase(),
    })
}

/// Digits of seconds; more than six are six.
fn seconds(digits: &Option<u64>) -> Option<u8> {
    digits.map(|digits| digits.min(6) as u8)
}

fn range(fields: &IntervalFields) -> IntervalRange {
    match fields {
        IntervalFields::Year => IntervalRange::Year,
        IntervalFields::Month => IntervalRange::Month,
        IntervalFields::Day => IntervalRange::Day,
        IntervalFields::Hour => IntervalRange::Hour,
        IntervalFields::Minute => IntervalRange::Minute,
        IntervalFields::Second => IntervalRange::Second,
        IntervalFields::YearToMonth => IntervalRange::YearToMonth,
        IntervalFields::DayToHour => IntervalRange::DayToHour,
        IntervalFields::DayToMinute => IntervalRange::DayToMinute,
        IntervalFields::DayToSecond => IntervalRange::DayToSecond,
        IntervalFields::HourToMinute => IntervalRange::HourToMinute,
        IntervalFields::HourToSecond => IntervalRange::HourToSecond,
        IntervalFields::MinuteToSecond => IntervalRange::MinuteToSecond,
    }
}

/// The storage type of a declared type; 42704 for an unknown name, 0A000 for a known one that Tenon lacks.
pub(crate) fn sql_type(declared: &Ast) -> Result<SqlType> {
    let numeric = |info: &ExactNumberInfo| -> Result<SqlType> {
        match info {
            ExactNumberInfo::None => Ok(SqlType::Numeric),
            ExactNumberInfo::Precision(precision) => Ok(SqlType::numeric(*precision as i64, 0)?),
            ExactNumberInfo::PrecisionAndScale(precision, scale) => Ok(SqlType::numeric(*precision as i64, *scale)?),
        }
    };
    let with_length = |name: &str, length: &Option<CharacterLength>| -> Result<SqlType> {
        match length {
            Some(CharacterLength::IntegerLength { length, .. }) => Ok(format!("{name}({length})").parse::<SqlType>()?),
            _ => Ok(name.parse::<SqlType>()?),
        }
    };
    Ok(match declared {
        Ast::Bool | Ast::Boolean => SqlType::Bool,
        Ast::SmallInt(_) | Ast::Int2(_) | Ast::TinyInt(_) | Ast::Int16 => SqlType::Int2,
        Ast::Int(_) | Ast::Integer(_) | Ast::Int4(_) | Ast::MediumInt(_) | Ast::Int32 => SqlType::Int4,
        Ast::BigInt(_) | Ast::Int8(_) | Ast::Int64 => SqlType::Int8,
        Ast::Real | Ast::Float4 | Ast::Float32 => SqlType::Float4,
        Ast::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => SqlType::Float4,
        Ast::Float(_) | Ast::Double(_) | Ast::DoublePrecision | Ast::Float8 | Ast::Float64 => SqlType::Float8,
        Ast::Numeric(info) | Ast::Decimal(info) | Ast::Dec(info) => numeric(info)?,
        Ast::Text | Ast::String(_) => SqlType::Text,
        Ast::Varchar(length) | Ast::CharacterVarying(length) | Ast::CharVarying(length) | Ast::Nvarchar(length) => {
            with_length("varchar", length)?
        }
        Ast::Char(length) | Ast::Character(length) => with_length("char", length)?,
        Ast::Date => SqlType::Date,
        Ast::Time(digits, zone) => match (zone, seconds(digits)) {
            (TimezoneInfo::None | TimezoneInfo::WithoutTimeZone, None) => SqlType::Time,
            (TimezoneInfo::None | TimezoneInfo::WithoutTimeZone, Some(digits)) => SqlType::TimeOf(digits),
            (_, None) => SqlType::TimeTz,
            (_, Some(digits)) => SqlType::TimeTzOf(digits),
        },
        Ast::Timestamp(digits, zone) => match (zone, seconds(digits)) {
            (TimezoneInfo::None | TimezoneInfo::WithoutTimeZone, None) => SqlType::Timestamp,
            (TimezoneInfo::None | TimezoneInfo::WithoutTimeZone, Some(digits)) => SqlType::TimestampOf(digits),
            (_, None) => SqlType::TimestampTz,
            (_, Some(digits)) => SqlType::TimestampTzOf(digits),
        },
        Ast::Datetime(_) => SqlType::Timestamp,
        Ast::Interval { fields, precision } => match (fields, seconds(precision)) {
            (None, None) => SqlType::Interval,
            (fields, digits) => SqlType::IntervalOf(fields.as_ref().map(range), digits),
        },
        Ast::Bytea => SqlType::Bytea,
        Ast::Uuid => SqlType::Uuid,
        Ast::JSON => SqlType::Json,
        Ast::JSONB => SqlType::Jsonb,
        Ast::Bit(length) => format!("bit({})", length.unwrap_or(1)).parse()?,
        Ast::BitVarying(None) | Ast::VarBit(None) => SqlType::VarBit,
        Ast::BitVarying(Some(length)) | Ast::VarBit(Some(length)) => format!("varbit({length})").parse()?,
        Ast::Array(ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element)) => {
            SqlType::Array(ArrayType::of_items(sql_type(element)?))
        }
        Ast::Custom(name, arguments) => {
            let word = last(name);
            let text = match (word.as_str(), arguments.is_empty()) {
                ("unknown" | "citext" | "\"char\"", true) => "text".to_string(),
                ("\"bit\"", true) => "bit".to_string(),
                ("oid" | "xid" | "regclass" | "regtype" | "regproc", true) => "integer".to_string(),
                ("serial" | "serial4" | "bigserial" | "serial8" | "smallserial" | "serial2", _) => {
                    return Err(SqlError::unsupported(format!("type {word}"))
                        .hint("Tenon has no sequences. Use an integer type, and give the values."));
                }
                // The internal names of array types.
                (array, true) if array.starts_with('_') => match array {
                    "_bpchar" => "text[]".to_string(),
                    _ => format!("{}[]", &array[1..]),
                },
                (_, true) => word.clone(),
                (_, false) => format!("{word}({})", arguments.join(",")),
            };
            text.parse::<SqlType>().map_err(|error| match error.kind {
                tenon_storage::ErrorKind::InvalidParameter if error.message.contains("does not exist") => {
                    SqlError::new(state::UNDEFINED_OBJECT, format!("type \"{word}\" does not exist"))
                }
                _ => error.into(),
            })?
        }
        other => {
            return Err(SqlError::unsupported(format!(
                "type {}",
                other.to_string().to_lowercase()
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::parse::parse_expression;
    use datafusion::sql::sqlparser::ast::Expr;

    fn planned(name: &str) -> Result<SqlType> {
        match parse_expression(&format!("x::{name}"))? {
            Expr::Cast { data_type, .. } => sql_type(&data_type),
            other => Err(SqlError::internal(other)),
        }
    }

    #[test]
    fn names_of_types() {
        assert_eq!(planned("int8").unwrap(), SqlType::Int8);
        assert_eq!(planned("character varying(10)").unwrap(), SqlType::VarcharOf(10));
        assert_eq!(planned("pg_catalog.int4").unwrap(), SqlType::Int4);
        assert_eq!(planned("timestamptz").unwrap(), SqlType::TimestampTz);
        assert_eq!(planned("numeric(12, 2)").unwrap(), SqlType::NumericOf(12, 2));
        assert_eq!(planned("uuid").unwrap(), SqlType::Uuid);
        assert_eq!(planned("nosuch").unwrap_err().state.0, "42704");
        assert_eq!(planned("serial").unwrap_err().state.0, "0A000");
    }
}
