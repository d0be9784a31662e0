//! Calls and groups whose names in DataFusion would be those that the client gives to other columns: `sum(t.a) AS x` beside
//! `b AS "sum(t.a)"`, or a table's column of such a name. They are computed over `coalesce` of what they are computed over, as
//! often as no such name has it, which changes no value.

use super::apart::{arguments, coalesced, columns, is_called, is_star, item, unnested, unqualified};
use super::like_calls::is_like_a_call;
use super::names::{displayed_name, function_name, output_name, repeated_name};
use super::spellings::call;
use crate::pg::names::fold;
use crate::pg::walk::{change_inner_first, expressions};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Select, SelectItem,
    Value, WindowType,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

const GROUPING: &str = "grouping";

/// Calls of a SELECT that are named as a column is; `keys` are those of its ORDER BY, `columns` what the relations of its FROM
/// have.
pub(crate) fn calls_apart(select: &mut Select, keys: &mut [&mut Expr], columns: impl FnOnce() -> Vec<String>) {
    let mut calls: Vec<Expr> = Vec::new();
    see(select, keys, |expr| {
        if is_called(expr) && !calls.iter().any(|call| are_alike(call, expr)) {
            calls.push(expr.clone());
        }
    });
    if calls.is_empty() {
        return;
    }
    let mut names = said(select, keys);
    // Only what has no groups goes on with all the columns that there are.
    if calls
        .iter()
        .any(|call| matches!(call, Expr::Function(function) if function.over.is_some()))
    {
        names.extend(columns());
    }
    names.retain(|name| is_like_a_call(name));
    if names.is_empty() {
        return;
    }
    if calls.iter().any(is_grouping) {
        rename_outputs(select, keys);
    }
    let times = times(&names);
    exchange(select, keys, calls, &|call| changed(call, times));
}

fn is_grouping(call: &Expr) -> bool {
    matches!(call, Expr::Function(function) if function_name(function) == GROUPING)
}

/// GROUPING wants keys as they are: it is the output columns called like it that get names which clients do not see.
fn rename_outputs(select: &mut Select, keys: &mut [&mut Expr]) {
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { alias, .. } = item else {
            continue;
        };
        let name = fold(alias);
        if !name.starts_with(GROUPING) || name != displayed_name(&name) {
            continue;
        }
        let own = Ident::with_quote('"', repeated_name(&name, at));
        let on = match &mut select.distinct {
            Some(Distinct::On(on)) => on.as_mut_slice(),
            _ => &mut [],
        };
        for key in keys.iter_mut().map(|key| &mut **key).chain(on) {
            if matches!(&*key, Expr::Identifier(named) if fold(named) == name) {
                *key = Expr::Identifier(own.clone());
            }
        }
        *alias = own;
    }
}

/// Groups of a SELECT that are named as one of its other columns is.
pub(crate) fn groups_apart(select: &mut Select, keys: &mut [&mut Expr]) {
    let found = groups(select);
    if found.is_empty() {
        return;
    }
    let mut names = said(select, keys);
    let is_word = |name: &String| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    // Those with a mark of Tenon's are nothing's in a plan.
    names.retain(|name| !is_word(name) && name == displayed_name(name));
    if names.is_empty() {
        return;
    }
    let times = times(&names);
    // A group's name has those of its columns in it.
    let meets = |group: &Expr| {
        let columns = columns_of(group);
        let has_all = |name: &String| columns.iter().all(|column| name.contains(column.as_str()));
        !columns.is_empty() && names.iter().any(has_all)
    };
    let mut met: Vec<Expr> = Vec::new();
    for group in found {
        if meets(&group) && !met.iter().any(|known| are_alike(known, &group)) {
            met.push(group);
        }
    }
    exchange(select, keys, met, &|group| Some(coalesced(group, times)));
}

/// What the groups of a SELECT are computed from, columns aside.
pub(super) fn groups(select: &Select) -> Vec<Expr> {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else {
        return Vec::new();
    };
    let mut found: Vec<Expr> = Vec::new();
    for group in groups {
        match group {
            Expr::GroupingSets(sets) => sets
                .iter()
                .flatten()
                .for_each(|group| found.extend(computed(select, group))),
            Expr::Tuple(groups) => groups.iter().for_each(|group| found.extend(computed(select, group))),
            group => found.extend(computed(select, group)),
        }
    }
    found
}

