//! Texts that are kept - of views, defaults, conditions, indexes, keys of partitions, domains - name relations, types and
//! functions that are not PostgreSQL's own with their schemas, so that a later search path does not change what they mean.

use crate::catalog::bind::Binder;
use crate::pg::error::Result;
use datafusion::sql::sqlparser::ast::{Expr, Query};

/// Qualifies the bare names in a query, but for common table expressions.
pub(super) fn query(binder: &Binder, query: &mut Box<Query>) {
    binder.qualify(query);
}

/// An expression with the bare names in it qualified; 42501 where it names what its schema keeps from who writes it.
pub(super) fn expression(binder: &Binder, expr: &Expr) -> Result<Expr> {
    binder.check_schemas(expr)?;
    let mut expr = expr.clone();
    binder.qualify(&mut expr);
    Ok(expr)
}
