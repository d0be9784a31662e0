//! The names of output columns beside `*`, which only its columns tell apart: a name that one of them has already gets a
//! suffix that clients do not see (`pg::rewrite::names`), any other is what a query around calls the column.

use super::fold;
use crate::pg::rewrite::{displayed_name, output_name, repeated_name};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
};
use std::collections::HashSet;

/// A column of a relation in FROM: what qualifies it, and its name.
pub(super) type Column = (Option<String>, String);

/// What is known of a SELECT.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// `*` was spelt out, for a join whose columns merge.
    pub spelt: bool,
    /// A side of a set operation, where DataFusion does not tell columns apart by their tables.
    pub side: bool,
}

/// Names the output columns. `columns` says what relations have; where it cannot tell, all stay as they are.
pub(super) fn resolve(select: &mut Select, shape: Shape, columns: impl Fn(&TableFactor) -> Option<Vec<Column>>) {
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let has_star = select.projection.iter().any(is_star);
    if select.projection.len() < 2 && !shape.side || !(shape.spelt || has_star) {
        return;
    }
    let factors = select.from.iter().flat_map(crate::pg::walk::factors);
    let known = match has_star {
        true => factors.map(columns).collect::<Option<Vec<_>>>(),
        false => Some(Vec::new()),
    };
    let Some(known) = known.map(|known| known.concat()) else {
        return;
    };
    let stars = select.projection.iter().filter(|item| is_star(item));
    let Some(stars) = stars.map(|star| meant(star, &known)).collect::<Option<Vec<_>>>() else {
        return;
    };
    let mut names: HashSet<String> = stars.iter().flatten().map(|(_, name)| name.clone()).collect();
    let columns = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(_)) => output_name(item),
        _ => None,
    });
    names.extend(columns);
    let mut taken: HashSet<Column> = HashSet::new();
    let mut take = |column: &Column| {
        let (qualifier, name) = column.clone();
        taken.insert((qualifier.filter(|_| !shape.side), name))
    };
    let mut stars = stars.into_iter();
    let mut items = Vec::with_capacity(select.projection.len());
    for mut item in std::mem::take(&mut select.projection) {
        match &mut item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                let own = stars.next().unwrap_or_default();
                let first: Vec<bool> = own.iter().map(&mut take).collect();
                if first.contains(&false) {
                    for (column, first) in own.iter().zip(first) {
                        items.push(spelt_out(column, (!first).then_some(items.len())));
                    }
                    continue;
                }
            }
            // Names that no client sees are told apart by whoever made them.
            SelectItem::ExprWithAlias { alias, .. } if displayed_name(&alias.value).is_empty() => {}
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = displayed_name(&fold(alias)).to_string();
                let name = match names.insert(name.clone()) {
                    true => name,
                    false => repeated_name(&name, items.len()),
                };
                *alias = Ident::with_quote('"', name);
            }
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                let mut parts = parts.iter().rev().map(fold);
                let (name, qualifier) = (parts.next().unwrap_or_default(), parts.next());
                let column = (qualifier, name);
                if !take(&column) {
                    item = spelt_out(&column, Some(items.len()));
                }
            }
            _ => {}
        }
        items.push(item);
    }
    select.projection = items;
}

/// The columns that `*` or `t.*` stands for; None where it leaves some out or is of something else.
fn meant(star: &SelectItem, known: &[Column]) -> Option<Vec<Column>> {
    match star {
        SelectItem::Wildcard(options) if *options == Default::default() => Some(known.to_vec()),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
            if *options == Default::default() =>
        {
            let qualifier = name.0.last().and_then(ObjectNamePart::as_ident).map(fold)?;
            let own = known.iter().filter(|(of, _)| of.as_ref() == Some(&qualifier));
            Some(own.cloned().collect())
        }
        _ => None,
    }
}

/// A column of `*`; one that is there already under a name of its own.
fn spelt_out((qualifier, name): &Column, repeated_at: Option<usize>) -> SelectItem {
    let parts = qualifier.iter().chain([name]);
    let expr = Expr::CompoundIdentifier(parts.map(|part| Ident::with_quote('"', part)).collect());
    match repeated_at {
        Some(at) => SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', repeated_name(name, at)),
        },
        None => SelectItem::UnnamedExpr(expr),
    }
}
