//! A function's body in the place of a call: the relations of the body must not catch the columns of the call's
//! arguments.
//!
//! A relation of the body that is called like one that the arguments name gets an alias of its own, so that a qualified column,
//! or a whole row, means none of it. A column without a qualifier gets one where a relation of the body might have a column of
//! that name.

use super::{Binder, changed, fold};
use crate::pg::error::{Result, SqlError};
use crate::pg::names::known_as;
use crate::pg::walk::{Visit, VisitMut};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAlias, TableFactor, TableWithJoins, Visitor, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Makes a body and the values of its arguments strangers to each other. `scopes`: the relations of FROM around the
/// call, the innermost last; `number` tells this call from others.
pub(super) fn part(
    binder: &Binder,
    body: &mut Query,
    values: &mut [Expr],
    scopes: &[Vec<TableWithJoins>],
    number: usize,
) -> Result<()> {
    let own = Relations::of(binder, body);
    if own.names.is_empty() {
        return Ok(());
    }
    let mut qualifier = Qualifier {
        binder,
        own: &own,
        scopes,
        depth: 0,
        mentioned: HashSet::new(),
    };
    for value in values {
        if let ControlFlow::Break(error) = value.visit(&mut qualifier) {
            return Err(error);
        }
    }
    let names: HashSet<&str> = own
        .names
        .intersection(&qualifier.mentioned)
        .map(String::as_str)
        .collect();
    if !names.is_empty() {
        let mut renamer = Renamer {
            names,
            own: &own,
            number,
        };
        let _ = body.visit(&mut renamer);
    }
    Ok(())
}

/// What the relations anywhere in a body are called.
pub(super) fn relations(binder: &Binder, body: &Query) -> HashSet<String> {
    Relations::of(binder, body).names
}

/// The columns of a stored relation; None for what has to be planned to know.
pub(super) fn columns(binder: &Binder, factor: &TableFactor) -> Option<Vec<String>> {
    match factor {
        TableFactor::Table {
            name,
            args: None,
            alias,
            ..
        } if alias.as_ref().is_none_or(|alias| alias.columns.is_empty()) => {
            let relation = binder.names().relation(&changed::unmarked(name)).ok()?;
            let schema = relation.columns();
            Some(schema.fields().iter().map(|field| field.name().clone()).collect())
        }
        _ => None,
    }
}

/// The relations anywhere in a body.
struct Relations<'a> {
    binder: &'a Binder,
    names: HashSet<String>,
    columns: HashSet<String>,
    /// Stored relations, and functions whose column is called like them: what their name alone means.
    stored: HashSet<String>,
    functions: HashSet<String>,
    /// Whether there are relations whose columns are not known here.
    has_others: bool,
}

impl<'a> Relations<'a> {
    fn of(binder: &'a Binder, body: &Query) -> Self {
        let mut found = Relations {
            binder,
            names: HashSet::new(),
            columns: HashSet::new(),
            stored: HashSet::new(),
            functions: HashSet::new(),
            has_others: false,
        };
        let _ = Visit::visit(body, &mut found);
        found
    }
}

