//! The texts of views as what they read is renamed, moved to another schema, or loses a column before others: a view goes on
//! reading what it read.
//!
//! A text names relations with their schemas (`qualify`). One that is called otherwise now has its former name as an alias; of one
//! whose columns are, the alias says what they were called.

use super::drop::{readers, readers_of_column};
use crate::catalog::bind::{Binder, Target, fold};
use crate::pg::error::Result;
use crate::pg::parse::parse_query;
use crate::pg::walk::VisitMut;
use crate::session::Session;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, TableAlias, TableAliasColumnDef, TableFactor, VisitorMut,
};
use std::ops::ControlFlow;
use tenon_storage::Relation;

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A relation, before or after, by its schema and its name.
type Named<'a> = (&'a str, &'a str);

fn is_named(parts: &[Ident], (schema, name): Named<'_>) -> bool {
    matches!(parts, [own_schema, own] if fold(own_schema) == schema && fold(own) == name)
}

fn parts(name: &ObjectName) -> Vec<Ident> {
    name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect()
}

/// Changes each place where a relation stands in FROM.
struct Places<'a, F> {
    relation: Named<'a>,
    change: F,
}

impl<F: FnMut(&mut ObjectName, &mut Option<TableAlias>)> VisitorMut for Places<'_, F> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
            && is_named(&parts(name), self.relation)
        {
            (self.change)(name, alias);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // The alias says which relation it is.
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() > 2
            && is_named(&parts[..2], self.relation)
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    }
}

/// A view's text, or a materialized one's, and the columns that it shows.
pub(super) fn text(relation: &Relation) -> Option<(&str, Option<&SchemaRef>)> {
    match relation {
        Relation::View(view) => Some((&view.sql, Some(&view.schema))),
        Relation::Table(table) => Some((table.definition().query.as_deref()?, None)),
        Relation::Sequence(_) | Relation::Partition(_) => None,
    }
}

/// What a column is called that nothing names.
const UNNAMED: &str = "\u{1}unnamed";

/// Whether a view uses a column of a table. Where that cannot be told it is said to.
pub(super) fn uses(session: &Session, (schema, view): &(String, String), relation: Named<'_>, column: &str) -> bool {
    let state_now = session.state();
    let found = state_now.relation(schema, view).and_then(text);
    let columns = state_now.relation(relation.0, relation.1).map(Relation::columns);
    let place = columns.and_then(|columns| Some((columns, columns.index_of(column).ok()?)));
    let (Some((text, shown)), Some((columns, at))) = (found, place) else {
        return true;
    };
    let Ok(Some(mut query)) = parse_query(text) else {
        return true;
    };
    // Where its alias gives columns names, that is what would be named: those behind them are called as they are.
    let (mut named, mut others) = (0, 0);
    let _ = query.visit(&mut Places {
        relation,
        change: |_: &mut ObjectName, alias: &mut Option<TableAlias>| match alias
            .as_mut()
            .filter(|alias| !alias.columns.is_empty())
        {
            Some(alias) => {
                name_columns(alias, columns, at);
                alias.columns[at].name = quoted(UNNAMED);
                named += 1;
            }
            None => others += 1,
        },
    });
    let Ok(plan) = session.binder().view_query(query) else {
        return true;
    };
    let shown_now = plan.schema().fields();
    let width = shown.map_or(shown_now.len(), |shown| shown.fields().len());
    match (named, others) {
        (0, _) => {
            // What `*` gives since the view was made is none of its columns.
            let is_new = shown.is_some_and(|shown| width < shown_now.len() && shown.index_of(column).is_err());
            let is_said = text
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == column);
            (is_said || !is_new) && Binder::uses_column(&plan, relation, column)
        }
        // What joins by all columns of one name would not miss it.
        (_, 0) => text.contains("NATURAL") || shown_now.iter().take(width).any(|field| field.name().contains(UNNAMED)),
        _ => true,
    }
}

fn change(
    session: &Session,
    views: &[(String, String)],
    relation: Named<'_>,
    change: impl Fn(&mut ObjectName, &mut Option<TableAlias>),
) -> Result<()> {
    let state_now = session.state();
    for (schema, view) in views {
        let found = state_now.relation(schema, view).and_then(text);
        let Some(mut query) = found.map(|(text, _)| parse_query(text)).transpose()?.flatten() else {
            continue;
        };
        let before = query.to_string();
        let _ = query.visit(&mut Places {
            relation,
            change: &change,
        });
        let after = query.to_string();
        if after != before {
            session.transaction()?.lock().set_query(schema, view, &after)?;
        }
    }
    Ok(())
}

/// An alias by which a relation is known as before.
fn known_as<'a>(alias: &'a mut Option<TableAlias>, name: &str) -> &'a mut TableAlias {
    alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: quoted(name),
        columns: Vec::new(),
        at: None,
    })
}

/// Gives names to the columns up to one that the alias has none for.
fn name_columns(alias: &mut TableAlias, columns: &SchemaRef, at: usize) {
    let known = alias.columns.len();
    let own = columns.fields().iter().take(at + 1).skip(known);
    alias.columns.extend(own.map(|column| TableAliasColumnDef {
        name: quoted(column.name()),
        data_type: None,
    }));
}

/// A relation that has another name, or another schema.
pub(super) fn moved(session: &Session, from: Named<'_>, to: Named<'_>) -> Result<()> {
    let views = readers(&session.state(), from.0, from.1);
    change(session, &views, from, |name, alias| {
        known_as(alias, from.1);
        let named = [to.0, to.1].map(|part| ObjectNamePart::Identifier(quoted(part)));
        *name = ObjectName(named.to_vec());
    })
}

/// A column that is about to be renamed.
pub(super) fn column_renamed(session: &Session, place: &Target, column: &str) -> Result<()> {
    let state_now = session.state();
    let columns = state_now.relation(&place.schema, &place.name).map(Relation::columns);
    let Some((columns, at)) = columns.and_then(|columns| Some((columns, columns.index_of(column).ok()?))) else {
        return Ok(());
    };
    let views = readers_of_column(session, &place.schema, &place.name, column);
    change(session, &views, (&place.schema, &place.name), |_, alias| {
        name_columns(known_as(alias, &place.name), columns, at);
    })
}

/// A table's column that is about to be dropped, which no view uses: names of those behind it move up.
pub(super) fn column_dropped(session: &Session, place: &Target, column: &str) -> Result<()> {
    let state_now = session.state();
    let table = state_now.table(&place.schema, &place.name);
    let Some(at) = table.and_then(|table| table.definition().column_index(column)) else {
        return Ok(());
    };
    let views = readers(&state_now, &place.schema, &place.name);
    change(session, &views, (&place.schema, &place.name), |_, alias| {
        if let Some(alias) = alias
            && at < alias.columns.len()
        {
            alias.columns.remove(at);
        }
    })
}
