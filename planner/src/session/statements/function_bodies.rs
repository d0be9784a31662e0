//! Bodies that are bound when their function is made: `RETURN`, and `BEGIN ATOMIC`. What they name they depend on, and they go
//! on naming it where it gets another name or schema, as views do. Those that are strings are looked up anew by each call.

use super::{qualify, stars};
use crate::catalog::bind::{fold, only};
use crate::pg::error::{Result, SqlError};
use crate::pg::parse::parse_query;
use crate::pg::walk::Visit;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Query, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{DatabaseState, Function, Object, ObjectKey};

/// The text that is kept of a body.
pub(super) fn bound(session: &Session, body: &str) -> Result<String> {
    let Some(mut query) = parse_query(body)? else {
        return Err(SqlError::unsupported("a function in SQL that changes data"));
    };
    let binder = session.binder();
    binder.check_schemas(query.as_ref())?;
    only::resolve(&binder, &mut query);
    qualify::query(&binder, &mut query);
    stars::spell_out(&binder, &mut query);
    Ok(query.to_string())
}

/// A function's body, where it was bound.
pub(super) fn query(of: &Function) -> Option<Box<Query>> {
    match of.options.bound {
        true => parse_query(&of.body).ok().flatten(),
        false => None,
    }
}

/// The functions with such bodies.
pub(super) fn all(state_now: &DatabaseState) -> impl Iterator<Item = (&ObjectKey, &Arc<Function>, Box<Query>)> {
    state_now.objects().iter().filter_map(|(key, object)| match object {
        Object::Function(of) => Some((key, of, query(of)?)),
        _ => None,
    })
}

/// Those that read a relation.
pub(super) fn readers(state_now: &DatabaseState, schema: &str, name: &str) -> Vec<ObjectKey> {
    struct Named<'a>(&'a str, &'a str);
    impl Visitor for Named<'_> {
        type Break = ();

        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            let own: Vec<String> = relation
                .0
                .iter()
                .filter_map(ObjectNamePart::as_ident)
                .map(fold)
                .collect();
            match own.as_slice() {
                [schema, name] if schema == self.0 && name == self.1 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    all(state_now)
        .filter(|(_, _, query)| query.visit(&mut Named(schema, name)).is_break())
        .map(|(key, ..)| key.clone())
        .collect()
}

/// Gives a function another body.
pub(super) fn put(session: &Session, key: &ObjectKey, body: &Query) -> Result<()> {
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    if let Some(Object::Function(before)) = transaction.state().objects().get(key).cloned() {
        let next = Function {
            body: body.to_string(),
            ..Function::clone(&before)
        };
        transaction.put_object(key.clone(), Some(Object::Function(Arc::new(next))));
    }
    Ok(())
}
