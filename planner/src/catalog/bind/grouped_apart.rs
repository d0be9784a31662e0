//! A subquery with FROM that holds an aggregate, or GROUPING, of a query around it: that query's groups become a relation of
//! their own, whose columns are its keys and aggregates, and what was to be computed for each group is a query over that.
//!
//! Such an aggregate names its columns with the relation's name; GROUPING names keys of the query around.

use super::fold;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::names::known_as;
use crate::pg::parse::select;
use crate::pg::rewrite::{COMPARED, function_name};
use crate::pg::walk::{Visit, VisitMut, is_ungrouped};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Query, Select, SelectItem,
    SetExpr, Value, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

const GROUPS: &str = "\u{1}groups";

/// Puts a SELECT apart from its groups where one of its subqueries needs that; `order` are the keys of its ORDER BY.
pub(super) fn resolve(
    select: &mut Select,
    order: &mut [&mut Expr],
    is_aggregate: impl Fn(&Function) -> bool,
) -> Result<()> {
    let named = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if select.from.is_empty() || !select.projection.iter().all(named) {
        return Ok(());
    }
    let Some(keys) = keys_of(&select.group_by, &select.projection) else {
        return Ok(());
    };
    let own = select
        .from
        .iter()
        .flat_map(crate::pg::walk::factors)
        .filter_map(known_as);
    let mut walker = Walker {
        own: own.collect(),
        keys,
        is_aggregate: &is_aggregate,
        around: Vec::new(),
        aggregates: Vec::new(),
        found: false,
        ungrouped: None,
    };
    let _ = Visit::visit(&select.projection, &mut walker);
    let _ = Visit::visit(&select.having, &mut walker);
    for key in order.iter() {
        let _ = Visit::visit(&**key, &mut walker);
    }
    if !walker.found {
        return Ok(());
    }
    let mut base = select.clone();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(alias) = name_of(expr)
        {
            let expr = expr.clone();
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = VisitMut::visit(expr, &mut walker);
        }
    }
    if let Some(having) = &mut select.having {
        let _ = VisitMut::visit(having, &mut walker);
    }
    for key in order.iter_mut() {
        let _ = VisitMut::visit(&mut **key, &mut walker);
    }
    if let Some(message) = walker.ungrouped {
        return Err(SqlError::new(state::GROUPING_ERROR, message));
    }
    let items = (0..walker.keys.len()).map(|at| (walker.keys[at].clone(), walker.key_name(at)));
    let aggregates = walker.aggregates.iter().enumerate();
    let items = items.chain(aggregates.map(|(at, call)| (call.clone(), aggregate_name(at))));
    base.projection = items
        .map(|(expr, alias)| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', alias),
        })
        .collect();
    // GROUPING wants keys, not a row of them.
    if let GroupByExpr::Expressions(keys, _) = &mut base.group_by
        && !keys.iter().any(|key| matches!(key, Expr::GroupingSets(_)))
    {
        keys.clone_from(&walker.keys);
    }
    base.distinct = None;
    base.having = None;
    base.named_window = Vec::new();
    select.selection = select.having.take();
    select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    let groups = select::of_body(SetExpr::Select(Box::new(base)));
    select.from = vec![select::alone(select::derived(groups, GROUPS, &[]))];
    Ok(())
}

/// What a query groups by; None where an output column's place says it within a set.
fn keys_of(group_by: &GroupByExpr, items: &[SelectItem]) -> Option<Vec<Expr>> {
    let GroupByExpr::Expressions(keys, _) = group_by else {
        return None;
    };
    let at = |key: &Expr| match key {
        Expr::Value(value) => match &value.value {
            Value::Number(at, _) => at.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        _ => None,
    };
    let in_sets = keys.iter().any(|key| matches!(key, Expr::GroupingSets(_)));
    let mut all: Vec<Expr> = Vec::new();
    for key in keys {
        let key = match at(key).filter(|_| !in_sets).map(|at| items.get(at)) {
            Some(Some(SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. })) => item,
            _ => key,
        };
        let own: Vec<&Expr> = match key {
            Expr::GroupingSets(sets) => sets.iter().flatten().collect(),
            Expr::Tuple(items) => items.iter().collect(),
            one => vec![one],
        };
        for key in own {
            let key = bare(key);
            if matches!(key, Expr::Value(value) if matches!(value.value, Value::Number(..))) {
                return None;
            }
            if !all.iter().any(|known| same(known, key)) {
                all.push(key.clone());
            }
        }
    }
    Some(all)
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// The last part of a column's name.
fn name_of(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::CompoundIdentifier(parts) => parts.last().cloned(),
        _ => None,
    }
}

fn qualifier(expr: &Expr) -> Option<String> {
    match expr {
        Expr::CompoundIdentifier(parts) => parts.iter().rev().nth(1).map(fold),
        _ => None,
    }
}

/// Whether two expressions are the same, a column also with its relation's name and without.
fn same(a: &Expr, b: &Expr) -> bool {
    let (a, b) = (bare(a), bare(b));
    match (name_of(a), name_of(b)) {
        (Some(one), Some(other)) => {
            let qualified = (qualifier(a), qualifier(b));
            let apart = matches!(&qualified, (Some(one), Some(other)) if one != other);
            fold(&one) == fold(&other) && !apart
        }
        _ => a == b,
    }
}

