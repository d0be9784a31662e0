//! `d.id` where a table has a column `d`: DataFusion takes that column for a record before it looks for a table `d` of an
//! enclosing query. Under another alias the table cannot be mistaken.

use super::fold;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement, TableAlias,
    TableFactor, VisitorMut,
};
use std::ops::ControlFlow;

/// Gives every relation that is called `name` another name, with all that refers to it. False where there is none.
pub(super) fn rename(statement: &mut Statement, name: &str) -> bool {
    let mut renamer = Renamer { name, found: false };
    let _ = statement.visit(&mut renamer);
    renamer.found
}

struct Renamer<'a> {
    name: &'a str,
    found: bool,
}

impl Renamer<'_> {
    fn other(&self) -> Ident {
        Ident::with_quote('"', format!("{}\u{1}", self.name))
    }
}

impl VisitorMut for Renamer<'_> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let other = self.other();
        let alias = match factor {
            TableFactor::Table {
                name,
                alias: alias @ None,
                ..
            } => {
                let last = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
                if last.as_deref() == Some(self.name) {
                    self.found = true;
                    *alias = Some(TableAlias {
                        explicit: true,
                        name: other,
                        columns: Vec::new(),
                        at: None,
                    });
                }
                return ControlFlow::Continue(());
            }
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => alias,
            _ => return ControlFlow::Continue(()),
        };
        if let Some(alias) = alias
            && fold(&alias.name) == self.name
        {
            self.found = true;
            alias.name = other;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let other = self.other();
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && let [ObjectNamePart::Identifier(only)] = name.0.as_mut_slice()
                && fold(only) == self.name
            {
                *only = other.clone();
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [qualifier, _] = parts.as_mut_slice()
            && fold(qualifier) == self.name
        {
            *qualifier = self.other();
        }
        ControlFlow::Continue(())
    }
}
