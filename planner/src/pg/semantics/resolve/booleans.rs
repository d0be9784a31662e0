//! What takes booleans alone.

use super::{Group, group, is_unknown, known, name, typed};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::Expr;
use tenon_storage::SqlType;

/// A test of a boolean, which alone it takes.
pub(super) fn tested(
    inner: Box<Expr>,
    schema: &DFSchema,
    test: &str,
    make: fn(Box<Expr>) -> Expr,
) -> Result<Transformed<Expr>> {
    if let Some(of) = known(&inner, schema).filter(|of| group(*of) != Group::Bool) {
        return Err(not_boolean(test, of));
    }
    let literal = is_unknown(&inner);
    let inner = if literal { typed(*inner, SqlType::Bool) } else { *inner };
    Ok(Transformed::new_transformed(make(Box::new(inner)), literal))
}

pub(super) fn not_boolean(place: &str, of: SqlType) -> DataFusionError {
    let message = format!("argument of {place} must be type boolean, not type {}", name(Some(of)));
    to_datafusion(SqlError::new(state::DATATYPE_MISMATCH, message))
}
