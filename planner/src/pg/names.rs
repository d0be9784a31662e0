//! Names in a parsed statement: folded as PostgreSQL folds them, and where a query names a relation.

use crate::pg::walk::Visit;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, TableFactor, Visitor};
use std::collections::{HashMap, HashSet};
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

/// The sequence that a default asks: `nextval('name'::regclass)`, or without the cast.
pub(crate) fn named_sequence(default: &str) -> Option<String> {
    let rest = default.strip_prefix("pg_catalog.").unwrap_or(default);
    let called = ["nextval('", "\"nextval\"('"];
    let rest = called.iter().find_map(|called| rest.strip_prefix(called))?;
    let (name, to) = rest.rsplit_once('\'')?;
    let casts = to == ")" || to.eq_ignore_ascii_case("::regclass)");
    casts.then(|| name.replace("''", "'"))
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

/// The same of a relation that is no join: those have no rows of their own.
pub(crate) fn alias(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::NestedJoin { .. } => None,
        other => known_as(other),
    }
}

/// Whether a part of a statement names a relation.
pub(crate) fn refers_to<T: Visit>(tree: &T, name: &str) -> bool {
    counts(tree).contains_key(name)
}

/// The relations that a part of a statement names, each with how often. Names of its own WITHs are not among them.
pub(crate) fn counts<T: Visit>(tree: &T) -> HashMap<String, usize> {
    #[derive(Default)]
    struct Finder {
        found: HashMap<String, usize>,
        /// The names that the WITH of each query around has.
        shadowed: Vec<HashSet<String>>,
    }
    impl Visitor for Finder {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let own = query.with.iter().flat_map(|with| &with.cte_tables);
            self.shadowed.push(own.map(|cte| fold(&cte.alias.name)).collect());
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.shadowed.pop();
            ControlFlow::Continue(())
        }
        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            if let [ObjectNamePart::Identifier(only)] = relation.0.as_slice() {
                let name = fold(only);
                if !self.shadowed.iter().any(|names| names.contains(&name)) {
                    *self.found.entry(name).or_default() += 1;
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut finder = Finder::default();
    let _ = tree.visit(&mut finder);
    finder.found
}
