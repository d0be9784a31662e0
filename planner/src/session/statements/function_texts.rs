//! What calls a function as it gets another name or schema: views, defaults and conditions go on calling it.

use super::stored_texts::{self, Change};
use crate::catalog::bind::{Binder, written};
use crate::pg::error::{Result, SqlError};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments, ObjectName, Query, TableFactor, VisitorMut};
use std::ops::ControlFlow;
use tenon_storage::Function;

struct Calls<'a> {
    binder: Binder,
    before: &'a Function,
    to: ObjectName,
    changed: bool,
    /// A call that may be one of another function of that name.
    is_open: bool,
    /// The query that is walked over, and which functions it calls, once that was asked.
    view: Option<Box<Query>>,
    called: Option<Vec<u32>>,
}

impl Calls<'_> {
    fn call(&mut self, name: &mut ObjectName, given: usize) {
        let mut meant = self.binder.functions_named(name);
        meant.retain(|own| own.takes(given));
        if !meant.iter().any(|own| own.oid == self.before.oid) {
            return;
        }
        if meant.len() > 1 {
            if self.called.is_none() {
                let query = self.view.take();
                self.called = query.and_then(|query| self.binder.calls_of_query(query).ok());
            }
            if let Some(called) = &self.called {
                meant.retain(|own| called.contains(&own.oid));
            }
            if !meant.iter().any(|own| own.oid == self.before.oid) {
                return;
            }
        }
        self.is_open |= meant.len() > 1;
        *name = self.to.clone();
        self.changed = true;
    }
}

impl VisitorMut for Calls<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr {
            let given = match &call.args {
                FunctionArguments::List(list) => list.args.len(),
                _ => 0,
            };
            self.call(&mut call.name, given);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                name, args: Some(args), ..
            } => self.call(name, args.args.len()),
            TableFactor::Function { name, args, .. } => self.call(name, args.len()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Change for Calls<'_> {
    fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn meets(&mut self, view: Option<&Query>) {
        self.view = view.map(|view| Box::new(view.clone()));
        self.called = None;
    }
}

/// A function that is about to be renamed or moved.
pub(super) fn moves(session: &Session, before: &Function, after: &Function) -> Result<()> {
    let binder = session.binder();
    let to = vec![written(&after.schema_name), written(&after.name)];
    let mut calls = Calls {
        binder,
        before,
        to: ObjectName::from(to),
        changed: false,
        is_open: false,
        view: None,
        called: None,
    };
    stored_texts::change_all(session, &mut calls)?;
    match calls.is_open {
        true => Err(SqlError::unsupported(
            "another name for one of several functions that take as many arguments, where views or defaults call it,",
        )),
        false => Ok(()),
    }
}
