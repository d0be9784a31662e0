//! The columns that `*` in a view's query stands for are those of the day when the view was made: a column that a table gets
//! later would come between them.
//!
//! A view of nothing but `SELECT * FROM t` keeps its text: what comes later comes last, and it goes on where columns are renamed.

use super::query;
use crate::catalog::bind::{Binder, fold};
use crate::pg::rewrite::ROWS_FROM;
use crate::pg::rewrite::displayed_name;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableFactor, TableWithJoins,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Names the columns; the query's tables have been qualified.
pub(super) fn spell_out(binder: &Binder, query: &mut Box<Query>) {
    let whole = match query.body.as_ref() {
        SetExpr::Select(select) if is_whole_table(select) && !select.from.iter().any(counts) => {
            Some(select.as_ref().clone())
        }
        _ => None,
    };
    let _ = query.visit(&mut Stars { binder, whole });
}

fn is_whole_table(select: &Select) -> bool {
    matches!(
        select.projection.as_slice(),
        [SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)]
    ) && matches!(select.from.as_slice(), [TableWithJoins { joins, .. }] if joins.is_empty())
}

/// Whether a column stands behind those of a function, which may get more.
fn counts(table: &TableWithJoins) -> bool {
    match &table.relation {
        TableFactor::Table {
            args: Some(_),
            with_ordinality,
            name,
            ..
        } => *with_ordinality || is_rows_from(name),
        TableFactor::Function { with_ordinality, .. } => *with_ordinality,
        _ => false,
    }
}

struct Stars<'a> {
    binder: &'a Binder,
    /// What keeps its text.
    whole: Option<Select>,
}

impl VisitorMut for Stars<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        if self.whole.as_ref() == Some(select) || !select.projection.iter().any(is_star) {
            return ControlFlow::Continue(());
        }
        if select.from.iter().any(merges) || factors(&select.from).any(|factor| name_of(factor).is_none()) {
            for table in &mut select.from {
                let joined = table.joins.iter_mut().map(|join| &mut join.relation);
                for factor in std::iter::once(&mut table.relation).chain(joined) {
                    self.bound(factor);
                }
            }
            return ControlFlow::Continue(());
        }
        select.from.iter_mut().for_each(name_rows_from);
        let mut items = Vec::new();
        for item in std::mem::take(&mut select.projection) {
            let wanted = match &item {
                SelectItem::Wildcard(_) => None,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    Some(name.0.last().and_then(ObjectNamePart::as_ident).map(fold))
                }
                _ => {
                    items.push(item);
                    continue;
                }
            };
            for factor in factors(&select.from) {
                let Some(name) = name_of(factor) else { continue };
                if wanted.as_ref().is_some_and(|wanted| *wanted != Some(fold(&name))) {
                    continue;
                }
                match self.columns(factor) {
                    Some(columns) => {
                        items.extend(columns.into_iter().map(|column| {
                            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![name.clone(), column]))
                        }))
                    }
                    None => items.push(SelectItem::QualifiedWildcard(
                        SelectItemQualifiedWildcardKind::ObjectName(vec![name].into()),
                        Default::default(),
                    )),
                }
            }
        }
        select.projection = items;
        ControlFlow::Continue(())
    }
}

