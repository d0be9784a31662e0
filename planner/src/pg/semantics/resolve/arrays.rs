//! Arrays that get one type together, and what is none beside them.

use super::{Group, group, is_unknown, known, typed, undefined};
use crate::pg::semantics::fields;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use tenon_storage::SqlType;

/// 42883 for arrays of different types, or beside other values, which nothing compares.
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
    // Nothing compares an array with what is none.
    if let Some(single) = exprs.iter().find_map(|expr| known(expr, schema)) {
        let leads = exprs.first().is_some_and(|expr| of(expr).is_some());
        let (left, right) = if leads { (first, single) } else { (single, first) };
        return Err(undefined(op, Some(left), Some(right)));
    }
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
