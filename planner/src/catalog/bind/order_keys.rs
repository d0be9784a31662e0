//! Names after ORDER BY: alone, that of an output column; in an expression, that of a column of FROM, also where an output
//! column is called the same, which DataFusion would take.

use super::fold;
use super::output_names::Column;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::rewrite::{are_alike, displayed_name, output_name, repeated_name};
use crate::pg::walk::expressions_mut;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByExpr, Select, SelectItem, TableFactor, Value, ValueWithSpan,
};
use std::cell::OnceCell;
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

/// Brings the keys of DISTINCT ON into the order of those after ORDER BY, which begins with them: 42P10 where it does not. A key
/// that comes again orders nothing.
pub(super) fn initial(select: &mut Select, order: &mut Vec<OrderByExpr>) -> Result<()> {
    let items = &select.projection;
    let Some(Distinct::On(on)) = &mut select.distinct else {
        return Ok(());
    };
    for key in on.iter_mut().filter(|key| matches!(key, Expr::Value(_))) {
        *key = meant(key, items);
    }
    if order.is_empty() {
        return Ok(());
    }
    let value = |key: &Expr| meant(key, items);
    let same = |a: &Expr, b: &Expr| {
        let column = |expr: &Expr| match expr {
            Expr::CompoundIdentifier(parts) => parts.last().map(fold),
            expr => bare(expr).map(fold),
        };
        a == b || (bare(a).is_some() || bare(b).is_some()) && column(a).is_some_and(|own| column(b) == Some(own))
    };
    let mut values: Vec<Expr> = Vec::with_capacity(order.len());
    order.retain(|key| {
        let own = value(&key.expr);
        let first = !values.iter().any(|known| same(known, &own));
        if first {
            values.push(own);
        }
        first
    });
    let mut left = std::mem::take(on);
    for own in &values {
        match left.iter().position(|key| same(&value(key), own)) {
            Some(at) => on.push(left.remove(at)),
            None => break,
        }
    }
    if !left.is_empty() && on.len() < values.len() {
        let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
        return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
    }
    order.extend(left.iter().map(|key| OrderByExpr {
        expr: key.clone(),
        options: Default::default(),
        with_fill: None,
    }));
    on.append(&mut left);
    Ok(())
}

/// Keys after SELECT DISTINCT that are written as an output column is are that column: its place stands for them.
pub(super) fn of_outputs(select: &Select, keys: &mut [&mut Expr]) {
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    let is_column = |key: &Expr| matches!(key, Expr::CompoundIdentifier(_) | Expr::Value(_)) || bare(key).is_some();
    for key in keys.iter_mut().filter(|key| !is_column(key)) {
        for (at, item) in select.projection.iter().enumerate() {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
                // How many columns `*` is is not known here.
                break;
            };
            if are_alike(expr, key) {
                **key = Expr::Value(Value::Number((at + 1).to_string(), false).into());
                break;
            }
        }
    }
}

/// What a key is that may be an output column's number or name.
fn meant(key: &Expr, items: &[SelectItem]) -> Expr {
    if let Expr::Nested(inner) = key {
        return meant(inner, items);
    }
    let item = match key {
        Expr::Value(ValueWithSpan {
            value: Value::Number(number, _),
            ..
        }) => number
            .parse::<usize>()
            .ok()
            .and_then(|at| items.get(at.checked_sub(1)?)),
        Expr::Identifier(name) => {
            let name = fold(name);
            let mut named = items.iter();
            named.find(|item| output_name(item).is_some_and(|own| displayed_name(&own) == name))
        }
        _ => None,
    };
    match item {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => match expr {
            Expr::Nested(inner) => inner.as_ref().clone(),
            expr => expr.clone(),
        },
        _ => key.clone(),
    }
}

/// Leaves one of the keys of DISTINCT ON that are the same column, with its relation's name and without.
pub(super) fn distinct(select: &mut Select) {
    if select.from.iter().any(super::expand::merges) {
        return;
    }
    let items = &select.projection;
    let is_output = |name: &str| {
        let own = |item: &&SelectItem| output_name(item).is_some_and(|own| displayed_name(&own) == name);
        items.iter().filter(own).any(|item| value(item, name).is_some())
    };
    let Some(Distinct::On(keys)) = &mut select.distinct else {
        return;
    };
    // A name alone is ambiguous where several relations have it.
    let column = |key: &Expr| match key {
        Expr::CompoundIdentifier(parts) => parts.last().map(fold),
        key => bare(key).map(fold).filter(|name| !is_output(name)),
    };
    let same = |a: &Expr, b: &Expr| {
        a == b || (bare(a).is_some() || bare(b).is_some()) && column(a).is_some_and(|own| column(b) == Some(own))
    };
    let mut kept: Vec<Expr> = Vec::with_capacity(keys.len());
    for key in std::mem::take(keys) {
        if !kept.iter().any(|known| same(known, &key)) {
            kept.push(key);
        }
    }
    *keys = kept;
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
    // Relations are asked for their columns where a name needs it.
    let known = OnceCell::new();
    let known = || {
        let factors = || select.from.iter().flat_map(crate::pg::walk::factors);
        let asked = || factors().map(&columns).collect::<Option<Vec<_>>>();
        known.get_or_init(|| asked().unwrap_or_default().concat())
    };
    // The names of output columns that a column has which is read.
    let mut found: HashSet<String> = HashSet::new();
    for key in keys.iter_mut().filter(|key| bare(key).is_none()) {
        let flow = expressions_mut(&mut **key, |expr, within| {
            let name = match expr {
                Expr::Identifier(name) if !within => fold(name),
                Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                    [.., qualifier, name] if outputs.contains(&fold(name)) => {
                        let column = (Some(fold(qualifier)), fold(name));
                        if known().contains(&column) {
                            found.insert(column.1);
                        }
                        return ControlFlow::Continue(());
                    }
                    _ => return ControlFlow::Continue(()),
                },
                _ => return ControlFlow::Continue(()),
            };
            if !outputs.contains(&name) {
                return ControlFlow::Continue(());
            }
            let own: Vec<&Column> = known().iter().filter(|(_, column)| *column == name).collect();
            match own.as_slice() {
                [(Some(qualifier), column)] => {
                    let parts = [qualifier, column].map(|part| Ident::with_quote('"', part));
                    *expr = Expr::CompoundIdentifier(parts.to_vec());
                    found.insert(name);
                }
                [_, _, ..] => {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return ControlFlow::Break(SqlError::new(state::AMBIGUOUS_COLUMN, message));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(error) = flow {
            return Err(error);
        }
    }
    let mut renamed: HashMap<String, Ident> = HashMap::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && found.contains(&fold(alias))
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
