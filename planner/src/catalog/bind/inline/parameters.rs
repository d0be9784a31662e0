//! A function's arguments where its body names them: `$1`, `name` and `function.name`.
//!
//! A column of the body's relations goes before an argument of its name, as in PostgreSQL. So the places of arguments are marked
//! while the body stands alone, and get their values later, when nothing can be mistaken for them.

use super::{Inliner, cast_bare};
use crate::catalog::bind::{fold, hygiene};
use crate::pg::names::known_as;
use crate::pg::parse::select;
use crate::pg::rewrite::output_name;
use crate::pg::walk::{VisitMut, change_inner_first, constraint, expressions, null};
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
    TableWithJoins, Value, VisitorMut, With,
};
use std::cell::Cell;
use std::ops::ControlFlow;
use tenon_storage::Function;

/// How the mark of an argument begins; its number follows.
const MARK: &str = "\u{1}argument ";
/// Before a name that is one of the query's own results while arguments are looked for.
const RESULT: char = '\u{2}';

/// Marks the places of a function's arguments in its body.
pub(super) fn mark(inliner: &Inliner<'_>, function: &Function, body: &mut Query) {
    let mut marker = Marker {
        inliner,
        function,
        frames: Vec::new(),
        queries: Vec::new(),
    };
    let _ = body.visit(&mut marker);
    change_inner_first(body, |expr, _| {
        if let Expr::Identifier(name) = expr
            && let Some(own) = name.value.strip_prefix(RESULT)
        {
            name.value = own.to_string();
        }
    });
}

/// The number of the argument whose mark an expression is.
pub(super) fn marked(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Identifier(name) => name.value.strip_prefix(MARK)?.parse().ok(),
        _ => None,
    }
}

fn mark_of(at: usize) -> Expr {
    Expr::Identifier(Ident::with_quote('"', format!("{MARK}{at}")))
}

/// Puts values in the marked places.
pub(super) fn fill<T: VisitMut>(body: &mut T, values: &[Expr]) {
    change_inner_first(body, |expr, _| {
        if let Some(value) = marked(expr).and_then(|at| values.get(at)) {
            *expr = Expr::Nested(Box::new(value.clone()));
        }
    });
}

/// How often an argument's mark stands in a body: in its own expressions, and in queries within it.
pub(super) fn uses(body: &Query, at: usize) -> (usize, usize) {
    let (mut alone, mut inner) = (0, 0);
    let _ = expressions(body.body.as_ref(), |expr, within| {
        if marked(expr) == Some(at) {
            *(if within { &mut inner } else { &mut alone }) += 1;
        }
        ControlFlow::<()>::Continue(())
    });
    (alone, inner)
}

struct Marker<'a> {
    inliner: &'a Inliner<'a>,
    function: &'a Function,
    /// The relations that each SELECT around the place may name.
    frames: Vec<Vec<TableWithJoins>>,
    queries: Vec<Around>,
}

/// A query around the place.
struct Around {
    with: Option<With>,
    /// How many frames there were before it.
    frames: usize,
    /// Whether it is one SELECT, whose relations its ORDER BY names, too.
    is_plain: bool,
}

