//! Which casts mean something else in PostgreSQL.

use super::fields;
use super::{parse, times, to_integer, to_text};
use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::{array, bits, enums, json, network, padded, range, record, text};
use crate::pg::numeric::convert;
use crate::pg::types::planner::WRITTEN;
use crate::pg::types::type_oid;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use std::sync::Arc;
use tenon_storage::datetime::Conventions;
use tenon_storage::types::NUMERIC;
use tenon_storage::{ArrayType, EnumType, SqlType};

/// The oid of the type that keeps one byte of a text.
const CHAR: u32 = 18;

fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(super) fn rewrite(mut cast: Cast, schema: &DFSchema, conventions: &Conventions) -> Result<Transformed<Expr>> {
    // A column may be a literal where the optimizer is done.
    if enums::holds_enums(cast.field.data_type())
        && !enums::holds_enums(&fields::data_type(&cast.expr, schema)?)
        && !cast.expr.is_volatile()
    {
        *cast.expr = enums::late(*cast.expr);
        let done = of_own_kind(cast, schema, conventions)?;
        return Ok(Transformed::yes(done.data));
    }
    of_own_kind(cast, schema, conventions)
}

fn of_own_kind(mut cast: Cast, schema: &DFSchema, conventions: &Conventions) -> Result<Transformed<Expr>> {
    let from = fields::data_type(&cast.expr, schema)?;
    let to = cast.field.data_type().clone();
    let keep = |cast| Ok(Transformed::no(Expr::Cast(cast)));
    let declared = SqlType::from_field(&cast.field);
    if declared == Some(SqlType::Bpchar) && is_string(&to) {
        let (_, own) = cast.expr.to_field(schema)?;
        let expr = match is_string(&from) {
            true => padded(*cast.expr, SqlType::from_field(&own)),
            false => {
                let text = Cast::new_from_field(cast.expr, Arc::new(SqlType::Text.field("", true)));
                rewrite(text, schema, conventions)?.data
            }
        };
        return Ok(Transformed::yes(Expr::Cast(Cast::new_from_field(
            Box::new(expr),
            cast.field,
        ))));
    }
    if let (Some(own), Some(wanted)) = (EnumType::of(&from), EnumType::of(&to))
        && own != wanted
        && own.oid == wanted.oid
    {
        return Ok(Transformed::yes(enums::adopted(*cast.expr, wanted)));
    }
    if EnumType::of(&from).is_some() != EnumType::of(&to).is_some() || EnumType::of(&from).is_some() && from != to {
        let beside = if EnumType::of(&from).is_some() { &to } else { &from };
        if !is_string(beside) && !beside.is_null() {
            return Err(enums::no_cast(&from, &to));
        }
    }
    if range::converts(&from, &to) {
        return Ok(Transformed::yes(range::converted(*cast.expr)));
    }
    if let Some(of) = SqlType::range_of(&to) {
        return to_range(cast, &from, of, conventions);
    }
    if SqlType::range_of(&from).is_some() && !is_string(&to) {
        return Err(enums::no_cast(&from, &to));
    }
    if let DataType::Struct(_) = &to {
        return to_record(cast, &from, schema, conventions);
    }
    if let DataType::List(item) = &to
        && *item.data_type() == DataType::UInt32
        && is_string(&from)
    {
        // Oids, which no column of a table holds: numbers first.
        let numbers = SqlType::Array(ArrayType::of_items(SqlType::Int8));
        let read = Cast::new_from_field(cast.expr, Arc::new(numbers.field("", true)));
        let read = parsed(read, numbers, conventions)?.data;
        return Ok(Transformed::yes(Expr::Cast(Cast::new_from_field(
            Box::new(read),
            cast.field,
        ))));
    }
    if is_string(&from) && is_string(&to) {
        // What a name or a "char" keeps, and a char(n) without its blanks.
        let target = match type_oid(&cast.field) {
            _ if declared == Some(SqlType::Name) => Some(text::cut_name()),
            Some(CHAR) => Some(text::one_char()),
            _ if declared.is_some_and(|to| matches!(to, SqlType::Text | SqlType::Varchar)) => {
                let (_, own) = cast.expr.to_field(schema)?;
                let blank = matches!(SqlType::from_field(&own), Some(SqlType::CharOf(_)));
                blank.then(text::unpadded)
            }
            _ => None,
        };
        if let Some(target) = target {
            let cut = target.call(vec![*cast.expr]);
            // The cast stays where it says what type it is; its own turn is behind it then.
            let told = type_oid(&cast.field).is_some() || declared == Some(SqlType::Name);
            return Ok(Transformed::yes(match told {
                true => Expr::Cast(Cast::new_from_field(Box::new(cut), cast.field)),
                false => cut,
            }));
        }
    }
    if let Some(target @ SqlType::Array(of)) = declared
        && of.element().is_bits()
        && is_string(&from)
        && target.data_type() == to
    {
        // Read whole, then cut or filled up item by item.
        let item = SqlType::Array(ArrayType::of_items(of.element().unlimited()).with_dimensions(of.dimensions()));
        let field = Arc::new(item.field(cast.field.name(), true));
        let read = parsed(Cast::new_from_field(cast.expr, field), item, conventions)?.data;
        if item == target {
            return Ok(Transformed::yes(read));
        }
        let item = |one: Cast, schema: &DFSchema| Ok(rewrite(one, schema, conventions)?.data);
        return array::cast_items(read, &to, &cast.field, item).map(Transformed::yes);
    }
    if let Some(target @ SqlType::Array(of)) = declared
        && of.element().is_limited_string()
        && cast.field.name() == WRITTEN
        && is_string(&from)
        && target.data_type() == to
    {
        // Written out, each item is cut; what a column gets is refused instead where it is too long.
        let texts = SqlType::Array(ArrayType::of_items(SqlType::Text).with_dimensions(of.dimensions()));
        let field = Arc::new(texts.field(cast.field.name(), true));
        let read = parsed(Cast::new_from_field(cast.expr, field), texts, conventions)?.data;
        let item = |one: Cast, schema: &DFSchema| Ok(rewrite(one, schema, conventions)?.data);
        return array::cast_items(read, &texts.data_type(), &cast.field, item).map(Transformed::yes);
    }
    if let ((own, depth @ 1..), (wanted, wanted_depth @ 1..)) = (array::leaf(&from), array::leaf(&to))
        && (own != wanted || depth != wanted_depth || limits_items(declared, &to))
        && !own.is_null()
    {
        let item = |one: Cast, schema: &DFSchema| Ok(rewrite(one, schema, conventions)?.data);
        return array::cast_items(*cast.expr, &from, &cast.field, item).map(Transformed::yes);
    }
    if declared == Some(SqlType::Jsonb) || declared == Some(SqlType::Json) {
        if !is_string(&from) && !from.is_null() {
            return Err(json::no_cast(&from, &cast.field));
        }
    } else if is_string(&from)
        && (to.is_numeric() || to == DataType::Boolean)
        && let Ok((_, field)) = cast.expr.to_field(schema)
        && json::is_jsonb(&field)
    {
        let scalar = json::scalar(*cast.expr, &to);
        return rewrite(Cast::new_from_field(Box::new(scalar), cast.field), schema, conventions)
            .map(|done| Transformed::yes(done.data));
    }
    if let Some(target) = declared.filter(|target| target.is_bits() && target.data_type() == to)
        && (is_string(&from) || from == to)
    {
        let read = match is_string(&from) {
            true => parsed(cast, target.unlimited(), conventions)?.data,
            false if target.unlimited() == target => return keep(cast),
            false => *cast.expr,
        };
        return Ok(Transformed::yes(match target.unlimited() == target {
            true => read,
            false => bits::converted(read, target),
        }));
    }
    if let Some(target) = declared.filter(|target| target.data_type() == to)
        && bits::converts(&from, &to)
    {
        return Ok(Transformed::yes(bits::converted(*cast.expr, target)));
    }
    if declared == Some(SqlType::Bytea) && is_string(&from) {
        let (_, own) = cast.expr.to_field(schema)?;
        cast.expr = Box::new(padded(*cast.expr, SqlType::from_field(&own)));
    }
    if network::converts(&from, &to) {
        return Ok(Transformed::yes(network::converted(*cast.expr, &from)));
    }
    if is_string(&from) {
        if matches!(array::leaf(&to), (DataType::Struct(_), 1)) {
            let to = cast.field.clone();
            return Ok(Transformed::yes(record::from_text(*cast.expr, to)));
        }
        let Some(target) = declared else { return keep(cast) };
        // The target must be the declared type's own representation, else it is a coercion of DataFusion's.
        if target.data_type() != to || matches!(target, SqlType::Text | SqlType::Varchar) {
            return match coercion(&to) {
                Some(target) => parsed(cast, target, conventions),
                None => keep(cast),
            };
        }
        return parsed(cast, target, conventions);
    }
    let limits = declared.filter(|target| target.is_temporal() && target.unlimited() != *target);
    if times::applies(&from, &to) {
        let converted = times::convert(*cast.expr, &to);
        return Ok(Transformed::yes(match limits {
            Some(target) => times::limit(converted, target),
            None => converted,
        }));
    }
    if let Some(target) = limits
        && from == to
    {
        return Ok(Transformed::yes(times::limit(*cast.expr, target)));
    }
    if convert::applies(&from, &to, declared) {
        let target = declared.filter(|declared| declared.data_type() == to);
        let target = target.filter(|_| !is_string(&to)).or_else(|| match is_string(&to) {
            true => Some(SqlType::Text),
            false => SqlType::from_data_type(&to),
        });
        let Some(target) = target else { return keep(cast) };
        let converted = convert::call(*cast.expr, target);
        if let Some(limited) = declared.filter(|declared| declared.is_limited_string() && is_string(&to)) {
            return Ok(Transformed::yes(parse::call(converted, limited)));
        }
        // Text of another layout than the conversion's.
        let other = is_string(&to) && to != DataType::Utf8View;
        return Ok(Transformed::yes(match other {
            true => Expr::Cast(Cast::new_from_field(Box::new(converted), cast.field)),
            false => converted,
        }));
    }
    if from == NUMERIC && to == NUMERIC {
        return Ok(Transformed::yes(*cast.expr));
    }
    if to_integer::applies(&from, &to) {
        return Ok(Transformed::yes(to_integer::call(*cast.expr, &to)));
    }
    if let Some(target) = declared.filter(|declared| declared.is_limited_string())
        && !is_string(&from)
        && from != DataType::Null
    {
        let text = match to_text::applies(&from) {
            true => to_text::call(*cast.expr, &to),
            false => Expr::Cast(Cast::new(cast.expr, DataType::Utf8View)),
        };
        return Ok(Transformed::yes(parse::call(text, target)));
    }
    if is_string(&to) && to_text::applies(&from) {
        return Ok(Transformed::yes(to_text::call(*cast.expr, &to)));
    }
    keep(cast)
}

