//! Groups and aggregates that DataFusion would give one name. It names an expression without its casts and parentheses, so
//! that `sum(x::int)` and `sum(x::bigint)` are the same to it, and `(a + b) * c` is `a + b * c`. All but the first of such
//! expressions are wrapped in `coalesce`, which is part of the name and changes no value.

use super::spellings::call;
use crate::pg::functions::aggregate::names::is_aggregate;
use crate::pg::walk::{VisitMut, expressions, taken};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, OrderBy, OrderByKind, Query, Select,
    SelectItem, SetExpr, VisitorMut, WindowType,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The SELECT of a query with its ORDER BY, or those of a set operation.
pub(super) fn in_query(query: &mut Query) {
    in_body(&mut query.body, &mut query.order_by);
}

fn in_body(body: &mut SetExpr, order_by: &mut Option<OrderBy>) {
    match body {
        SetExpr::Select(select) => in_select(select, order_by),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left, &mut None);
            in_body(right, &mut None);
        }
        // Queries in parentheses are seen to by themselves.
        _ => {}
    }
}

fn in_select(select: &mut Select, order_by: &mut Option<OrderBy>) {
    let mut named = Named::default();
    let GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return;
    };
    for key in keys {
        named.keys(key);
    }
    let items = || select.projection.iter().filter_map(item);
    if !named.found.is_empty() {
        // A key may be the number of an item.
        items().for_each(|item| named.key(item));
    }
    items().for_each(|item| named.calls(item));
    select.having.iter().for_each(|having| named.calls(having));
    for key in sort_keys(order_by) {
        named.calls(key);
    }
    for (from, to) in named.exchanged() {
        let mut exchange = Exchange { from, to, depth: 0 };
        for item in &mut select.projection {
            let _ = VisitMut::visit(item, &mut exchange);
        }
        let _ = VisitMut::visit(&mut select.group_by, &mut exchange);
        let _ = VisitMut::visit(&mut select.having, &mut exchange);
        let _ = VisitMut::visit(order_by, &mut exchange);
    }
}

fn item(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn sort_keys(order_by: &Option<OrderBy>) -> impl Iterator<Item = &Expr> {
    let keys = order_by.iter().flat_map(|order| match &order.kind {
        OrderByKind::Expressions(keys) => keys.as_slice(),
        OrderByKind::All(_) => &[],
    });
    keys.map(|key| &key.expr)
}

/// What gets a name, by that name.
#[derive(Default)]
struct Named {
    found: BTreeMap<String, Vec<Expr>>,
}

impl Named {
    fn keys(&mut self, key: &Expr) {
        match key {
            Expr::GroupingSets(sets) => sets.iter().flatten().for_each(|key| self.key(key)),
            Expr::Rollup(sets) | Expr::Cube(sets) => sets.iter().flatten().for_each(|key| self.key(key)),
            Expr::Tuple(keys) => keys.iter().for_each(|key| self.key(key)),
            key => self.key(key),
        }
    }

    fn key(&mut self, expr: &Expr) {
        let found = self.found.entry(bare(expr)).or_default();
        let expr = unnested(expr);
        if !found.contains(&expr) {
            found.push(expr);
        }
    }

    /// Aggregates and window functions, those of subqueries aside.
    fn calls(&mut self, expr: &Expr) {
        let _ = expressions(expr, |expr, within| {
            if let Expr::Function(function) = expr
                && !within
                && (function.over.is_some() || is_aggregate(function))
            {
                self.key(expr);
            }
            ControlFlow::<()>::Continue(())
        });
    }

    /// What takes the place of what.
    fn exchanged(self) -> Vec<(Expr, Expr)> {
        let mut out = Vec::new();
        for (bare, mut same) in self.found.into_iter().filter(|(_, same)| same.len() > 1) {
            // What has neither casts nor parentheses stays.
            same.sort_by_key(|expr| expr.to_string() != bare && !is_star(expr));
            let first = same.remove(0);
            for (at, expr) in same.into_iter().enumerate() {
                out.extend(wrapped(&expr, &first, at + 1).map(|to| (expr, to)));
            }
        }
        // The outer ones of nested ones first: their parts are exchanged after them.
        out.sort_by_key(|(from, _)| std::cmp::Reverse(from.to_string().len()));
        out
    }
}

/// The text of an expression without casts and parentheses.
fn bare(expr: &Expr) -> String {
    struct Bare;
    impl VisitorMut for Bare {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
                *expr = taken(inner);
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = VisitMut::visit(&mut expr, &mut Bare);
    match is_star(&expr) {
        true => "count(1)".to_string(),
        false => expr.to_string(),
    }
}

/// `count(*)`, which counts a constant.
fn is_star(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.over.is_none() && function.filter.is_none())
        && expr.to_string().eq_ignore_ascii_case("count(*)")
}

/// The expression without parentheses, which its tree does not need.
fn unnested(expr: &Expr) -> Expr {
    struct Unnested;
    impl VisitorMut for Unnested {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Nested(inner) = expr {
                *expr = taken(inner);
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = VisitMut::visit(&mut expr, &mut Unnested);
    expr
}

/// The expression under another name than `first` has. Of a call, the first argument that differs, or key of its window.
fn wrapped(expr: &Expr, first: &Expr, times: usize) -> Option<Expr> {
    let (Expr::Function(own), Expr::Function(other)) = (expr, first) else {
        return Some(coalesced(expr, times));
    };
    let mut others = arguments(other);
    let differing = arguments(own).find(|own| others.next() != Some(*own));
    let mut others = partition(other);
    let argument = differing.or_else(|| partition(own).find(|own| others.next() != Some(*own)))?;
    let mut exchange = Exchange {
        from: argument.clone(),
        to: coalesced(argument, times),
        depth: 0,
    };
    let mut expr = expr.clone();
    let _ = VisitMut::visit(&mut expr, &mut exchange);
    Some(expr)
}

/// The keys by which a window function's rows are parted.
fn partition(function: &Function) -> impl Iterator<Item = &Expr> {
    let keys = match &function.over {
        Some(WindowType::WindowSpec(window)) => window.partition_by.as_slice(),
        _ => &[],
    };
    keys.iter()
}

fn coalesced(expr: &Expr, times: usize) -> Expr {
    (0..times).fold(expr.clone(), |expr, _| call("coalesce", vec![expr]))
}

fn arguments(function: &Function) -> impl Iterator<Item = &Expr> {
    let list = match &function.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

/// Puts one expression in the place of another, outside of subqueries.
struct Exchange {
    from: Expr,
    to: Expr,
    depth: usize,
}

impl VisitorMut for Exchange {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 && unnested(expr) == self.from {
            *expr = self.to.clone();
        }
        ControlFlow::Continue(())
    }
}
