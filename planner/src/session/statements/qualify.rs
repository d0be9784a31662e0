//! A view's text names its tables with their schemas, so that a later search path does not change what it reads.

use crate::catalog::bind::{Binder, fold};
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableAlias,
    TableFactor, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Qualifies each bare name of a stored relation that is not a common table expression's.
pub(super) fn relations(binder: &Binder, query: &mut Box<Query>) {
    let mut qualifier = Qualifier {
        binder,
        defined: HashSet::new(),
    };
    let _ = query.visit(&mut qualifier);
}

struct Qualifier<'a> {
    binder: &'a Binder,
    defined: HashSet<String>,
}

impl VisitorMut for Qualifier<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &query.with {
            self.defined
                .extend(with.cte_tables.iter().map(|table| fold(&table.alias.name)));
        }
        ControlFlow::Continue(())
    }

    /// `t.*` reads a relation that is called `t`, whatever schema stands before its name.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &select.projection {
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(wanted), _) = item else {
                continue;
            };
            let [ObjectNamePart::Identifier(wanted)] = wanted.0.as_slice() else {
                continue;
            };
            let factors = select.from.iter_mut().flat_map(|table| {
                std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation))
            });
            for factor in factors {
                if let TableFactor::Table {
                    name,
                    alias: alias @ None,
                    args: None,
                    ..
                } = factor
                    && let [ObjectNamePart::Identifier(only)] = name.0.as_slice()
                    && fold(only) == fold(wanted)
                {
                    *alias = Some(TableAlias {
                        explicit: true,
                        name: only.clone(),
                        columns: Vec::new(),
                        at: None,
                    });
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(ident)] = relation.0.as_slice()
            && ident.quote_style != Some('\'')
            && !self.defined.contains(&fold(ident))
            && let Some(found) = self.binder.names().find(None, &fold(ident))
        {
            let quoted = |text: &str| ObjectNamePart::Identifier(Ident::with_quote('"', text));
            relation.0 = vec![quoted(found.schema_name()), quoted(found.name())];
        }
        ControlFlow::Continue(())
    }
}
