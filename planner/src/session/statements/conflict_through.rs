//! ON CONFLICT through a view: what it says of the view's columns, said of the table's.

use super::permitted;
use super::updatable::{Through, Use};
use crate::catalog::bind::fold;
use crate::catalog::through::plain;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::inference::Element;
use crate::pg::parse::parse_expression;
use crate::pg::walk::{self, VisitMut};
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, ConflictTarget, Expr, Ident, Insert, ObjectName, ObjectNamePart, OnConflict, OnConflictAction,
    OnInsert, VisitorMut,
};
use std::ops::ControlFlow;

/// The statement with another ON CONFLICT; None where the names of the columns are the same. `target`: what the rows that are
/// there are called.
pub(super) fn over_table(insert: &Insert, through: &Through, target: &str) -> Result<Option<Insert>> {
    let Some(OnInsert::OnConflict(on)) = &insert.on else {
        return Ok(None);
    };
    let mut columns = through.columns.iter();
    if columns.all(|(name, expr)| plain(expr).as_deref() == Some(name)) {
        return Ok(None);
    }
    let on = translated(on, through, target)?;
    Ok(Some(Insert {
        on: Some(OnInsert::OnConflict(on)),
        ..insert.clone()
    }))
}

fn translated(on: &OnConflict, through: &Through, target: &str) -> Result<OnConflict> {
    let mut on = on.clone();
    if let Some(ConflictTarget::Columns(names)) = &mut on.conflict_target {
        for name in names.iter_mut() {
            let next = match Element::of(name) {
                Element::Column(column) => match of_column(through, &fold(column)) {
                    Some(expr) => match plain(&expr) {
                        Some(column) => Ident::with_quote('"', column),
                        None => Element::of_key(&alone(expr).to_string()),
                    },
                    None => return Err(missing(&fold(column))),
                },
                Element::Key(text) => Element::of_key(&alone(over(through, text)?).to_string()),
                Element::Predicate(text) => Element::of_predicate(&alone(over(through, text)?).to_string()),
            };
            *name = next;
        }
    }
    let OnConflictAction::DoUpdate(update) = &mut on.action else {
        return Ok(on);
    };
    for assignment in &mut update.assignments {
        match &mut assignment.target {
            AssignmentTarget::ColumnName(name) => assigned(through, name)?,
            AssignmentTarget::Tuple(names) => names.iter_mut().try_for_each(|name| assigned(through, name))?,
        }
        change(&mut assignment.value, through, target)?;
    }
    if let Some(condition) = &mut update.selection {
        change(condition, through, target)?;
    }
    Ok(on)
}

/// A column that gets a value, by its name in the table.
fn assigned(through: &Through, name: &mut ObjectName) -> Result<()> {
    let Some(ObjectNamePart::Identifier(column)) = name.0.first_mut() else {
        return Ok(());
    };
    let at = through.column(&fold(column), Use::Insert)?;
    *column = Ident::with_quote('"', &through.table.definition().columns[at].name);
    Ok(())
}

fn of_column(through: &Through, name: &str) -> Option<Expr> {
    let mut columns = through.columns.iter();
    columns.find(|(own, _)| own == name).map(|(_, expr)| expr.clone())
}

/// What a column of the table is called in the view.
pub(super) fn shown(through: &Through, column: &str) -> Option<String> {
    let mut columns = through.columns.iter();
    let found = columns.find(|(_, expr)| plain(expr).as_deref() == Some(column));
    found.map(|(name, _)| name.clone())
}

/// An expression over the view's columns.
fn over(through: &Through, text: &str) -> Result<Expr> {
    let mut expr = parse_expression(text)?;
    change(&mut expr, through, "")?;
    Ok(expr)
}

/// Puts what the view's columns are in their places: of the row that is there, or the one that is excluded.
fn change(expr: &mut Expr, through: &Through, target: &str) -> Result<()> {
    let mut unknown = None;
    walk::change_inner_first(expr, |expr, within| {
        let (qualifier, column) = match expr {
            Expr::Identifier(name) if !within => (target.to_string(), fold(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, column] => (fold(qualifier), fold(column)),
                _ => return,
            },
            _ => return,
        };
        if qualifier != target && qualifier != "excluded" {
            return;
        }
        match of_column(through, &column) {
            Some(of_view) => *expr = qualified(of_view, &qualifier),
            None if matches!(expr, Expr::Identifier(_)) => unknown = Some(column),
            None => unknown = Some(format!("{qualifier}.{column}")),
        }
    });
    unknown.map_or(Ok(()), |name| Err(missing(&name)))
}

fn missing(name: &str) -> SqlError {
    let message = match name.contains('.') {
        true => format!("column {name} does not exist"),
        false => format!("column \"{name}\" does not exist"),
    };
    SqlError::new(state::UNDEFINED_COLUMN, message)
}

/// The table's columns in what a view's column is, as those of this relation.
fn qualified(mut expr: Expr, qualifier: &str) -> Expr {
    struct Columns<'a>(&'a str);
    impl VisitorMut for Columns<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Some(column) = plain(expr) {
                let own = Ident::with_quote('"', self.0);
                *expr = Expr::CompoundIdentifier(vec![own, Ident::with_quote('"', column)]);
            }
            ControlFlow::Continue(())
        }
    }
    let is_plain = plain(&expr).is_some();
    let _ = VisitMut::visit(&mut expr, &mut Columns(qualifier));
    match is_plain {
        true => expr,
        false => Expr::Nested(Box::new(expr)),
    }
}

/// The same with the names of the columns alone.
fn alone(mut expr: Expr) -> Expr {
    walk::change_inner_first(&mut expr, |expr, _| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(column) = parts.pop()
        {
            *expr = Expr::Identifier(column);
        }
    });
    expr
}

/// The view's columns that ON CONFLICT gives values, and those that it reads.
pub(super) fn named(on: &OnConflict, through: &Through) -> (Vec<String>, Vec<String>) {
    let (mut changed, mut read) = (Vec::new(), Vec::new());
    let is_own = |name: &str| through.columns.iter().any(|(own, _)| own == name);
    if let Some(ConflictTarget::Columns(names)) = &on.conflict_target {
        for name in names {
            match Element::of(name) {
                Element::Column(name) => read.push(fold(name)),
                // Whatever they name.
                Element::Key(_) | Element::Predicate(_) => {
                    read.extend(through.columns.iter().map(|(name, _)| name.clone()))
                }
            }
        }
    }
    if let OnConflictAction::DoUpdate(update) = &on.action {
        let mut exprs: Vec<&Expr> = update.selection.iter().collect();
        for assignment in &update.assignments {
            let names = match &assignment.target {
                AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
                AssignmentTarget::Tuple(names) => names.as_slice(),
            };
            let first = |name: &ObjectName| name.0.first().and_then(|part| part.as_ident()).map(fold);
            changed.extend(names.iter().filter_map(first));
            exprs.push(&assignment.value);
        }
        read.extend(permitted::named_among(&exprs, is_own));
    }
    read.retain(|name| is_own(name));
    (changed, read)
}
