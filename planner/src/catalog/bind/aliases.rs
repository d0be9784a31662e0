//! Relations that DataFusion mistakes under their own names. `d.id` where a table has a column `d`: it takes that column for a
//! record before it looks for a table `d` of an enclosing query. `SELECT d.id, x AS "d.id"`: it takes both for one name. Under
//! another alias the table cannot be mistaken.

use super::fold;
use crate::catalog::system::split;
use crate::pg::walk::VisitMut;
use datafusion::common::{SchemaError, TableReference};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement, TableAlias,
    TableFactor, VisitorMut,
};
use std::ops::ControlFlow;

/// What the relations may be called that an error is about.
pub(super) fn mistaken(error: &DataFusionError) -> Vec<String> {
    let found = match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => return mistaken(inner),
        DataFusionError::Shared(inner) => return mistaken(inner),
        DataFusionError::Collection(errors) => return errors.first().map(mistaken).unwrap_or_default(),
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, .. } => match &field.relation {
                Some(TableReference::Bare { table }) => vec![table.to_string()],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        },
        DataFusionError::NotImplemented(message) => {
            let column = message.strip_prefix("Nested identifiers are not yet supported for OuterReferenceColumn ");
            column.and_then(|column| split(column).pop()).into_iter().collect()
        }
        DataFusionError::Plan(message) if message.contains("require unique expression names") => {
            // Of two expressions, each of which may be the column.
            let texts = message.split("\" at position ").take(2);
            let texts = texts.filter_map(|text| Some(text.rsplit_once(" \"")?.1));
            let columns = texts.filter(|text| !text.contains(" AS "));
            let before_dots = |text: &str| {
                let dots = text.match_indices('.').map(|(at, _)| text[..at].to_string());
                dots.collect::<Vec<_>>()
            };
            columns.flat_map(before_dots).collect()
        }
        _ => Vec::new(),
    };
    found.into_iter().filter(|name| !name.contains('\u{1}')).collect()
}

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