/// Whether the items of an array keep a part of their texts only.
fn limits_items(declared: Option<SqlType>, to: &DataType) -> bool {
    matches!(declared, Some(own @ SqlType::Array(of)) if of.element().has_length() && own.data_type() == *to)
}

/// The SQL type of a target that storage keeps otherwise (nanoseconds, other decimals): none for strings.
fn coercion(to: &DataType) -> Option<SqlType> {
    match to {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => None,
        DataType::Decimal128(..)
        | DataType::Date32
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Interval(_)
        | DataType::FixedSizeBinary(6 | 7 | 8 | 12 | 18 | 34)
        | DataType::Boolean => SqlType::from_data_type(to),
        other if other.is_signed_integer() || other.is_floating() => SqlType::from_data_type(other),
        _ => None,
    }
    .filter(|target| target.data_type() == *to)
}

/// A range or a multirange, which are made of texts alone.
fn to_range(cast: Cast, from: &DataType, of: SqlType, conventions: &Conventions) -> Result<Transformed<Expr>> {
    match from {
        DataType::Null => {
            let metadata = Some(FieldMetadata::new_from_field(&cast.field)).filter(|metadata| !metadata.is_empty());
            let null = ScalarValue::try_from(cast.field.data_type())?;
            Ok(Transformed::yes(Expr::Literal(null, metadata)))
        }
        from if is_string(from) => parsed(cast, of, conventions),
        from if from == cast.field.data_type() => Ok(Transformed::yes(*cast.expr)),
        from => Err(enums::no_cast(from, cast.field.data_type())),
    }
}

