//! Fields of a function's arguments that are records, as its body names them.

use super::fold;
use super::records::{field, fields};
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{Expr, VisitorMut};
use std::ops::ControlFlow;

/// Only `(r).column`, in the body of a function, and `r.column` and `function.r.column` of these arguments.
pub(super) fn resolve<T: VisitMut>(tree: &mut T, function: &str, records: &[&str]) {
    struct Fields<'a>(&'a str, &'a [&'a str]);
    impl VisitorMut for Fields<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let named = match expr {
                Expr::CompoundFieldAccess { root, access_chain } => fields(root, access_chain),
                Expr::CompoundIdentifier(parts) => {
                    let own = match &parts[..] {
                        [function, own @ ..] if own.len() > 1 && fold(function) == self.0 => own,
                        own => own,
                    };
                    let argument = own.split_first();
                    let argument = argument.filter(|(record, _)| self.1.contains(&fold(record).as_str()));
                    argument.map(|(record, columns)| {
                        let record = Expr::Identifier(record.clone());
                        columns
                            .iter()
                            .fold(record, |record, column| field(record, &fold(column)))
                    })
                }
                _ => None,
            };
            if let Some(named) = named {
                *expr = named;
            }
            ControlFlow::Continue(())
        }
    }
    let _ = tree.visit(&mut Fields(function, records));
}
