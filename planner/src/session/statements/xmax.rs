//! `xmax` in RETURNING: 0 of a row that is new, else the transaction that locked the row that was there before, as ON
//! CONFLICT DO UPDATE does. `RETURNING (xmax = 0) AS inserted` so tells what was inserted from what was updated.

use super::returning::ReturningColumns;
use crate::catalog::bind::{Binder, fold};
use crate::pg::error::Result;
use crate::pg::errors::from_arrow;
use crate::pg::parse::parse_expression;
use crate::pg::types::OID_KEY;
use crate::pg::walk;
use datafusion::arrow::array::{Int32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem};
use std::ops::ControlFlow;
use std::sync::Arc;

const XMAX: &str = "xmax";

/// The column of rows that carries it where not all have the same.
pub(super) const HIDDEN: &str = "\u{1}xmax";

/// The type `xid` of pg_catalog.
const XID: u32 = 28;

/// What `xmax` is of the rows that RETURNING sees.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Xmax {
    /// All are new.
    Zero,
    /// A column of them.
    Hidden,
    /// It cannot be asked for: the rows are gone.
    Gone,
}

/// Whether the items name it.
pub(super) fn is_named(items: &[SelectItem]) -> bool {
    let named = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            walk::expressions(expr, |expr, _| match is_xmax(expr, None) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
            .is_break()
        }
        _ => false,
    };
    items.iter().any(named)
}

/// Whether it is `xmax` of any relation, or of that one.
fn is_xmax(expr: &Expr, alias: Option<&str>) -> bool {
    match expr {
        Expr::Identifier(name) => fold(name) == XMAX,
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [of, name] => fold(name) == XMAX && alias.is_none_or(|alias| fold(of) == alias),
            _ => false,
        },
        _ => false,
    }
}

/// Puts what it is in the place of each `xmax` of the relation known as `alias`.
pub(super) fn resolve(items: &mut [SelectItem], xmax: Xmax, alias: &str) -> Result<()> {
    let value = match xmax {
        Xmax::Gone => return Ok(()),
        _ if !is_named(items) => return Ok(()),
        Xmax::Zero => parse_expression("CAST('0' AS xid)")?,
        Xmax::Hidden => Expr::Identifier(Ident::with_quote('"', HIDDEN)),
    };
    for item in items {
        if let SelectItem::UnnamedExpr(expr) = item
            && is_xmax(expr, Some(alias))
        {
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::new(XMAX),
            };
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = walk::expressions_mut(expr, |expr, _| {
                if is_xmax(expr, Some(alias)) {
                    *expr = value.clone();
                }
                ControlFlow::<()>::Continue(())
            });
        }
    }
    Ok(())
}

impl ReturningColumns {
    /// With the column that carries it.
    pub(super) fn with_hidden(mut self) -> ReturningColumns {
        let alias = self.fields.first().map(|(alias, _)| alias.clone());
        self.fields.push((alias.unwrap_or_default(), field()));
        self.with(Xmax::Hidden)
    }
}

fn field() -> FieldRef {
    let metadata = [(OID_KEY.to_string(), XID.to_string())].into();
    Arc::new(Field::new(HIDDEN, DataType::Int32, true).with_metadata(metadata))
}

/// The rows with that column: whether each was locked.
pub(super) fn beside(binder: &Binder, rows: &RecordBatch, locked: impl Iterator<Item = bool>) -> Result<RecordBatch> {
    // As `txid_current()` has it, in the 31 bits that xid is carried in.
    let transaction = (binder.facts.transaction_start_us % i64::from(i32::MAX)) as i32;
    let values = locked.map(|locked| if locked { transaction.max(1) } else { 0 });
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(Int32Array::from_iter_values(values)));
    let mut fields = rows.schema().fields().to_vec();
    fields.push(field());
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| from_arrow(&error))
}
