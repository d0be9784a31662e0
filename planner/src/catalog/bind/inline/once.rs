//! Arguments that a call computes once, though their parameters stand in the body more or less often than that: those that have
//! another value each time they are computed.
//!
//! In an expression they are told to the plan (`functions::argument`). A call in FROM has them in a query of its WITH.

use super::{Inliner, cast_bare, parameters};
use crate::catalog::bind::Binder;
use crate::catalog::bind::relations::ONCE_MARK;
use crate::pg::error::Result;
use crate::pg::functions::argument::{ARGUMENT, WITH_ARGUMENT};
use crate::pg::parse::select;
use crate::pg::rewrite::{call, function_name};
use crate::pg::walk::{Visit, expressions, null, taken};
use datafusion::logical_expr::Volatility;
use datafusion::logical_expr::planner::ContextProvider;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, ObjectName, Query, SelectItem, SetExpr, TableAlias, Value, With,
};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use tenon_storage::Function;

/// Numbers of arguments, of the server: those of a plan differ, whatever it is put together of.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A number and the value that it stands for.
pub(super) type Once = (u64, Expr);

fn number(at: u64) -> Expr {
    Expr::Value(Value::Number(at.to_string(), false).into())
}

/// Whether an expression may have another value each time it is computed.
pub(super) fn is_volatile<T: Visit>(binder: &Binder, tree: &T) -> bool {
    expressions(tree, |expr, _| match expr {
        Expr::Function(call) => {
            let name = function_name(call);
            let known = binder.get_function_meta(&name);
            match known.is_some_and(|own| own.signature().volatility == Volatility::Volatile) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// What stands for a value that is computed once, of its type or a declared one.
pub(super) fn stand_in(value: &mut Expr, declared: Option<&str>) -> Result<Once> {
    let at = NUMBER.fetch_add(1, Ordering::Relaxed);
    let like = match declared.filter(|declared| !declared.starts_with("any")) {
        Some(declared) => cast_bare(null(), declared)?,
        None => value.clone(),
    };
    let own = std::mem::replace(value, call(ARGUMENT, vec![number(at), like]));
    Ok((at, own))
}

/// An expression with the values that stand-ins in it are of.
pub(super) fn with(once: Vec<Once>, body: Expr) -> Expr {
    once.into_iter().rev().fold(body, |body, (at, value)| {
        call(WITH_ARGUMENT, vec![number(at), value, body])
    })
}

/// The query of a call in FROM that makes such values is called so.
fn made_by(at: u64) -> Ident {
    Ident::with_quote('"', format!("\u{1}arguments {at}"))
}

fn column(at: u64) -> Ident {
    Ident::with_quote('"', format!("\u{1}argument {at}"))
}

/// Whether an expression names columns, which are those of relations before a call in FROM.
fn names_columns(value: &Expr) -> bool {
    let is_name = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    expressions(value, |expr, _| match is_name(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break()
}

impl Inliner<'_> {
    /// Has something stand for those values that are to be computed once. The body's arguments are marked. `in_from`: the
    /// call stands in FROM.
    pub(super) fn once(
        &self,
        function: &Function,
        body: &Query,
        values: &mut [Expr],
        in_from: bool,
    ) -> Result<Vec<Once>> {
        let mut once: Vec<Once> = Vec::new();
        let is_plain = super::alone_items(body).is_some();
        for (at, value) in values.iter_mut().enumerate() {
            let (alone, within) = parameters::uses(body, at);
            // As PostgreSQL, which puts the body in the place of the call then.
            let is_put_in = is_plain && alone < 2 && within == 0 && !function.strict;
            let by_with = in_from && !is_plain;
            if is_put_in || !is_volatile(self.binder, value) || by_with && names_columns(value) {
                continue;
            }
            let declared = function.arguments.get(at).map(|own| own.sql_type.as_str());
            let (number, own) = stand_in(value, declared)?;
            if by_with {
                let made = made_by(once.first().map_or(number, |(first, _)| *first));
                let rows = select::factor(ObjectName::from(vec![made]), None);
                let item = SelectItem::UnnamedExpr(Expr::Identifier(column(number)));
                *value = Expr::Subquery(select::query(vec![item], vec![select::alone(rows)], None));
            }
            once.push((number, own));
        }
        Ok(once)
    }
}

/// Has a call's query in FROM make such values: one of a single row in its items, any other by its WITH.
pub(super) fn with_rows(once: &[Once], query: &mut Query, is_plain: bool) {
    let Some((first, _)) = once.first() else { return };
    if let (true, SetExpr::Select(select)) = (is_plain, query.body.as_mut()) {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                *expr = with(once.to_vec(), taken(expr));
            }
        }
        return;
    }
    let name = made_by(*first);
    let values = once.iter().map(|(at, value)| SelectItem::ExprWithAlias {
        expr: value.clone(),
        alias: column(*at),
    });
    let made = select::query(values.collect(), Vec::new(), None);
    let kept = select::derived(made, &format!("{ONCE_MARK}{}", name.value), &[]);
    let all = SelectItem::Wildcard(Default::default());
    let table = Cte {
        alias: TableAlias {
            explicit: true,
            name,
            columns: Vec::new(),
            at: None,
        },
        query: select::query(vec![all], vec![select::alone(kept)], None),
        from: None,
        materialized: None,
        closing_paren_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
    };
    match &mut query.with {
        Some(with) => with.cte_tables.insert(0, table),
        none => {
            *none = Some(With {
                with_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                recursive: false,
                cte_tables: vec![table],
            });
        }
    }
}