fn aggregate_name(at: usize) -> String {
    format!("\u{1}aggregate {at}")
}

fn column(name: &str) -> Expr {
    Expr::CompoundIdentifier([GROUPS, name].map(|part| Ident::with_quote('"', part)).to_vec())
}

/// A query between the one with groups and the place.
struct Around {
    relations: Vec<String>,
    is_grouped: bool,
    has_from: bool,
    /// It compares a row with those of a subquery: what it holds beside that stood outside of it.
    compares: bool,
}

struct Walker<'a> {
    /// The names of the query's relations.
    own: Vec<String>,
    keys: Vec<Expr>,
    is_aggregate: &'a dyn Fn(&Function) -> bool,
    around: Vec<Around>,
    /// The calls that are columns of the groups.
    aggregates: Vec<Expr>,
    /// Whether a subquery with FROM has one.
    found: bool,
    /// What to say of a column that is no key.
    ungrouped: Option<String>,
}

impl Walker<'_> {
    /// The name of a key's column: its own, so that subqueries find it without a relation's name.
    fn key_name(&self, at: usize) -> String {
        let name = |key: &Expr| name_of(key).map(|name| fold(&name));
        match name(&self.keys[at]) {
            Some(own) if self.keys[..at].iter().all(|key| name(key).as_ref() != Some(&own)) => own,
            _ => format!("\u{1}key {at}"),
        }
    }

    fn enter(&mut self, query: &Query) {
        let around = match query.body.as_ref() {
            SetExpr::Select(select) => {
                let relations: Vec<String> = select
                    .from
                    .iter()
                    .flat_map(crate::pg::walk::factors)
                    .filter_map(known_as)
                    .collect();
                Around {
                    is_grouped: !is_ungrouped(select),
                    has_from: !select.from.is_empty(),
                    compares: matches!(relations.as_slice(), [only] if only == COMPARED),
                    relations,
                }
            }
            _ => Around {
                relations: Vec::new(),
                is_grouped: false,
                has_from: false,
                compares: false,
            },
        };
        self.around.push(around);
    }

    /// Whether the place is within a subquery of the text.
    fn is_inside(&self) -> bool {
        self.around.iter().any(|around| !around.compares)
    }

    /// Whether a column is named as one of the query's own relations.
    fn is_own(&self, expr: &Expr) -> bool {
        let Some(qualifier) = qualifier(expr) else { return false };
        let hidden = self.around.iter().any(|around| around.relations.contains(&qualifier));
        self.own.contains(&qualifier) && !hidden
    }

    /// Whether a call within a subquery is an aggregate of the query itself.
    fn belongs(&self, call: &Function) -> bool {
        if call.over.is_some() || !(self.is_aggregate)(call) {
            return false;
        }
        if function_name(call) == "grouping" {
            let FunctionArguments::List(list) = &call.args else {
                return false;
            };
            let is_key = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.keys.iter().any(|key| same(key, expr)),
                _ => false,
            };
            return self.around.last().is_some_and(|around| !around.is_grouped) && list.args.iter().all(is_key);
        }
        let mut columns = Columns::default();
        let _ = Visit::visit(&call.args, &mut columns);
        let _ = Visit::visit(&call.filter, &mut columns);
        let all = &columns.found;
        !columns.has_query && !all.is_empty() && all.iter().all(|column| self.is_own(column))
    }

    fn aggregate(&mut self, call: &Expr) -> Expr {
        let at = self
            .aggregates
            .iter()
            .position(|known| known == call)
            .unwrap_or_else(|| {
                self.aggregates.push(call.clone());
                self.aggregates.len() - 1
            });
        column(&aggregate_name(at))
    }
}

impl Visitor for Walker<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && self.around.iter().any(|around| around.has_from)
            && match self.is_inside() {
                true => self.belongs(call),
                false => call.over.is_none() && (self.is_aggregate)(call),
            }
        {
            self.found = true;
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Walker<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let inside = self.is_inside();
        if qualifier(expr).as_deref() == Some(GROUPS) {
            return ControlFlow::Continue(());
        }
        let is_call = match expr {
            Expr::Function(call) if inside => self.belongs(call),
            Expr::Function(call) => call.over.is_none() && (self.is_aggregate)(call),
            _ => false,
        };
        if is_call {
            let call = expr.clone();
            *expr = self.aggregate(&call);
            return ControlFlow::Continue(());
        }
        if !inside || self.is_own(expr) {
            let found = self.keys.iter().position(|key| same(key, expr));
            if let Some(at) = found {
                *expr = column(&self.key_name(at));
            } else if self.is_own(expr)
                && let (Some(relation), Some(name)) = (qualifier(expr), name_of(expr))
            {
                let name = format!("{relation}.{}", fold(&name));
                self.ungrouped.get_or_insert(match inside {
                    true => format!("subquery uses ungrouped column \"{name}\" from outer query"),
                    false => format!(
                        "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
                    ),
                });
            }
        }
        ControlFlow::Continue(())
    }
}

/// The columns in an aggregate's arguments.
#[derive(Default)]
struct Columns {
    found: Vec<Expr>,
    has_query: bool,
}

impl Visitor for Columns {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.has_query = true;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            self.found.push(expr.clone());
        }
        ControlFlow::Continue(())
    }
}
