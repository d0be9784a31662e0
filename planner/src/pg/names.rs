//! Names in a parsed statement: folded as PostgreSQL folds them, and where a query names a relation.

use crate::pg::walk::Visit;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, TableFactor, Visitor};
use std::ops::ControlFlow;

/// The schema of a path in which relations without a schema are created: the one for temporary tables is searched first, and
/// is not meant.
pub(crate) fn created_in(path: &[String]) -> Option<&String> {
    path.iter().find(|schema| !schema.starts_with("pg_temp_"))
}

pub(crate) fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() {
        ident.value.clone()
    } else {
        ident.value.to_lowercase()
    }
}

/// The parts of a name, folded.
pub(crate) fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect()
}

/// The name under which the columns of a relation in FROM are known, where it has one.
pub(crate) fn known_as(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { name, alias, .. } => match alias {
            Some(alias) => Some(fold(&alias.name)),
            None => name.0.last().and_then(ObjectNamePart::as_ident).map(fold),
        },
        TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref().map(|alias| fold(&alias.name)),
        _ => None,
    }
}

/// Whether a part of a statement names a relation.
pub(crate) fn refers_to<T: Visit>(tree: &T, name: &str) -> bool {
    count(tree, name) > 0
}

/// How often it does.
pub(crate) fn count<T: Visit>(tree: &T, name: &str) -> usize {
    struct Finder<'a> {
        name: &'a str,
        found: usize,
        /// For each query around, whether its own WITH has the name.
        shadowed: Vec<bool>,
    }
    impl Visitor for Finder<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let own = query
                .with
                .as_ref()
                .is_some_and(|with| with.cte_tables.iter().any(|cte| fold(&cte.alias.name) == self.name));
            self.shadowed.push(own);
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.shadowed.pop();
            ControlFlow::Continue(())
        }
        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            match relation.0.as_slice() {
                [ObjectNamePart::Identifier(only)] if fold(only) == self.name && !self.shadowed.contains(&true) => {
                    self.found += 1;
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut finder = Finder {
        name,
        found: 0,
        shadowed: Vec::new(),
    };
    let _ = tree.visit(&mut finder);
    finder.found
}
