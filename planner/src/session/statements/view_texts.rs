//! The texts of views as what they read is renamed, moved to another schema, or loses a column before others: a view goes on
//! reading what it read.
//!
//! A text names relations with their schemas (`qualify`). One that is called otherwise now has its former name as an alias; of one
//! whose columns are, the alias says what they were called.

use super::drop::{readers, readers_of_column};
use super::function_bodies;
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
use tenon_storage::{DatabaseState, Object, ObjectKey, Relation};

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

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
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
            let is_said = words(text).any(|word| word == column);
            (is_said || !is_new) && Binder::uses_column(&plan, relation, column)
        }
        // What joins by all columns of one name would not miss it.
        (_, 0) => text.contains("NATURAL") || shown_now.iter().take(width).any(|field| field.name().contains(UNNAMED)),
        _ => true,
    }
}

/// Whether the bound body of a function that reads a relation names a column of it.
pub(super) fn used_in_body(state_now: &DatabaseState, key: &ObjectKey, relation: Named<'_>, column: &str) -> bool {
    let Some(Object::Function(of)) = state_now.objects().get(key) else {
        return false;
    };
    let columns = state_now.relation(relation.0, relation.1).map(Relation::columns);
    let at = columns.and_then(|columns| columns.index_of(column).ok());
    let (Some(at), Some(mut body)) = (at, function_bodies::query(of)) else {
        return true;
    };
    // What its alias calls the column.
    let mut known: Vec<String> = Vec::new();
    let _ = body.visit(&mut Places {
        relation,
        change: |_: &mut ObjectName, alias: &mut Option<TableAlias>| {
            let name = alias.as_ref().and_then(|alias| alias.columns.get(at));
            known.push(name.map_or_else(|| column.to_string(), |name| fold(&name.name)));
            if let Some(alias) = alias {
                alias.columns.clear();
            }
        },
    });
    let text = body.to_string();
    known.iter().any(|known| words(&text).any(|word| word == known))
}

/// Whether the bound body of a function says a word.
fn names_in_body(state_now: &DatabaseState, key: &ObjectKey, word: &str) -> bool {
    match state_now.objects().get(key) {
        Some(Object::Function(of)) => words(&of.body).any(|own| own == word),
        _ => false,
    }
}

/// The same change of the functions whose bodies were bound, and say one of the words, or any where there are none.
fn change_functions(
    session: &Session,
    relation: Named<'_>,
    said: &[&str],
    change: impl Fn(&mut ObjectName, &mut Option<TableAlias>),
) -> Result<()> {
    let state_now = session.state();
    for key in function_bodies::readers(&state_now, relation.0, relation.1) {
        let Some(Object::Function(of)) = state_now.objects().get(&key) else {
            continue;
        };
        let is_meant = said.is_empty() || said.iter().any(|word| names_in_body(&state_now, &key, word));
        let Some(mut body) = function_bodies::query(of).filter(|_| is_meant) else {
            continue;
        };
        let _ = body.visit(&mut Places {
            relation,
            change: &change,
        });
        function_bodies::put(session, &key, &body)?;
    }
    Ok(())
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
    let rename = |name: &mut ObjectName, alias: &mut Option<TableAlias>| {
        known_as(alias, from.1);
        let named = [to.0, to.1].map(|part| ObjectNamePart::Identifier(quoted(part)));
        *name = ObjectName(named.to_vec());
    };
    change(session, &views, from, rename)?;
    change_functions(session, from, &[], rename)
}

/// A column that is about to be renamed.
pub(super) fn column_renamed(session: &Session, place: &Target, column: &str, to: &str) -> Result<()> {
    let state_now = session.state();
    let columns = state_now.relation(&place.schema, &place.name).map(Relation::columns);
    let Some((columns, at)) = columns.and_then(|columns| Some((columns, columns.index_of(column).ok()?))) else {
        return Ok(());
    };
    let mut views = readers_of_column(session, &place.schema, &place.name, column);
    // The new name means something else in the text of one that says it.
    for view in readers(&state_now, &place.schema, &place.name) {
        let found = state_now.relation(&view.0, &view.1).and_then(text);
        if !views.contains(&view) && found.is_some_and(|(text, _)| words(text).any(|word| word == to)) {
            views.push(view);
        }
    }
    let relation = (place.schema.as_str(), place.name.as_str());
    let name = |_: &mut ObjectName, alias: &mut Option<TableAlias>| {
        name_columns(known_as(alias, &place.name), columns, at);
    };
    change(session, &views, relation, name)?;
    change_functions(session, relation, &[column, to], name)
}

/// A name that a relation's columns are about to have anew, by one that is added or by one that is renamed: where a view's
/// text says that word, it means something else.
pub(super) fn column_added(session: &Session, place: &Target, column: &str) -> Result<()> {
    let state_now = session.state();
    let Some(columns) = state_now.relation(&place.schema, &place.name).map(Relation::columns) else {
        return Ok(());
    };
    let relation = (place.schema.as_str(), place.name.as_str());
    let mut views = readers(&state_now, relation.0, relation.1);
    views.retain(|(schema, view)| {
        let found = state_now.relation(schema, view).and_then(text);
        found.is_some_and(|(text, _)| text.contains("NATURAL") || words(text).any(|word| word == column))
    });
    let is_said = |name: &str| {
        let in_view = |(schema, view): &(String, String)| {
            let found = state_now.relation(schema, view).and_then(text);
            found.is_some_and(|(text, _)| words(text).any(|word| word == name))
        };
        let functions = function_bodies::readers(&state_now, relation.0, relation.1);
        let in_body = |key: &ObjectKey| names_in_body(&state_now, key, name);
        views.iter().any(in_view) || functions.iter().any(in_body) || columns.index_of(name).is_ok()
    };
    let mut others = (1..).map(|number| format!("{column}_{number}"));
    let Some(other) = others.find(|name| !is_said(name)) else {
        return Ok(());
    };
    let hide = |_: &mut ObjectName, alias: &mut Option<TableAlias>| {
        let alias = known_as(alias, &place.name);
        if let Some(last) = columns.fields().len().checked_sub(1) {
            name_columns(alias, columns, last);
        }
        alias.columns.push(TableAliasColumnDef {
            name: quoted(&other),
            data_type: None,
        });
    };
    change(session, &views, relation, hide)?;
    change_functions(session, relation, &[column, "NATURAL"], hide)
}

/// A table's column that is about to be dropped, which no view uses: names of those behind it move up.
pub(super) fn column_dropped(session: &Session, place: &Target, column: &str) -> Result<()> {
    let state_now = session.state();
    let table = state_now.table(&place.schema, &place.name);
    let Some(at) = table.and_then(|table| table.definition().column_index(column)) else {
        return Ok(());
    };
    let relation = (place.schema.as_str(), place.name.as_str());
    let views = readers(&state_now, relation.0, relation.1);
    let forget = |_: &mut ObjectName, alias: &mut Option<TableAlias>| {
        if let Some(alias) = alias
            && at < alias.columns.len()
        {
            alias.columns.remove(at);
        }
    };
    change(session, &views, relation, forget)?;
    change_functions(session, relation, &[], forget)
}
