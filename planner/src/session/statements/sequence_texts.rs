//! The texts of defaults and views as a sequence that they take numbers from is renamed or moved to another schema: they go on
//! taking them.

use super::{declared, domain, function_bodies, view_texts};
use crate::catalog::bind::Target;
use crate::catalog::system::split;
use crate::pg::error::Result;
use crate::pg::parse::{parse_expression, parse_query};
use crate::pg::rewrite::relation_text;
use crate::pg::walk::VisitMut;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{Expr, VisitorMut};
use std::ops::ControlFlow;
use tenon_storage::{Domain, Object};

/// Changes the texts that name a sequence.
struct Names<'a> {
    session: &'a Session,
    /// Where what has the text is: a name without a schema may be one there.
    schema: &'a str,
    oid: u32,
    to: &'a str,
    found: bool,
}

impl Names<'_> {
    fn text(&mut self, text: &mut String) {
        let binder = self.session.binder();
        let found = binder.names().textual(text).ok();
        let found = found.or_else(|| match split(text).as_slice() {
            [name] => binder.snapshot.relation(self.schema, name),
            _ => None,
        });
        if found.is_some_and(|relation| relation.oid() == self.oid) {
            *text = self.to.to_string();
            self.found = true;
        }
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(text) = relation_text(expr) {
            self.text(text);
        }
        ControlFlow::Continue(())
    }
}

/// Has a tree say another name of a sequence; false where it does not name it.
fn changed<T: VisitMut>(session: &Session, schema: &str, (oid, to): (u32, &str), tree: &mut T) -> bool {
    let mut names = Names {
        session,
        schema,
        oid,
        to,
        found: false,
    };
    let _ = tree.visit(&mut names);
    names.found
}

/// Whether a default takes numbers from a sequence. `schema`: where what has the default is.
pub(super) fn takes_from(session: &Session, schema: &str, sequence: u32, default: &str) -> bool {
    parse_expression(default).is_ok_and(|mut expr| changed(session, schema, (sequence, ""), &mut expr))
}

/// A sequence that is about to be renamed or moved.
pub(super) fn moves(session: &Session, oid: u32, to: &Target) -> Result<()> {
    let to = declared::quoted_name(to, &to.name);
    let default = |schema: &str, text: Option<&str>| -> Result<Option<String>> {
        let Some(text) = text else { return Ok(None) };
        let mut expr = parse_expression(text)?;
        Ok(changed(session, schema, (oid, &to), &mut expr).then(|| expr.to_string()))
    };
    let (state_now, transaction) = (session.state(), session.transaction()?);
    for relation in state_now.relations() {
        let (schema, name) = (relation.schema_name(), relation.name());
        if let Some((text, _)) = view_texts::text(relation)
            && let Ok(Some(mut query)) = parse_query(text)
            && changed(session, schema, (oid, &to), &mut query)
        {
            transaction.lock().set_query(schema, name, &query.to_string())?;
        }
        let columns = relation.as_table().map(|table| &table.definition().columns);
        for column in columns.into_iter().flatten() {
            if let Some(text) = default(schema, column.default.as_deref())? {
                transaction.lock().set_default(schema, name, &column.name, Some(text))?;
            }
        }
    }
    for (key, of, mut body) in function_bodies::all(&state_now) {
        if changed(session, &of.schema_name, (oid, &to), body.as_mut()) {
            function_bodies::put(session, key, &body)?;
        }
    }
    for object in state_now.objects().values() {
        if let Object::Domain(of) = object
            && let Some(text) = default(&of.schema_name, of.default.as_deref())?
        {
            let changed = Domain {
                default: Some(text),
                ..Domain::clone(of)
            };
            domain::put(session, changed)?;
        }
    }
    Ok(())
}
