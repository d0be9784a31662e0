//! Names after ORDER BY: alone, that of an output column; in an expression, that of a column of FROM, also where an output
//! column is called the same, which DataFusion would take.

use super::fold;
use super::output_names::Column;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::rewrite::{displayed_name, output_name, repeated_name};
use crate::pg::walk::{Visit, VisitMut};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, Query, Select, SelectItem, TableFactor, Visitor, VisitorMut,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// 42702 where a name after ORDER BY is that of output columns that differ.
pub(super) fn check(select: &Select, keys: &[&mut Expr]) -> Result<()> {
    let named = keys.iter().filter_map(|key| bare(key)).map(fold);
    for name in named {
        let mut values = Vec::new();
        let mut beside_star = false;
        for item in &select.projection {
            let Some(own) = output_name(item).filter(|own| displayed_name(own) == name) else {
                continue;
            };
            beside_star |= own != name;
            values.push(value(item, &name));
        }
        if values.len() == 1 && beside_star {
            values.push(None);
        }
        if values.iter().any(|value| *value != values[0]) {
            let message = format!("ORDER BY \"{name}\" is ambiguous");
            return Err(SqlError::new(state::AMBIGUOUS_COLUMN, message));
        }
    }
    Ok(())
}

/// What an output column is; None for a column of that very name, as `*` has it too.
fn value<'a>(item: &'a SelectItem, name: &str) -> Option<&'a Expr> {
    let (SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr)) = item else {
        return None;
    };
    let column = match expr {
        Expr::Identifier(column) => Some(column),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    column.is_none_or(|column| fold(column) != name).then_some(expr)
}

/// A name alone. Parentheses do not make an expression of it.
fn bare(key: &Expr) -> Option<&Ident> {
    match key {
        Expr::Identifier(name) => Some(name),
        Expr::Nested(inner) => bare(inner),
        _ => None,
    }
}

/// Says of what relation the columns in expressions are that are called like an output column, which gets a name that clients
/// do not see. `columns` says what relations have; where it cannot tell, all stay as they are.
pub(super) fn of_input(
    select: &mut Select,
    keys: &mut [&mut Expr],
    columns: impl Fn(&TableFactor) -> Option<Vec<Column>>,
) -> Result<()> {
    let outputs = select.projection.iter().filter_map(|item| {
        let name = output_name(item)?;
        let name = displayed_name(&name);
        value(item, name).map(|_| name.to_string())
    });
    let outputs: HashSet<String> = outputs.collect();
    let mut asked = Asked {
        outputs: &outputs,
        queries: 0,
        found: false,
    };
    for key in keys.iter().filter(|key| bare(key).is_none()) {
        let _ = Visit::visit(&**key, &mut asked);
    }
    if !asked.found {
        return Ok(());
    }
    let factors = select.from.iter().flat_map(super::whole_rows::factors);
    let Some(known) = factors.map(columns).collect::<Option<Vec<_>>>() else {
        return Ok(());
    };
    let mut qualified = Qualified {
        outputs: &outputs,
        columns: known.concat(),
        queries: 0,
        found: HashSet::new(),
    };
    for key in keys.iter_mut().filter(|key| bare(key).is_none()) {
        if let ControlFlow::Break(error) = key.visit(&mut qualified) {
            return Err(error);
        }
    }
    let mut renamed: HashMap<String, Ident> = HashMap::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && qualified.found.contains(&fold(alias))
        {
            let own = Ident::with_quote('"', repeated_name(&fold(alias), at));
            renamed.insert(fold(alias), own.clone());
            *alias = own;
        }
    }
    let distinct = match &mut select.distinct {
        Some(Distinct::On(keys)) => keys.as_mut_slice(),
        _ => &mut [],
    };
    for key in keys.iter_mut().map(|key| &mut **key).chain(distinct) {
        if let Some(own) = bare(key).and_then(|name| renamed.get(&fold(name))) {
            *key = Expr::Identifier(own.clone());
        }
    }
    Ok(())
}

/// Whether an expression has the name of an output column; in queries in it, with a relation's.
struct Asked<'a> {
    outputs: &'a HashSet<String>,
    queries: usize,
    found: bool,
}

impl Visitor for Asked<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.found |= match expr {
            Expr::Identifier(name) => self.queries == 0 && self.outputs.contains(&fold(name)),
            Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| self.outputs.contains(&fold(name))),
            _ => false,
        };
        ControlFlow::Continue(())
    }
}

struct Qualified<'a> {
    outputs: &'a HashSet<String>,
    columns: Vec<Column>,
    queries: usize,
    /// The names of output columns that a column has which is read.
    found: HashSet<String>,
}

impl VisitorMut for Qualified<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [.., qualifier, name] = parts.as_slice()
        {
            let column = (Some(fold(qualifier)), fold(name));
            if self.outputs.contains(&column.1) && self.columns.contains(&column) {
                self.found.insert(column.1);
            }
        }
        let Expr::Identifier(name) = expr else {
            return ControlFlow::Continue(());
        };
        let name = fold(name);
        if self.queries > 0 || !self.outputs.contains(&name) {
            return ControlFlow::Continue(());
        }
        let own: Vec<&Column> = self.columns.iter().filter(|(_, column)| *column == name).collect();
        match own.as_slice() {
            [(Some(qualifier), column)] => {
                let parts = [qualifier, column].map(|part| Ident::with_quote('"', part));
                *expr = Expr::CompoundIdentifier(parts.to_vec());
                self.found.insert(name);
                ControlFlow::Continue(())
            }
            [_, _, ..] => {
                let message = format!("column reference \"{name}\" is ambiguous");
                ControlFlow::Break(SqlError::new(state::AMBIGUOUS_COLUMN, message))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