/// A record of another type: column by column.
fn to_record(cast: Cast, from: &DataType, schema: &DFSchema, conventions: &Conventions) -> Result<Transformed<Expr>> {
    let (DataType::Struct(wanted), to) = (cast.field.data_type(), cast.field.clone()) else {
        return Ok(Transformed::no(Expr::Cast(cast)));
    };
    match from {
        // No literal: see `enums::late`.
        DataType::Null if enums::holds_enums(to.data_type()) => Ok(Transformed::no(Expr::Cast(cast))),
        DataType::Null => {
            let metadata = Some(FieldMetadata::new_from_field(&to)).filter(|metadata| !metadata.is_empty());
            let null = ScalarValue::try_from(to.data_type())?;
            Ok(Transformed::yes(Expr::Literal(null, metadata)))
        }
        from if is_string(from) => Ok(Transformed::yes(record::from_text(*cast.expr, to))),
        from if from == to.data_type() => Ok(Transformed::yes(*cast.expr)),
        DataType::Struct(own) if own.len() == wanted.len() => {
            let mut made = Vec::with_capacity(2 * own.len());
            for (own, wanted) in own.iter().zip(wanted) {
                let value = record::field_of((*cast.expr).clone(), own.name());
                let value = Cast::new_from_field(Box::new(value), wanted.clone());
                made.push(lit(wanted.name().as_str()));
                made.push(rewrite(value, schema, conventions)?.data);
            }
            let made = record::of_names_and_values(made);
            Ok(Transformed::yes(record::null_where(made, *cast.expr)))
        }
        _ => {
            let named = SqlType::from_field(&to).map_or_else(|| "record".to_string(), SqlType::sql_name);
            let message = format!("cannot cast type {} to {named}", crate::pg::types::type_name(from));
            let error = SqlError::new(SqlState("42846"), message);
            Err(to_datafusion(match from {
                DataType::Struct(own) if own.len() < wanted.len() => {
                    error.detail("Input has too few columns.".to_string())
                }
                DataType::Struct(_) => error.detail("Input has too many columns.".to_string()),
                _ => error,
            }))
        }
    }
}

fn parsed(cast: Cast, target: SqlType, conventions: &Conventions) -> Result<Transformed<Expr>> {
    if let Expr::Literal(value, _) = cast.expr.as_ref()
        && let Some(text) = value.try_as_str()
    {
        let metadata = Some(FieldMetadata::new_from_field(&cast.field)).filter(|metadata| !metadata.is_empty());
        let value = match text {
            Some(text) => ScalarValue::try_from_array(&parse::one(target, text, conventions)?, 0)?,
            None => ScalarValue::try_from(cast.field.data_type())?,
        };
        return Ok(Transformed::yes(Expr::Literal(value, metadata)));
    }
    Ok(Transformed::yes(parse::call(*cast.expr, target)))
}
