//! Groups and aggregates that DataFusion would give one name. It names an expression without its casts and parentheses, so
//! that `sum(x::int)` and `sum(x::bigint)` are the same to it, and `(a + b) * c` is `a + b * c`; and it calls a column by its
//! relation too, whether or not the client did. All but the first of such expressions are wrapped in `coalesce`, which is part
//! of the name and changes no value.

use super::names::function_name;
use super::spellings::call;
use super::subqueries_apart;
use crate::pg::functions::aggregate::names::{is_aggregate, of_columns};
use crate::pg::names::fold;
use crate::pg::walk::{VisitMut, change_inner_first, expressions, taken};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident,
    NamedWindowDefinition, NamedWindowExpr, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    Value, VisitorMut, WindowType,
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
    subqueries_apart::in_select(select, order_by);
    let mut named = Named {
        windows: &select.named_window,
        found: BTreeMap::new(),
    };
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
        exchange_all(select, order_by, &from, &to);
    }
}

/// Exchanges an expression wherever a query may compute it of groups or windows, with its ORDER BY.
pub(super) fn exchange_all(select: &mut Select, order_by: &mut Option<OrderBy>, from: &Expr, to: &Expr) {
    let mut exchange = exchange(from, to);
    for item in &mut select.projection {
        change_inner_first(item, &mut exchange);
    }
    change_inner_first(&mut select.named_window, &mut exchange);
    change_inner_first(&mut select.group_by, &mut exchange);
    change_inner_first(&mut select.having, &mut exchange);
    change_inner_first(order_by, &mut exchange);
}

pub(super) fn item(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

pub(super) fn sort_keys(order_by: &Option<OrderBy>) -> impl Iterator<Item = &Expr> {
    let keys = order_by.iter().flat_map(|order| match &order.kind {
        OrderByKind::Expressions(keys) => keys.as_slice(),
        OrderByKind::All(_) => &[],
    });
    keys.map(|key| &key.expr)
}

/// What gets a name, by that name without the relations of columns.
struct Named<'a> {
    windows: &'a [NamedWindowDefinition],
    found: BTreeMap<String, Vec<Found>>,
}

struct Found {
    /// As it stands there.
    expr: Expr,
    /// With the window that it names.
    spelt: Expr,
    bare: Expr,
}

impl Found {
    /// What tells its value from others of its name: a tree, since texts lack parentheses.
    fn value(&self) -> Expr {
        unqualified(&self.spelt)
    }

    /// Whether DataFusion may give both the same name: columns without a relation may be of any.
    fn meets(&self, other: &Found) -> bool {
        let (own, others) = (columns(&self.bare), columns(&other.bare));
        own.len() == others.len()
            && own
                .iter()
                .zip(&others)
                .all(|(own, other)| own.is_none() || other.is_none() || own == other)
    }
}

impl Named<'_> {
    fn keys(&mut self, key: &Expr) {
        match key {
            Expr::GroupingSets(sets) => sets.iter().flatten().for_each(|key| self.key(key)),
            Expr::Rollup(sets) | Expr::Cube(sets) => sets.iter().flatten().for_each(|key| self.key(key)),
            Expr::Tuple(keys) => keys.iter().for_each(|key| self.key(key)),
            key => self.key(key),
        }
    }

    fn key(&mut self, expr: &Expr) {
        let expr = unnested(expr);
        let spelt = self.spelt(&expr);
        let bare = bare(&spelt);
        let found = self.found.entry(unqualified(&bare).to_string()).or_default();
        if !found.iter().any(|known| known.expr == expr) {
            found.push(Found { expr, spelt, bare });
        }
    }

    /// A call with the window that it names, where that stands on no other.
    fn spelt(&self, expr: &Expr) -> Expr {
        let mut expr = expr.clone();
        if let Expr::Function(function) = &mut expr
            && let Some(WindowType::NamedWindow(name)) = &function.over
            && let Some(window) = self.windows.iter().find(|window| fold(&window.0) == fold(name))
            && let NamedWindowExpr::WindowSpec(window) = &window.1
            && window.window_name.is_none()
        {
            function.over = Some(WindowType::WindowSpec(window.clone()));
        }
        expr
    }

    /// Aggregates and window functions, those of subqueries aside.
    fn calls(&mut self, expr: &Expr) {
        let _ = expressions(expr, |expr, within| {
            if !within && is_called(expr) {
                self.key(expr);
            }
            ControlFlow::<()>::Continue(())
        });
    }

    /// What takes the place of what.
    fn exchanged(self) -> Vec<(Expr, Expr)> {
        let mut out = Vec::new();
        for (_, mut same) in self.found.into_iter().filter(|(_, same)| same.len() > 1) {
            // What has neither casts nor parentheses stays.
            same.sort_by_key(|found| found.spelt.to_string() != found.bare.to_string() && !is_star(&found.spelt));
            let mut values: Vec<Expr> = Vec::new();
            for found in &same {
                let value = found.value();
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            let collide = |a: &Found, b: &Found| a.value() != b.value() && a.meets(b);
            if !same.iter().any(|a| same.iter().any(|b| collide(a, b))) {
                continue;
            }
            for found in &same[1..] {
                let value = found.value();
                let times = values.iter().position(|known| *known == value).unwrap_or_default();
                if times > 0
                    && let Some(to) = wrapped(&found.spelt, &same[0].spelt, times)
                {
                    out.push((found.expr.clone(), to));
                }
            }
        }
        // The outer ones of nested ones first: their parts are exchanged after them.
        out.sort_by_key(|(from, _)| std::cmp::Reverse(from.to_string().len()));
        out
    }
}

