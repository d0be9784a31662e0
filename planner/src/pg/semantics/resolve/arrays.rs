//! Arrays that get one type together.

use super::{Group, group, is_unknown, typed, undefined};
use crate::pg::semantics::fields;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use tenon_storage::SqlType;

/// 42883 for arrays of different types, which nothing compares.
pub(super) fn meet(exprs: &[&mut Expr], schema: &DFSchema, op: &str) -> Result<()> {
    let of = |expr: &&mut Expr| match fields::field(expr, schema)
        .ok()
        .and_then(|own| SqlType::from_field(&own))
    {
        Some(own @ SqlType::Array(items)) if !is_unknown(expr) => Some((own, items.element())),
        _ => None,
    };
    let mut arrays = exprs.iter().filter_map(of);
    let Some((first, items)) = arrays.next() else {
        return Ok(());
    };
    let is_other = |own: SqlType| own.oid() != items.oid() && group(own) == Group::Number || group(own) != group(items);
    match arrays.find(|(_, own)| is_other(*own)) {
        Some((other, _)) => Err(undefined(op, Some(first), Some(other))),
        None => Ok(()),
    }
}

/// Gives literals the type of the arrays that they stand with; whether there were any.
pub(super) fn beside(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let mut found: Option<SqlType> = None;
    for expr in exprs.iter().filter(|expr| !is_unknown(expr)) {
        let own = fields::field(expr, schema).ok();
        match own.and_then(|own| SqlType::from_field(&own)) {
            Some(own @ SqlType::Array(_)) if found.is_none_or(|found| found == own) => found = Some(own),
            _ => return false,
        }
    }
    let Some(found) = found else { return false };
    let mut changed = false;
    for expr in exprs.into_iter().filter(|expr| is_unknown(expr)) {
        *expr = typed(std::mem::take(expr), found);
        changed = true;
    }
    changed
}