/// What a group is computed from, where it is no column: it may be the place or the name of an item.
fn computed(select: &Select, group: &Expr) -> Option<Expr> {
    let group = unnested(group);
    let meant = match &group {
        Expr::Value(value) => match &value.value {
            Value::Number(place, _) => {
                let place = place.parse::<usize>().ok()?.checked_sub(1)?;
                unnested(item(select.projection.get(place)?)?)
            }
            _ => return None,
        },
        Expr::Identifier(name) => {
            let name = fold(name);
            let own = |item: &&SelectItem| output_name(item).as_ref() == Some(&name);
            unnested(item(select.projection.iter().find(own)?)?)
        }
        _ => group,
    };
    let is_column = matches!(meant, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    (!is_column && !matches!(meant, Expr::Value(_))).then_some(meant)
}

fn columns_of(expr: &Expr) -> Vec<String> {
    let mut out = Vec::new();
    let _ = expressions(expr, |expr, _| {
        match expr {
            Expr::Identifier(name) => out.push(fold(name)),
            Expr::CompoundIdentifier(parts) => out.extend(parts.last().map(fold)),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    out
}

/// Shows each expression of a SELECT and its ORDER BY, those within subqueries aside.
fn see(select: &Select, keys: &[&mut Expr], mut see: impl FnMut(&Expr)) {
    let mut seen = |expr: &Expr| {
        let _ = expressions(expr, |expr, within| {
            if !within {
                see(expr);
            }
            ControlFlow::<()>::Continue(())
        });
    };
    select.projection.iter().filter_map(item).for_each(&mut seen);
    select.having.iter().for_each(&mut seen);
    if let Some(Distinct::On(on)) = &select.distinct {
        on.iter().for_each(&mut seen);
    }
    if let GroupByExpr::Expressions(groups, _) = &select.group_by {
        groups.iter().for_each(&mut seen);
    }
    keys.iter().for_each(|key| seen(key));
}

/// The names of output columns, but for those that are called as they are written, and those of columns that are read.
fn said(select: &Select, keys: &[&mut Expr]) -> HashSet<String> {
    let mut names: HashSet<String> = HashSet::new();
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item
            && expr.to_string() != alias.value
        {
            names.insert(fold(alias));
        }
    }
    see(select, keys, |expr| match expr {
        Expr::Identifier(name) => {
            // Of an output column, where it is one.
            let own = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias == name);
            if !select.projection.iter().any(own) {
                names.insert(fold(name));
            }
        }
        Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(fold)),
        _ => {}
    });
    names
}

/// How often `coalesce` has to stand in a name that is none of these.
fn times(names: &HashSet<String>) -> usize {
    let most = names.iter().map(|name| name.matches("coalesce(").count()).max();
    most.unwrap_or_default() + 1
}

/// Whether two expressions are the same, where a column may say of what relation it is.
pub(crate) fn are_alike(one: &Expr, other: &Expr) -> bool {
    let (one, other) = (unnested(one), unnested(other));
    if one == other {
        return true;
    }
    let relations = columns(&one).into_iter().zip(columns(&other));
    unqualified(&one) == unqualified(&other)
        && relations
            .into_iter()
            .all(|(one, other)| one.is_none() || other.is_none() || one == other)
}

/// Puts what `make` makes of it in the place of each of some expressions.
fn exchange(
    select: &mut Select,
    keys: &mut [&mut Expr],
    mut exchanged: Vec<Expr>,
    make: &dyn Fn(&Expr) -> Option<Expr>,
) {
    // The outer ones of nested ones first: their parts are exchanged after them.
    exchanged.sort_by_key(|from| std::cmp::Reverse(from.to_string().len()));
    for from in exchanged {
        let mut exchange = |expr: &mut Expr, within: bool| {
            // What parentheses are around is exchanged within them.
            if !within
                && !matches!(expr, Expr::Nested(_))
                && are_alike(expr, &from)
                && let Some(made) = make(expr)
            {
                *expr = made;
            }
        };
        for item in &mut select.projection {
            change_inner_first(item, &mut exchange);
        }
        change_inner_first(&mut select.group_by, &mut exchange);
        change_inner_first(&mut select.having, &mut exchange);
        if let Some(Distinct::On(on)) = &mut select.distinct {
            on.iter_mut().for_each(|key| change_inner_first(key, &mut exchange));
        }
        for key in keys.iter_mut() {
            change_inner_first(&mut **key, &mut exchange);
        }
    }
}

/// The call over an argument that is wrapped so often; of a window function that has none of a row's, over parts of rows that
/// are all in one.
fn changed(expr: &Expr, times: usize) -> Option<Expr> {
    let mut expr = unnested(expr);
    let star = is_star(&expr);
    let Expr::Function(function) = &mut expr else {
        return None;
    };
    if function_name(function) == GROUPING {
        return None;
    }
    let of_rows = |expr: &&Expr| !columns_of(expr).is_empty();
    let argument = arguments(function).find(of_rows).cloned();
    if let Some(argument) = argument {
        of_argument(function, &argument, times);
    } else if let Some(key) = function.within_group.first_mut() {
        key.expr = coalesced(&key.expr, times);
    } else if let Some(WindowType::WindowSpec(window)) = &mut function.over {
        match window.partition_by.first_mut() {
            Some(key) => *key = coalesced(key, times),
            None => {
                let always = Expr::Value(Value::Boolean(true).into());
                window.partition_by.push(coalesced(&always, times));
            }
        }
    } else if star {
        let one = Expr::value(Value::Number("1".into(), false));
        *function = match call("count", vec![coalesced(&one, times)]) {
            Expr::Function(made) => made,
            _ => return None,
        };
    } else {
        let argument = arguments(function).next()?.clone();
        of_argument(function, &argument, times);
    }
    Some(expr)
}

fn of_argument(function: &mut Function, argument: &Expr, times: usize) {
    if let FunctionArguments::List(list) = &mut function.args
        && let Some(own) = list.args.iter_mut().find_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if expr == argument => Some(expr),
            _ => None,
        })
    {
        *own = coalesced(argument, times);
    }
}
