//! GROUP BY with ROLLUP, CUBE and GROUPING SETS, however nested and mixed, as one list of grouping sets. Output columns of one
//! expression that are keys by their names or places are keys each for itself: some sets may have only one of them.

use super::names::{displayed_name, folded, function_name, output_name};
use super::spellings::call;
use crate::pg::semantics::TIMES;
use crate::pg::tokens::sets::{DISTINCT, EMPTY, SETS};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Select, SelectItem,
    Value,
};

/// Sets that one GROUP BY may have, as in PostgreSQL.
const SETS_MAX: usize = 4096;

type Sets = Vec<Vec<Expr>>;

pub(super) fn in_select(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else {
        return;
    };
    let distinct = matches!(keys.first(), Some(Expr::Identifier(name)) if name.value == DISTINCT);
    if distinct {
        keys.remove(0);
    }
    // `GROUP BY (a, b)` is `GROUP BY a, b`.
    let listed = std::mem::take(keys).into_iter().flat_map(|key| match key {
        Expr::Tuple(all) if !all.is_empty() => all,
        key => vec![key],
    });
    keys.extend(listed.collect::<Vec<_>>());
    if !keys.iter().any(is_sets) {
        return;
    }
    let mut all: Sets = vec![vec![]];
    for key in keys.iter() {
        let own = sets(key);
        // Too many: the planner refuses what is left as it is.
        if all.len() * own.len() > SETS_MAX {
            return;
        }
        all = all
            .iter()
            .flat_map(|set| own.iter().map(move |more| united(set, more)))
            .collect();
    }
    part_alike(&all, &mut select.projection);
    for set in &mut all {
        for key in set {
            position(key, &select.projection);
        }
    }
    if distinct {
        let mut kept: Sets = Vec::new();
        for set in all {
            let same = |known: &Vec<Expr>| known.len() == set.len() && set.iter().all(|key| known.contains(key));
            if !kept.iter().any(same) {
                kept.push(set);
            }
        }
        all = kept;
    }
    // Several sets without a key are as many times the one row that a query without GROUP BY has.
    let times = all.len();
    let any_key = all.iter().any(|set| !set.is_empty());
    *keys = match all.as_slice() {
        [one] => one.clone(),
        _ if !any_key => vec![],
        _ => vec![Expr::GroupingSets(all)],
    };
    if !any_key {
        one_group(select, times);
    }
}

/// All rows are one group, also where no aggregate says so, of which there are so many rows.
fn one_group(select: &mut Select, times: usize) {
    let count = call("count", vec![Expr::Value(Value::Boolean(true).into())]);
    let is_there = Expr::BinaryOp {
        left: Box::new(count),
        op: BinaryOperator::GtEq,
        right: Box::new(Expr::Value(Value::Number("0".into(), false).into())),
    };
    let repeated = (times > 1).then(|| call(TIMES, vec![Expr::Value(Value::Number(times.to_string(), false).into())]));
    for condition in std::iter::once(is_there).chain(repeated) {
        select.having = Some(match select.having.take() {
            Some(own) => Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(own))),
                op: BinaryOperator::And,
                right: Box::new(condition),
            },
            None => condition,
        });
    }
}

/// Whether a GROUP BY makes totals.
pub(super) fn has_sets(group_by: &GroupByExpr) -> bool {
    match group_by {
        GroupByExpr::Expressions(keys, _) => keys.iter().any(is_sets),
        GroupByExpr::All(_) => false,
    }
}

/// What a query groups by, in any of its sets.
pub(super) fn keys(select: &Select) -> Vec<Expr> {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return vec![];
    };
    let mut all = keys.iter().flat_map(sets).fold(vec![], |all, set| united(&all, &set));
    for key in &mut all {
        position(key, &select.projection);
    }
    all
}

fn is_sets(key: &Expr) -> bool {
    match key {
        Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_) => true,
        Expr::Tuple(items) => items.is_empty(),
        _ => false,
    }
}

/// The sets that one element of GROUP BY stands for.
fn sets(element: &Expr) -> Sets {
    match element {
        Expr::GroupingSets(inner) => inner.iter().flat_map(|set| of_tuple(set)).collect(),
        Expr::Rollup(parts) => rollup(&parts.iter().map(|part| columns(part)).collect::<Vec<_>>()),
        Expr::Cube(parts) => cube(&parts.iter().map(|part| columns(part)).collect::<Vec<_>>()),
        Expr::Nested(inner) => sets(inner),
        Expr::Identifier(name) if name.value == EMPTY => vec![vec![]],
        Expr::Function(function) => {
            let name = function_name(function);
            let FunctionArguments::List(list) = &function.args else {
                return vec![vec![element.clone()]];
            };
            let args = list.args.iter().filter_map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            });
            match name.as_str() {
                SETS => args.flat_map(sets).collect(),
                "rollup" => rollup(&args.map(|arg| columns(std::slice::from_ref(arg))).collect::<Vec<_>>()),
                "cube" => cube(&args.map(|arg| columns(std::slice::from_ref(arg))).collect::<Vec<_>>()),
                _ => vec![vec![element.clone()]],
            }
        }
        other => vec![columns(std::slice::from_ref(other))],
    }
}

