//! `SELECT (SELECT max(o.x)) FROM t o`: an aggregate over columns of the query around its own belongs to that query. A
//! subquery of nothing but such an expression is that expression. Not so in a function's body that was put in the place of a
//! call: there the columns were arguments.

use super::fold;
use crate::pg::functions::aggregate::names::is_aggregate;
use crate::pg::functions::constant::OF_BODY;
use crate::pg::names::known_as;
use crate::pg::rewrite::{call as call_of, function_name};
use crate::pg::walk::{Visit, VisitMut, change_inner_first, expressions, is_ungrouped};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, Query, Select, SelectItem, SetExpr, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Puts such expressions in the place of their subqueries.
pub(super) fn hoist(select: &mut Select, keys: &mut [&mut Expr]) {
    if select.from.is_empty() {
        return;
    }
    let mut hoist = |expr: &mut Expr, within: bool| {
        if !within
            && let Expr::Subquery(query) = expr
            && let Some(only) = single(query)
            && aggregates_outer_rows(only)
        {
            *expr = Expr::Nested(Box::new(only.clone()));
        }
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            change_inner_first(expr, &mut hoist);
        }
    }
    for expr in select.having.iter_mut().chain(keys.iter_mut().map(|key| &mut **key)) {
        change_inner_first(expr, &mut hoist);
    }
}

/// The expression that is all of a query.
fn single(query: &Query) -> Option<&Expr> {
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let plain = plain
        && is_ungrouped(select)
        && select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none();
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] if plain => Some(expr),
        _ => None,
    }
}

/// Whether the aggregates of a query without FROM are all over columns, which are those of a query around it, and there are some.
fn aggregates_outer_rows(only: &Expr) -> bool {
    let (mut of_outer, mut others) = (0, 0);
    let _ = expressions(only, |expr, within| {
        if let Expr::Function(call) = expr
            && !within
            && call.over.is_none()
            && is_aggregate(call)
        {
            match !is_marked(call) && has_outer_column(call) {
                true => of_outer += 1,
                false => others += 1,
            }
        }
        ControlFlow::<()>::Continue(())
    });
    of_outer > 0 && others == 0
}

/// Whether a call is an aggregate, but for those that a function's body has put in the place of its call.
pub(super) fn is_own(call: &Function) -> bool {
    is_aggregate(call) && !is_marked(call)
}

/// Marks the aggregates of a function's body that read its arguments; `reads` says what does.
pub(super) fn mark(body: &mut Query, reads: impl Fn(&Expr) -> bool) {
    struct Marker<F> {
        reads: Reads<F>,
    }
    impl<F: Fn(&Expr) -> bool> VisitorMut for Marker<F> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(call) = expr
                && call.over.is_none()
                && is_aggregate(call)
                && Visit::visit(&*call, &mut self.reads).is_break()
            {
                let mark = Box::new(call_of(OF_BODY, vec![]));
                call.filter = Some(match call.filter.take() {
                    Some(filter) => Box::new(Expr::BinaryOp {
                        left: mark,
                        op: BinaryOperator::And,
                        right: Box::new(Expr::Nested(filter)),
                    }),
                    None => mark,
                });
            }
            ControlFlow::Continue(())
        }
    }
    struct Reads<F>(F);
    impl<F: Fn(&Expr) -> bool> Visitor for Reads<F> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match self.0(expr) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    let _ = body.visit(&mut Marker { reads: Reads(reads) });
}

fn is_marked(call: &Function) -> bool {
    let mut filter = call.filter.as_deref();
    while let Some(Expr::BinaryOp { left, .. }) = filter {
        filter = Some(left);
    }
    matches!(filter, Some(Expr::Function(mark)) if function_name(mark) == OF_BODY)
}

/// Whether a call's arguments or its FILTER, or queries in them, read a column of a query around.
fn has_outer_column(call: &Function) -> bool {
    #[derive(Default)]
    struct Columns {
        /// The relations of each query in the arguments.
        own: Vec<Vec<String>>,
    }
    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let names = match query.body.as_ref() {
                SetExpr::Select(select) => select
                    .from
                    .iter()
                    .flat_map(|table| {
                        std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
                    })
                    .filter_map(known_as)
                    .collect(),
                _ => Vec::new(),
            };
            self.own.push(names);
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.own.pop();
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let outer = match expr {
                Expr::Identifier(_) => self.own.is_empty(),
                Expr::CompoundIdentifier(parts) => {
                    let qualifier = parts.iter().rev().nth(1).map(fold).unwrap_or_default();
                    !self.own.iter().flatten().any(|own| *own == qualifier)
                }
                _ => false,
            };
            if outer {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }
    let in_filter = |filter: &Expr| Visit::visit(filter, &mut Columns::default()).is_break();
    Visit::visit(&call.args, &mut Columns::default()).is_break() || call.filter.as_deref().is_some_and(in_filter)
}