impl Marker<'_> {
    /// The number of the argument that an expression names.
    fn argument(&self, expr: &Expr) -> Option<usize> {
        let named = |name: &str| {
            let mut own = self.function.arguments.iter();
            own.position(|own| own.name.as_deref() == Some(name))
        };
        match expr {
            Expr::Value(value) => match &value.value {
                Value::Placeholder(id) => {
                    let at = id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
                    (at < self.function.arguments.len()).then_some(at)
                }
                _ => None,
            },
            Expr::Identifier(name) => {
                let name = fold(name);
                named(&name).filter(|_| !self.is_column(&name))
            }
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [function, name] if fold(function) == self.function.name => {
                    named(&fold(name)).filter(|_| !self.is_relation(&self.function.name))
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn is_relation(&self, name: &str) -> bool {
        let mut factors = self.frames.iter().flatten().flat_map(factors);
        factors.any(|factor| known_as(factor).as_deref() == Some(name))
    }

    /// Whether a relation that may be named has a column of that name, or is called so.
    fn is_column(&self, name: &str) -> bool {
        (0..self.frames.len()).rev().any(|at| {
            let mut is_open = false;
            for factor in self.frames[at].iter().flat_map(factors) {
                match hygiene::columns(self.inliner.binder, factor) {
                    Some(columns) => {
                        if columns.iter().any(|own| own == name) || known_as(factor).as_deref() == Some(name) {
                            return true;
                        }
                    }
                    None => is_open = true,
                }
            }
            is_open && self.is_planned(name, at)
        })
    }

    /// Whether a query over the relations of a frame can give what a name stands for.
    fn is_planned(&self, name: &str, at: usize) -> bool {
        let item = |expr| vec![SelectItem::UnnamedExpr(expr)];
        let mut withs: Vec<Option<With>> = self.queries.iter().map(|query| query.with.clone()).collect();
        withs.iter_mut().flatten().for_each(|with| self.untie(with));
        let inliner = Inliner {
            withs,
            calls: Cell::new(0),
            scopes: Vec::new(),
            ..*self.inliner
        };
        let mut value = Expr::Identifier(Ident::with_quote('"', name));
        // A relation may be made of those around it.
        for frame in self.frames[..=at].iter().rev().filter(|frame| !frame.is_empty()) {
            let mut from = frame.clone();
            from.iter_mut().for_each(|table| self.untie(table));
            let query = select::query(item(value), from, None);
            if inliner.planned(inliner.with(query.clone())).is_some() {
                return true;
            }
            value = Expr::Subquery(query);
        }
        false
    }

    /// Nulls for the arguments, and joins without conditions.
    fn untie<T: VisitMut>(&self, tree: &mut T) {
        struct Joins;
        impl VisitorMut for Joins {
            type Break = ();
            fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
                select.from.iter_mut().for_each(unconditional);
                ControlFlow::Continue(())
            }
        }
        change_inner_first(tree, |expr, _| {
            let argument = marked(expr).and_then(|at| self.function.arguments.get(at));
            if let Some(argument) = argument {
                let declared = Some(&argument.sql_type).filter(|declared| !declared.starts_with("any"));
                let typed = declared.and_then(|declared| cast_bare(null(), declared).ok());
                *expr = typed.unwrap_or_else(null);
            }
        });
        let _ = tree.visit(&mut Joins);
    }

    /// Visits a relation, which may name those before it, and adds it to the innermost frame.
    fn add(&mut self, mut table: TableWithJoins) {
        let joins = std::mem::take(&mut table.joins);
        self.relation(&mut table.relation);
        let at = self.frames.len() - 1;
        self.frames[at].push(table);
        for mut join in joins {
            self.relation(&mut join.relation);
            let Some(table) = self.frames[at].last_mut() else {
                return;
            };
            table.joins.push(join.clone());
            let _ = join.join_operator.visit(self);
            if let Some(own) = self.frames[at].last_mut().and_then(|table| table.joins.last_mut()) {
                own.join_operator = join.join_operator;
            }
        }
    }

    fn relation(&mut self, factor: &mut TableFactor) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                self.frames.push(Vec::new());
                self.add((**table_with_joins).clone());
                let inner = self.frames.pop().and_then(|mut frame| frame.pop());
                if let Some(inner) = inner {
                    **table_with_joins = inner;
                }
            }
            TableFactor::Derived { lateral: false, .. } => {
                let beside = self.frames.last_mut().map(std::mem::take).unwrap_or_default();
                let _ = factor.visit(self);
                if let Some(frame) = self.frames.last_mut() {
                    *frame = beside;
                }
            }
            _ => {
                let _ = factor.visit(self);
            }
        }
    }
}

impl VisitorMut for Marker<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            let names = results(&query.body);
            keys.iter_mut().for_each(|key| set_apart(&mut key.expr, &names));
        }
        let mut with = query.with.take();
        // Its queries name nothing of this one.
        let _ = with.visit(self);
        self.queries.push(Around {
            with,
            frames: self.frames.len(),
            is_plain: matches!(*query.body, SetExpr::Select(_)),
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(around) = self.queries.pop() {
            self.frames.truncate(around.frames);
            query.with = around.with;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            let names = aliases(&select.projection);
            keys.iter_mut().for_each(|key| set_apart(key, &names));
        }
        self.frames.push(Vec::new());
        for table in std::mem::take(&mut select.from) {
            self.add(table);
        }
        // A result that is an argument keeps its name.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr @ Expr::Identifier(_)) = item
                && let Some(at) = self.argument(expr)
                && let Expr::Identifier(name) = expr
            {
                let alias = Ident::with_quote('"', fold(name));
                *item = SelectItem::ExprWithAlias {
                    expr: mark_of(at),
                    alias,
                };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_whole = self
            .queries
            .last()
            .is_some_and(|query| query.is_plain && query.frames + 1 == self.frames.len());
        let frame = match is_whole {
            true => self.frames.last().cloned(),
            false => self.frames.pop(),
        };
        select.from = frame.unwrap_or_default();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(at) = self.argument(expr) {
            *expr = mark_of(at);
        }
        ControlFlow::Continue(())
    }
}

fn factors(table: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
}

fn unconditional(table: &mut TableWithJoins) {
    for join in &mut table.joins {
        if let Some(JoinConstraint::On(condition)) = constraint(&mut join.join_operator) {
            *condition = Expr::Value(Value::Boolean(true).into());
        }
    }
}

/// The names of results by which a query is sorted: those that are written, and of several SELECTs all that the first has.
fn results(body: &SetExpr) -> Vec<String> {
    fn first(body: &SetExpr) -> Vec<String> {
        match body {
            SetExpr::Select(select) => select.projection.iter().filter_map(output_name).collect(),
            SetExpr::SetOperation { left, .. } => first(left),
            SetExpr::Query(query) => first(&query.body),
            _ => Vec::new(),
        }
    }
    match body {
        SetExpr::Select(select) => aliases(&select.projection),
        other => first(other),
    }
}

fn aliases(items: &[SelectItem]) -> Vec<String> {
    let alias = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    };
    items.iter().filter_map(alias).collect()
}

/// A name alone that is one of the results is no argument.
fn set_apart(expr: &mut Expr, names: &[String]) {
    if let Expr::Identifier(name) = expr
        && names.contains(&fold(name))
    {
        *name = Ident::with_quote('"', format!("{RESULT}{}", fold(name)));
    }
}