impl Stars<'_> {
    /// The columns of a stored relation, or of functions of this database, as the query calls them.
    fn columns(&self, factor: &TableFactor) -> Option<Vec<Ident>> {
        if self.calls_own(factor) {
            return self.planned(factor);
        }
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return None;
        };
        let relation = self.binder.names().existing(name).ok()??;
        let given = alias.as_ref().map_or(&[][..], |alias| alias.columns.as_slice());
        let own = relation.columns().fields().iter().enumerate();
        let columns = own.map(|(at, field)| match given.get(at) {
            Some(given) => given.name.clone(),
            None => Ident::with_quote('"', field.name()),
        });
        Some(columns.collect())
    }

    /// Whether functions of this database are called in FROM, whose results may get more columns.
    fn calls_own(&self, factor: &TableFactor) -> bool {
        let own = |name: &ObjectName| !self.binder.functions_named(name).is_empty();
        let (name, args) = match factor {
            TableFactor::Table {
                name, args: Some(args), ..
            } => (name, &args.args),
            TableFactor::Function { name, args, .. } => (name, args),
            _ => return false,
        };
        let called = |arg: &FunctionArg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call))) => own(&call.name),
            _ => false,
        };
        own(name) || args.iter().any(called)
    }

    /// The columns of what stands alone in FROM; None where names stand for several of them.
    fn planned(&self, factor: &TableFactor) -> Option<Vec<Ident>> {
        let from = TableWithJoins {
            relation: factor.clone(),
            joins: Vec::new(),
        };
        let items = vec![SelectItem::Wildcard(Default::default())];
        let Statement::Query(all) = crate::pg::parse::select::of(items, vec![from], None) else {
            return None;
        };
        let plan = query::plan(self.binder, &all, &[]).ok()?;
        let names: Vec<&str> = plan
            .schema()
            .fields()
            .iter()
            .map(|field| displayed_name(field.name()))
            .collect();
        let is_told = |(at, name): (usize, &&str)| !names[..at].contains(name);
        let told = names.iter().enumerate().all(is_told);
        told.then(|| names.iter().map(|name| Ident::with_quote('"', *name)).collect())
    }

    /// A stored relation as a query of the columns that it has.
    fn bound(&self, factor: &mut TableFactor) {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return;
        };
        let Ok(Some(relation)) = self.binder.names().existing(name) else {
            return;
        };
        let own = relation.columns().fields().iter();
        let items = own.map(|field| SelectItem::UnnamedExpr(Expr::Identifier(Ident::with_quote('"', field.name()))));
        let known = name.0.last().and_then(ObjectNamePart::as_ident).cloned();
        let alias = alias.clone().or(known.map(|name| TableAlias {
            explicit: true,
            name,
            columns: Vec::new(),
            at: None,
        }));
        let mut relation = factor.clone();
        if let TableFactor::Table { alias, .. } = &mut relation {
            *alias = None;
        }
        let from = TableWithJoins {
            relation,
            joins: Vec::new(),
        };
        if let Statement::Query(subquery) = crate::pg::parse::select::of(items.collect(), vec![from], None) {
            *factor = TableFactor::Derived {
                lateral: false,
                subquery,
                alias,
                sample: None,
            };
        }
    }
}

/// ROWS FROM is called as the first of its functions: what its columns are qualified by is said.
fn name_rows_from(table: &mut TableWithJoins) {
    let joined = table.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut table.relation).chain(joined) {
        if let TableFactor::Table {
            name,
            alias: alias @ None,
            args: Some(args),
            ..
        } = factor
            && is_rows_from(name)
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call)))) = args.args.first()
            && let Some(first) = call.name.0.last().and_then(ObjectNamePart::as_ident)
        {
            *alias = Some(TableAlias {
                explicit: true,
                name: first.clone(),
                columns: Vec::new(),
                at: None,
            });
        }
    }
}

fn is_rows_from(name: &ObjectName) -> bool {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    last.is_some_and(|last| last.value == ROWS_FROM)
}

fn factors(from: &[TableWithJoins]) -> impl Iterator<Item = &TableFactor> {
    from.iter()
        .flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)))
}

/// What the columns of a relation are qualified by.
fn name_of(factor: &TableFactor) -> Option<Ident> {
    let alias = match factor {
        TableFactor::Table { name, alias: None, .. } => {
            return name.0.last().and_then(ObjectNamePart::as_ident).cloned();
        }
        TableFactor::Function { name, alias: None, .. } => {
            return name.0.last().and_then(ObjectNamePart::as_ident).cloned();
        }
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias,
        _ => return None,
    };
    alias.as_ref().map(|alias| alias.name.clone())
}

/// Whether columns of both sides of a join become one.
fn merges(table: &TableWithJoins) -> bool {
    let constraint = |operator: &JoinOperator| match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => {
            matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
        }
        _ => false,
    };
    table.joins.iter().any(|join| constraint(&join.join_operator))
}