impl Visitor for Relations<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.names.extend(known_as(factor));
        match columns(self.binder, factor) {
            Some(columns) => {
                self.columns.extend(columns);
                self.stored.extend(known_as(factor));
            }
            None => {
                self.has_others = true;
                self.functions
                    .extend(known_as(factor).filter(|_| names_its_column(factor)));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether a function in FROM gives its column its own name there.
fn names_its_column(factor: &TableFactor) -> bool {
    let (TableFactor::Table {
        args: Some(_), alias, ..
    }
    | TableFactor::Function { alias, .. }
    | TableFactor::UNNEST { alias, .. }) = factor
    else {
        return false;
    };
    alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
}

/// Gives the columns of arguments their relations.
struct Qualifier<'a> {
    binder: &'a Binder,
    own: &'a Relations<'a>,
    scopes: &'a [Vec<TableWithJoins>],
    depth: usize,
    /// The relations that the arguments name.
    mentioned: HashSet<String>,
}

impl VisitorMut for Qualifier<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::CompoundIdentifier(parts) => self.mentioned.extend(parts.iter().rev().skip(1).map(fold)),
            Expr::Identifier(name) if self.depth == 0 => {
                let name = fold(name);
                // It may be a relation's row.
                self.mentioned.insert(name.clone());
                if !self.own.has_others && !self.own.columns.contains(&name) {
                    return ControlFlow::Continue(());
                }
                match self.relation(&name) {
                    Some(relation) => {
                        let quoted = |name: &str| Ident::with_quote('"', name);
                        *expr = Expr::CompoundIdentifier(vec![quoted(&relation), quoted(&name)]);
                        self.mentioned.insert(relation);
                    }
                    None if self.own.columns.contains(&name) => {
                        let error = SqlError::unsupported(format!(
                            "a call with column \"{name}\", which the function's own tables have, too,"
                        ));
                        return ControlFlow::Break(error.hint("Write the column with its table's name before it."));
                    }
                    None => {}
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Qualifier<'_> {
    /// The relation around the call that has a column.
    fn relation(&self, column: &str) -> Option<String> {
        for scope in self.scopes.iter().rev() {
            let factors: Vec<&TableFactor> = scope
                .iter()
                .flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)))
                .collect();
            let has = |factor: &&&TableFactor| {
                columns(self.binder, factor).is_some_and(|columns| columns.iter().any(|own| own == column))
            };
            if let Some(found) = factors.iter().find(has) {
                return known_as(found);
            }
            // A row, which needs none.
            if factors.iter().any(|factor| known_as(factor).as_deref() == Some(column)) {
                return None;
            }
            let unknown: Vec<&&TableFactor> = factors
                .iter()
                .filter(|factor| columns(self.binder, factor).is_none())
                .collect();
            match unknown.as_slice() {
                [] => {}
                [only] => return known_as(only),
                _ => return None,
            }
        }
        None
    }
}

/// Gives relations of a body aliases that nothing else has.
struct Renamer<'a> {
    names: HashSet<&'a str>,
    own: &'a Relations<'a>,
    number: usize,
}

impl Renamer<'_> {
    fn other(&self, name: &str) -> Ident {
        Ident::with_quote('"', format!("{name}\u{1}of {}", self.number))
    }

    fn is_own(&self, name: &Ident) -> bool {
        self.names.contains(fold(name).as_str())
    }

    /// Whether a name alone is that of a relation's row, or of a function's column that has its alias.
    fn is_row(&self, name: &Ident) -> bool {
        let folded = fold(name);
        let is_row = self.own.stored.contains(&folded) && !self.own.columns.contains(&folded);
        self.is_own(name) && (is_row || self.own.functions.contains(&folded))
    }
}

impl VisitorMut for Renamer<'_> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let Some(name) = known_as(factor).filter(|name| self.names.contains(name.as_str())) else {
            return ControlFlow::Continue(());
        };
        let other = self.other(&name);
        match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => match alias {
                Some(alias) => alias.name = other,
                none => {
                    *none = Some(TableAlias {
                        explicit: true,
                        name: other,
                        columns: Vec::new(),
                        at: None,
                    });
                }
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && let [ObjectNamePart::Identifier(only)] = name.0.as_slice()
                && self.is_own(only)
            {
                *name = ObjectName(vec![ObjectNamePart::Identifier(self.other(&fold(only)))]);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [qualifier, _] = parts.as_mut_slice()
            && self.is_own(qualifier)
        {
            *qualifier = self.other(&fold(qualifier));
        }
        if let Expr::Identifier(name) = expr
            && self.is_row(name)
        {
            *name = self.other(&fold(name));
        }
        ControlFlow::Continue(())
    }
}

/// The FROM of a query that is one SELECT.
pub(super) fn from_of(query: &Query) -> Vec<TableWithJoins> {
    match query.body.as_ref() {
        SetExpr::Select(select) => select.from.clone(),
        _ => Vec::new(),
    }
}
