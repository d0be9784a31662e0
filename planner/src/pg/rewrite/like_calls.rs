//! Whether a statement has columns that are called as DataFusion may call a call.

use crate::pg::walk::Visit;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, Statement, TableAlias, TableFactor, Visitor,
};
use std::ops::ControlFlow;

/// Whether a name may be that of a call.
pub(crate) fn is_like_a_call(name: &str) -> bool {
    let called = name.split_once('(').map(|(called, _)| called);
    let lower = |called: &str| {
        called
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    called.is_some_and(|called| !called.is_empty() && lower(called))
}

/// Whether a statement's text has such a name; `has_one` says whether a relation's columns have.
pub(crate) fn says_one(statement: &Statement, has_one: impl FnMut(&TableFactor) -> bool) -> bool {
    // Rows of values may be many, and none is called anything.
    if matches!(statement, Statement::Query(query) if matches!(query.body.as_ref(), SetExpr::Values(_))) {
        return false;
    }
    let mut finder = Finder { has_one };
    Visit::visit(statement, &mut finder).is_break()
}

struct Finder<F> {
    has_one: F,
}

impl<F> Finder<F> {
    fn idents<'a>(&self, mut idents: impl Iterator<Item = &'a Ident>) -> ControlFlow<()> {
        match idents.any(|ident| is_like_a_call(&ident.value)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn alias(&self, alias: Option<&TableAlias>) -> ControlFlow<()> {
        self.idents(
            alias
                .into_iter()
                .flat_map(|alias| alias.columns.iter().map(|column| &column.name)),
        )
    }
}

impl<F: FnMut(&TableFactor) -> bool> Visitor for Finder<F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        ctes.map(|cte| self.alias(Some(&cte.alias)))
            .find(ControlFlow::is_break)
            .unwrap_or(ControlFlow::Continue(()))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.idents(select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias),
            _ => None,
        }))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let alias = match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
            _ => None,
        };
        if (self.has_one)(factor) {
            return ControlFlow::Break(());
        }
        self.alias(alias)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.idents(std::iter::once(name)),
            Expr::CompoundIdentifier(parts) => self.idents(parts.iter()),
            _ => ControlFlow::Continue(()),
        }
    }
}
