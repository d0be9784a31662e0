//! Operators on arrays and on json.

use super::{array, json};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::parse::parse_array;
use tenon_storage::types::NUMERIC;

/// The call that an operator is, where one of its operands is an array or json.
pub(super) fn plan(expr: &RawBinaryExpr, left: &FieldRef, right: &FieldRef) -> Result<Option<Expr>> {
    let depths = [left, right].map(|field| array::leaf(field.data_type()).1);
    if depths[0] == 0
        && depths[1] > 0
        && let Some(planned) = json::operators::with_texts(expr, left)
    {
        return Ok(Some(planned));
    }
    if depths != [0, 0] {
        return of_arrays(expr, (left, right), depths);
    }
    json::operators::plan(expr, left, right)
}

/// A literal of unknown type.
pub(super) fn is_unknown(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, None)
        if value.data_type() != DataType::LargeUtf8 && (value.is_null() || value.try_as_str().is_some()))
}

fn of_arrays(expr: &RawBinaryExpr, fields: (&FieldRef, &FieldRef), depths: [usize; 2]) -> Result<Option<Expr>> {
    let (left, right) = (
        typed(expr.left.clone(), fields.0, fields.1)?,
        typed(expr.right.clone(), fields.1, fields.0)?,
    );
    let unknown = is_unknown(&expr.left) || is_unknown(&expr.right);
    let both = unknown || (depths[0] > 0 && depths[1] > 0);
    Ok(match &expr.op {
        BinaryOperator::StringConcat => Some(concatenated(expr, depths)),
        BinaryOperator::AtArrow if both => Some(array::contains(left, right)),
        BinaryOperator::ArrowAt if both => Some(array::contains(right, left)),
        BinaryOperator::PGOverlap if both => Some(array::overlaps(left, right)),
        // What joins, groups and indexes know stays an operator.
        BinaryOperator::Eq
            if fields.0.data_type() == fields.1.data_type() && *array::leaf(fields.0.data_type()).0 != NUMERIC =>
        {
            None
        }
        op => match array::comparison(op) {
            Some(function) if both => Some(function.call(vec![left, right])),
            Some(_) => return Err(no_operator(op, fields.0, fields.1)),
            None => None,
        },
    })
}

/// `array || array`, `array || element`, `element || array`.
fn concatenated(expr: &RawBinaryExpr, depths: [usize; 2]) -> Expr {
    let (left, right) = (expr.left.clone(), expr.right.clone());
    // A literal of unknown type beside an array is an array.
    let array_like = |at: usize, expr: &Expr| depths[at] > 0 || is_unknown(expr);
    let name = match (array_like(0, &left), array_like(1, &right)) {
        (true, true) => "array_cat",
        (true, false) => "array_append",
        _ => "array_prepend",
    };
    array::function(name).call(vec![left, right])
}

/// A literal beside an array is an array of the same type, of as many dimensions as it has.
fn typed(expr: Expr, own: &FieldRef, other: &FieldRef) -> Result<Expr> {
    let (Expr::Literal(value, None), DataType::List(_)) = (&expr, other.data_type()) else {
        return Ok(expr);
    };
    if !own.data_type().is_string() {
        return Ok(expr);
    }
    let (Some(Some(text)), Some(SqlType::Array(of))) = (value.try_as_str(), SqlType::from_field(other)) else {
        return Ok(expr);
    };
    let read = parse_array(text).map_err(|error| to_datafusion(error.into()))?;
    let of = match read.sizes.len() {
        0 => of,
        dimensions => of.with_dimensions(dimensions),
    };
    let field = SqlType::Array(of).field("", true);
    Ok(Expr::Cast(Cast::new_from_field(Box::new(expr), Arc::new(field))))
}

pub(super) fn no_operator(op: &BinaryOperator, left: &Field, right: &Field) -> datafusion::error::DataFusionError {
    let [left, right] = [left, right].map(|field| {
        SqlType::from_field(field).map_or_else(|| "record".to_string(), |known| known.base_name().to_string())
    });
    let message = format!("operator does not exist: {left} {op} {right}");
    to_datafusion(SqlError::new(state::UNDEFINED_FUNCTION, message))
}
