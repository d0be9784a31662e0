//! `x op ANY (array)` and `x op ALL (array)`: whether there is such an operator of the value and the items, and in which type they
//! are compared.

use super::becoming::{become_of, becomes};
use super::pairs::{self, Kind};
use super::strings::as_type;
use super::{group, is_unknown, known, undefined};
use crate::pg::functions::array::bare_items;
use crate::pg::semantics::fields;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use tenon_storage::{ArrayType, SqlType};

/// The operator that a function compares by.
pub(super) fn operator(function: &str) -> Option<&'static str> {
    let of = function
        .strip_prefix("any_")
        .or_else(|| function.strip_prefix("all_"))?;
    Some(match of {
        "eq" => "=",
        "ne" => "<>",
        "lt" => "<",
        "le" => "<=",
        "gt" => ">",
        "ge" => ">=",
        _ => return None,
    })
}

pub(super) fn compared(mut call: ScalarFunction, op: &str, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let [value, items] = call.args.as_mut_slice() else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let array = fields::field(items, schema)
        .ok()
        .and_then(|field| SqlType::from_field(&field));
    if is_unknown(items) && known(value, schema).and_then(Kind::of_type) == Some(Kind::Blank) {
        let texts = SqlType::Array(ArrayType::of_items(SqlType::Text));
        *value = pairs::bare_value(std::mem::take(value), schema);
        *items = bare_items(as_type(std::mem::take(items), texts));
        return Ok(Transformed::yes(Expr::ScalarFunction(call)));
    }
    let Some(SqlType::Array(of)) = array else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let item = of.element().unlimited();
    let kind = match is_unknown(value) {
        true => Some(Kind::Unknown),
        false => known(value, schema).and_then(Kind::of_type),
    };
    if let (Some(own), Some(other)) = (kind, Kind::of_type(item))
        && (own == Kind::Blank || other == Kind::Blank)
    {
        let blankless = own.blankless(other);
        if blankless || own == Kind::Blank {
            *value = pairs::bare_value(std::mem::take(value), schema);
        }
        if blankless && other == Kind::Varchar || other == Kind::Blank {
            *items = bare_items(std::mem::take(items));
        }
        return Ok(Transformed::yes(Expr::ScalarFunction(call)));
    }
    let Some(own) = known(value, schema) else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    if group(own) != group(item) {
        return Err(undefined(op, Some(own), Some(item)));
    }
    let changed = if becomes(own, item) {
        *value = become_of(std::mem::take(value), own, item);
        true
    } else if becomes(item, own) && matches!(own, SqlType::Timestamp | SqlType::TimestampTz) {
        let wanted = SqlType::Array(ArrayType::of_items(own).with_dimensions(of.dimensions()));
        *items = as_type(std::mem::take(items), wanted);
        true
    } else {
        false
    };
    Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
}
