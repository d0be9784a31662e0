//! The places of rows that UPDATE, DELETE and MERGE ask their target for: where a query within the statement reads the same table,
//! they are no columns of it.

use super::{Binder, fold};
use crate::pg::names::alias;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, SetExpr, Statement, TableAlias, TableFactor, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// What a table's name ends with where its rows' places are not wanted.
pub(super) const WITHOUT_PLACES: &str = "\u{1}without places";

pub(super) fn hide(binder: &Binder, statement: &mut Statement) {
    if let Some(target) = binder.positions_of.filter(|_| binder.hides_places) {
        let _ = statement.visit(&mut Hidden {
            binder,
            target,
            hides: Vec::new(),
            defined: Vec::new(),
        });
    }
}

struct Hidden<'a> {
    binder: &'a Binder,
    target: u32,
    /// Of the query and those around it, from the outside in: whether the places are none of its columns.
    hides: Vec<bool>,
    /// The queries that WITH has named anywhere so far.
    defined: Vec<String>,
}

/// Whether it is what stands for ONLY a partitioned table, which may be the target.
fn is_empty(query: &Query) -> bool {
    let never = Expr::Value(Value::Boolean(false).into());
    matches!(query.body.as_ref(), SetExpr::Select(select) if select.selection == Some(never))
}

impl VisitorMut for Hidden<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.hides.push(!self.hides.is_empty() && !is_empty(query));
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.defined.extend(tables.map(|cte| fold(&cte.alias.name)));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.hides.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let known = alias(factor);
        let TableFactor::Table {
            name,
            alias,
            args: None,
            sample: None,
            ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        // What stands for a view that is the target has its places.
        if alias
            .as_ref()
            .is_some_and(|alias| alias.name.value.starts_with('\u{1}'))
        {
            return ControlFlow::Continue(());
        }
        let is_bare = name.0.len() == 1;
        let Some(ObjectNamePart::Identifier(last)) = name.0.last() else {
            return ControlFlow::Continue(());
        };
        let own = fold(last);
        let mut others = self.binder.overlay.iter().chain(&self.binder.relations);
        let is_another = is_bare && (self.defined.contains(&own) || others.any(|(other, _)| *other == own));
        let found = self.binder.names().existing(name).ok().flatten();
        if self.hides.last() != Some(&true) || is_another || found.is_none_or(|found| found.oid() != self.target) {
            return ControlFlow::Continue(());
        }
        if let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut() {
            *last = Ident::with_quote('"', format!("{own}{WITHOUT_PLACES}"));
        }
        alias.get_or_insert(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', known.unwrap_or(own)),
            columns: Vec::new(),
            at: None,
        });
        ControlFlow::Continue(())
    }
}