/// Whether an expression is a call of an aggregate or a window function.
pub(super) fn is_called(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.over.is_some() || is_aggregate(function))
}

/// An expression without casts and parentheses.
fn bare(expr: &Expr) -> Expr {
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
        true => call("count", vec![Expr::value(Value::Number("1".into(), false))]),
        false => expr,
    }
}

/// An expression with its names folded, whose columns do not say of what relation they are.
pub(super) fn unqualified(expr: &Expr) -> Expr {
    struct Unqualified;
    impl VisitorMut for Unqualified {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) => *name = Ident::with_quote('"', fold(name)),
                Expr::CompoundIdentifier(parts) => {
                    if let Some(name) = parts.last() {
                        *expr = Expr::Identifier(Ident::with_quote('"', fold(name)));
                    }
                }
                Expr::Function(function) => {
                    let name = of_columns(function_name(function));
                    function.name = ObjectName::from(vec![Ident::new(name)]);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = VisitMut::visit(&mut expr, &mut Unqualified);
    expr
}

/// The relations that an expression's columns say they are of, in their order.
pub(super) fn columns(expr: &Expr) -> Vec<Option<String>> {
    let mut out = Vec::new();
    let _ = expressions(expr, |expr, _| {
        match expr {
            Expr::Identifier(_) => out.push(None),
            Expr::CompoundIdentifier(parts) => out.push(parts.iter().rev().nth(1).map(fold)),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    out
}

/// `count(*)`, which counts a constant.
pub(super) fn is_star(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.over.is_none() && function.filter.is_none())
        && expr.to_string().eq_ignore_ascii_case("count(*)")
}

/// The expression without parentheses, which its tree does not need.
pub(super) fn unnested(expr: &Expr) -> Expr {
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

/// The expression under another name than `first` has. Of a call, the first argument that differs, or key of its window, order or
/// condition.
fn wrapped(expr: &Expr, first: &Expr, times: usize) -> Option<Expr> {
    let (Expr::Function(own), Expr::Function(other)) = (expr, first) else {
        return Some(coalesced(expr, times));
    };
    let (parts, others) = (parts(own), self::parts(other));
    let differs = |at: usize, own: &Expr| {
        others
            .get(at)
            .is_none_or(|other| unqualified(own) != unqualified(other))
    };
    let differing = parts.iter().enumerate().find(|(at, own)| differs(*at, own));
    let argument = differing.map(|(_, own)| (*own).clone())?;
    let mut expr = expr.clone();
    change_inner_first(&mut expr, exchange(&argument, &coalesced(&argument, times)));
    Some(expr)
}

/// A call's arguments, the keys by which a window function's rows are parted and ordered, those that order an aggregate's rows,
/// and their condition.
fn parts(function: &Function) -> Vec<&Expr> {
    let mut out: Vec<&Expr> = arguments(function).collect();
    if let Some(WindowType::WindowSpec(window)) = &function.over {
        out.extend(&window.partition_by);
        out.extend(window.order_by.iter().map(|key| &key.expr));
    }
    if let FunctionArguments::List(list) = &function.args {
        for clause in &list.clauses {
            if let FunctionArgumentClause::OrderBy(keys) = clause {
                out.extend(keys.iter().map(|key| &key.expr));
            }
        }
    }
    out.extend(function.within_group.iter().map(|key| &key.expr));
    out.extend(function.filter.as_deref());
    out
}

pub(super) fn coalesced(expr: &Expr, times: usize) -> Expr {
    (0..times).fold(expr.clone(), |expr, _| call("coalesce", vec![expr]))
}

pub(crate) fn arguments(function: &Function) -> impl Iterator<Item = &Expr> {
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
fn exchange<'a>(from: &'a Expr, to: &'a Expr) -> impl FnMut(&mut Expr, bool) + 'a {
    move |expr, within| {
        if !within && unnested(expr) == *from {
            *expr = to.clone();
        }
    }
}
