//! A view's text names its tables with their schemas, so that a later search path does not change what it reads.

use crate::bind::{Binder, fold};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, VisitMut, VisitorMut};
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
