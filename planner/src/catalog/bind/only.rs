//! ONLY before a table's name. A partitioned table has no rows of its own; every other relation is what it is without the word.

use super::{Binder, fold, parts};
use crate::pg::parse::select;
use crate::pg::tokens::only;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, Statement, TableAlias, TableFactor, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// Puts a query without rows in the place of each partitioned table that stands alone.
pub(crate) fn resolve(binder: &Binder, tree: &mut impl VisitMut) {
    let defined = Vec::new();
    let _ = tree.visit(&mut Resolver { binder, defined });
}

/// Whether a table to be changed stands alone without rows of its own. The word goes.
pub(crate) fn is_empty(binder: &Binder, factor: &mut TableFactor) -> bool {
    only::take(factor) && is_partitioned(binder, factor)
}

fn is_partitioned(binder: &Binder, factor: &TableFactor) -> bool {
    let TableFactor::Table { name, args: None, .. } = factor else {
        return false;
    };
    let found = binder.names().existing(name).ok().flatten();
    found.is_some_and(|found| found.partitioning().is_some())
}

struct Resolver<'a> {
    binder: &'a Binder,
    /// The names of WITH.
    defined: Vec<String>,
}

impl VisitorMut for Resolver<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.defined.extend(with.map(|table| fold(&table.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if !only::take(factor) || !is_partitioned(self.binder, factor) {
            return ControlFlow::Continue(());
        }
        let TableFactor::Table { name, alias, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let known = parts(name);
        if known.len() == 1 && self.defined.contains(&known[0]) {
            return ControlFlow::Continue(());
        }
        let alias = alias.take().or_else(|| {
            Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', known.last()?),
                columns: Vec::new(),
                at: None,
            })
        });
        let none = Expr::Value(Value::Boolean(false).into());
        let items = vec![SelectItem::Wildcard(Default::default())];
        let from = vec![select::alone(factor.clone())];
        if let Statement::Query(subquery) = select::of(items, from, Some(none)) {
            *factor = TableFactor::Derived {
                lateral: false,
                subquery,
                alias,
                sample: None,
            };
        }
        ControlFlow::Continue(())
    }
}
