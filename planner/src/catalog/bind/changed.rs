//! What the parts of a statement see that has changed data already: its subqueries the data of before, as RETURNING does, and
//! the bodies of volatile functions what is there now. The relations of those are marked by their names.

use super::{Binder, as_role, fold};
use crate::pg::walk::VisitMut;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor, VisitorMut};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::DatabaseState;

/// What the name of a relation ends with whose changes are seen.
const MARK: &str = "\u{1}changed";

impl Binder {
    /// The same for queries that see the data of before.
    pub(crate) fn seeing(self, before: &Arc<DatabaseState>) -> Self {
        Self {
            changed: Some(self.snapshot),
            snapshot: before.clone(),
            ..self
        }
    }
}

/// Has the relations of a function's body be those with the statement's changes. The names of its WITH stay.
pub(super) fn mark(binder: &Binder, body: &mut Query) {
    if binder.changed.is_some() {
        mark_all(body, MARK);
    }
}

/// Has the names of a query's relations end with a mark, and be known as before.
pub(super) fn mark_all(body: &mut Query, mark: &str) {
    let _ = body.visit(&mut Marker {
        mark,
        defined: Vec::new(),
    });
}

/// A relation's name with another last part.
pub(super) fn renamed(name: &TableReference, table: &str) -> TableReference {
    match (name.catalog(), name.schema()) {
        (Some(catalog), Some(schema)) => TableReference::full(catalog, schema, table),
        (_, Some(schema)) => TableReference::partial(schema, table),
        _ => TableReference::bare(table),
    }
}

/// The relation that a marked name stands for, and what finds it.
pub(super) fn meant(binder: &Binder, name: &TableReference) -> Option<(Binder, TableReference)> {
    let table = name.table().strip_suffix(MARK)?;
    let changed = binder.changed.clone()?;
    let after = Binder {
        snapshot: changed,
        changed: None,
        noted_as: Some(name.clone()),
        ..binder.clone()
    };
    Some((after, renamed(name, table)))
}

/// A name as the function has it.
pub(super) fn unmarked(name: &ObjectName) -> Cow<'_, ObjectName> {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    let Some(last) = last else { return Cow::Borrowed(name) };
    let own = last.value.strip_suffix(MARK).unwrap_or(&last.value);
    let own = as_role::split(own).map_or(own, |(own, _)| own);
    if own == last.value {
        return Cow::Borrowed(name);
    }
    let mut name = name.clone();
    name.0.pop();
    name.0.push(ObjectNamePart::Identifier(Ident::with_quote('"', own)));
    Cow::Owned(name)
}

struct Marker<'a> {
    mark: &'a str,
    /// The names of WITH.
    defined: Vec<String>,
}

impl VisitorMut for Marker<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.defined.extend(with.map(|table| fold(&table.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table {
            name,
            args: None,
            alias,
            ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        let Some(own) = name.0.last().and_then(ObjectNamePart::as_ident).map(fold) else {
            return ControlFlow::Continue(());
        };
        if name.0.len() == 1 && self.defined.contains(&own) {
            return ControlFlow::Continue(());
        }
        let quoted = |name: &str| Ident::with_quote('"', name);
        name.0.pop();
        name.0
            .push(ObjectNamePart::Identifier(quoted(&format!("{own}{}", self.mark))));
        alias.get_or_insert_with(|| TableAlias {
            explicit: true,
            name: quoted(&own),
            columns: Vec::new(),
            at: None,
        });
        ControlFlow::Continue(())
    }
}
