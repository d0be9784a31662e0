//! The type of strings that get one type together: that of the first, as PostgreSQL chooses. `char(n)` beside itself stays what
//! it is; beside others, or beside literals, it is a `bpchar`, whose values keep their blanks.

use super::is_unknown;
use crate::pg::semantics::blanks;
use crate::pg::semantics::fields;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, ExprSchema};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;
use std::sync::Arc;
use tenon_storage::SqlType;

/// The type of two strings beside each other. Of those that become each other it is the first; a `name` becomes no `char(n)`.
pub(super) fn of_two(a: SqlType, b: SqlType) -> SqlType {
    match (a, b) {
        (SqlType::CharOf(_) | SqlType::Bpchar | SqlType::Varchar | SqlType::VarcharOf(_), SqlType::Name) => b,
        _ => a,
    }
}

/// Whether blanks at the end of a type's values do not count.
pub(crate) fn is_blank(of: SqlType) -> bool {
    matches!(of, SqlType::CharOf(_) | SqlType::Bpchar)
}

/// What values of these types together are, where they are `char(n)` or `bpchar`. None among them: a literal without a type.
pub(crate) fn together(types: &[Option<SqlType>]) -> Option<SqlType> {
    let first = types
        .iter()
        .flatten()
        .copied()
        .reduce(of_two)
        .filter(|of| is_blank(*of))?;
    match types.iter().all(|own| *own == Some(first)) {
        true => Some(first),
        false => Some(SqlType::Bpchar),
    }
}

/// The same of fields; literals are of the type that literals have.
pub(crate) fn of_fields(fields: &[FieldRef]) -> Option<SqlType> {
    let own = |field: &FieldRef| match field.data_type() {
        DataType::Utf8 | DataType::Null => None,
        _ => SqlType::from_field(field),
    };
    together(&fields.iter().map(own).collect::<Vec<_>>())
}

/// A field of that type.
pub(crate) fn with_type(field: FieldRef, of: SqlType) -> FieldRef {
    let metadata = of.field("", true).metadata().clone();
    Arc::new(Field::clone(&field).with_metadata(metadata))
}

pub(super) fn own_type(expr: &Expr, schema: &dyn ExprSchema) -> Option<SqlType> {
    if is_unknown(expr) {
        return None;
    }
    fields::field(expr, schema)
        .ok()
        .and_then(|field| SqlType::from_field(&field))
}

/// Makes strings such of their common type; the type that what chooses among them has, where DataFusion forgets it.
pub(super) fn unify(exprs: Vec<&mut Expr>, schema: &DFSchema) -> Option<SqlType> {
    let types: Vec<Option<SqlType>> = exprs.iter().map(|expr| own_type(expr, schema)).collect();
    if !types.iter().flatten().any(|of| is_blank(*of)) {
        return None;
    }
    let found = together(&types);
    for (expr, own) in exprs.into_iter().zip(types) {
        match (found, own) {
            (Some(SqlType::Bpchar), Some(SqlType::CharOf(_))) => {
                *expr = as_type(std::mem::take(expr), SqlType::Bpchar);
            }
            (None, Some(SqlType::Bpchar)) => *expr = blanks::bare(std::mem::take(expr)),
            _ => {}
        }
    }
    found
}

/// What says which type a value has.
pub(super) fn as_type(expr: Expr, of: SqlType) -> Expr {
    Expr::Cast(Cast::new_from_field(Box::new(expr), Arc::new(of.field("", true))))
}
