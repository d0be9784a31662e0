//! Which casts mean something else in PostgreSQL.

use super::{parse, to_integer, to_text};
use crate::functions::{array, json};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable};
use tenon_storage::SqlType;

fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(super) fn rewrite(cast: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let from = cast.expr.get_type(schema)?;
    let to = cast.field.data_type().clone();
    let keep = |cast| Ok(Transformed::no(Expr::Cast(cast)));
    let declared = SqlType::from_field(&cast.field);
    if let ((own, depth @ 1..), (wanted, wanted_depth @ 1..)) = (array::leaf(&from), array::leaf(&to))
        && (own != wanted || depth != wanted_depth)
        && !own.is_null()
    {
        let item = |one: Cast, schema: &DFSchema| Ok(rewrite(one, schema)?.data);
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
        return rewrite(Cast::new_from_field(Box::new(scalar), cast.field), schema)
            .map(|done| Transformed::yes(done.data));
    }
    if is_string(&from) {
        let Some(target) = declared else { return keep(cast) };
        // The target must be the declared type's own representation, else it is a coercion of DataFusion's.
        if target.data_type() != to || matches!(target, SqlType::Text | SqlType::Varchar) {
            return match coercion(&to) {
                Some(target) => parsed(cast, target),
                None => keep(cast),
            };
        }
        return parsed(cast, target);
    }
    if to_integer::applies(&from, &to) {
        return Ok(Transformed::yes(to_integer::call(*cast.expr, &to)));
    }
    if is_string(&to) && to_text::applies(&from) {
        return Ok(Transformed::yes(to_text::call(*cast.expr, &to)));
    }
    keep(cast)
}

/// The SQL type of a target that storage keeps otherwise (nanoseconds, other decimals): none for strings.
fn coercion(to: &DataType) -> Option<SqlType> {
    match to {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => None,
        DataType::Decimal128(..) | DataType::Date32 | DataType::Boolean => SqlType::from_data_type(to),
        other if other.is_signed_integer() || other.is_floating() => SqlType::from_data_type(other),
        _ => None,
    }
    .filter(|target| target.data_type() == *to)
}

fn parsed(cast: Cast, target: SqlType) -> Result<Transformed<Expr>> {
    if let Expr::Literal(value, _) = cast.expr.as_ref()
        && let Some(text) = value.try_as_str()
    {
        let metadata = Some(FieldMetadata::new_from_field(&cast.field)).filter(|metadata| !metadata.is_empty());
        let value = match text {
            Some(text) => ScalarValue::try_from_array(&parse::one(target, text)?, 0)?,
            None => ScalarValue::try_from(cast.field.data_type())?,
        };
        return Ok(Transformed::yes(Expr::Literal(value, metadata)));
    }
    Ok(Transformed::yes(parse::call(*cast.expr, target)))
}