/// What stands in parentheses within GROUPING SETS: one element may itself stand for several sets.
fn of_tuple(set: &[Expr]) -> Sets {
    match set {
        [one] => sets(one),
        several => vec![columns(several)],
    }
}

/// The columns of a list, those in parentheses too.
fn columns(list: &[Expr]) -> Vec<Expr> {
    let mut out: Vec<Expr> = Vec::new();
    for item in list {
        let more = match item {
            Expr::Tuple(inner) => columns(inner),
            Expr::Nested(inner) => columns(std::slice::from_ref(inner)),
            Expr::Identifier(name) if name.value == EMPTY => vec![],
            other => vec![other.clone()],
        };
        out = united(&out, &more);
    }
    out
}

fn united(set: &[Expr], more: &[Expr]) -> Vec<Expr> {
    let mut all = set.to_vec();
    for key in more {
        if !all.contains(key) {
            all.push(key.clone());
        }
    }
    all
}

fn rollup(parts: &[Vec<Expr>]) -> Sets {
    let prefixes = (0..=parts.len()).rev();
    prefixes
        .map(|length| parts[..length].iter().fold(vec![], |set, part| united(&set, part)))
        .collect()
}

fn cube(parts: &[Vec<Expr>]) -> Sets {
    // The parser's limits keep lists short; a larger cube is refused for its number of sets.
    let parts = &parts[..parts.len().min(13)];
    (0..1usize << parts.len())
        .rev()
        .map(|chosen| {
            let picked = parts.iter().enumerate();
            let picked = picked.filter(|(at, _)| chosen >> (parts.len() - 1 - at) & 1 == 1);
            picked.fold(vec![], |set, (_, part)| united(&set, part))
        })
        .collect()
}

/// Tells keys apart that are output columns of one expression: all but the first are wrapped in `coalesce`, which changes no
/// value. A key that is an expression itself is the first such column.
fn part_alike(sets: &Sets, items: &mut [SelectItem]) {
    let mut keyed: Vec<usize> = sets.iter().flatten().filter_map(|key| output(key, items)).collect();
    keyed.sort_unstable();
    keyed.dedup();
    let exprs: Vec<Option<Expr>> = items.iter().map(|item| of_item(item).cloned()).collect();
    for (times, &at) in keyed.iter().enumerate() {
        let alike = keyed[..times]
            .iter()
            .filter(|&&before| exprs[before] == exprs[at])
            .count();
        let Some(expr) = exprs[at].clone().filter(|_| alike > 0) else {
            continue;
        };
        let wrapped = (0..alike).fold(expr, |expr, _| call("coalesce", vec![expr]));
        match &mut items[at] {
            SelectItem::ExprWithAlias { expr, .. } => *expr = wrapped,
            item => {
                if let Some(name) = output_name(item) {
                    *item = SelectItem::ExprWithAlias {
                        expr: wrapped,
                        alias: Ident::with_quote('"', name),
                    };
                }
            }
        }
    }
}

fn of_item(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The output column that a key is by its name, its place or its expression.
fn output(key: &Expr, items: &[SelectItem]) -> Option<usize> {
    let place = place(key).filter(|place| *place < items.len());
    let named = || match key {
        Expr::Identifier(name) => {
            let name = folded(name);
            let is_own = |item: &SelectItem| output_name(item).is_some_and(|own| displayed_name(&own) == name);
            items.iter().position(is_own)
        }
        _ => None,
    };
    let alike = || items.iter().position(|item| of_item(item) == Some(key));
    place.or_else(named).or_else(alike)
}

/// A key that is a position is the output column there.
fn position(key: &mut Expr, items: &[SelectItem]) {
    if let Some(expr) = place(key).and_then(|place| items.get(place)).and_then(of_item) {
        *key = expr.clone();
    }
}

/// The place, from 0, that a number as a key names.
fn place(key: &Expr) -> Option<usize> {
    let number = match key {
        Expr::Value(value) => &value.value,
        Expr::Cast { expr, .. } => match expr.as_ref() {
            Expr::Value(value) => &value.value,
            _ => return None,
        },
        _ => return None,
    };
    match number {
        Value::Number(digits, _) => digits.parse::<usize>().ok()?.checked_sub(1),
        _ => None,
    }
}
