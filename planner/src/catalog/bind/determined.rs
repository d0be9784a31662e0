//! Columns of a table that its primary key determines, under grouping sets each of which has that key: they are keys of each
//! set too. Without grouping sets DataFusion knows them by itself.

use super::fold;
use crate::pg::walk::Visit;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, TableFactor, Visitor};
use std::ops::ControlFlow;

/// A table in FROM with a primary key.
pub(super) struct Keyed {
    pub alias: String,
    pub columns: Vec<String>,
    pub key: Vec<String>,
}

impl Keyed {
    /// The column that an expression names, if it is one of this table.
    fn column(&self, expr: &Expr) -> Option<String> {
        let name = match expr {
            Expr::Identifier(name) => fold(name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, name] if fold(table) == self.alias => fold(name),
                _ => return None,
            },
            Expr::Nested(inner) => return self.column(inner),
            _ => return None,
        };
        self.columns.contains(&name).then_some(name)
    }

    fn has_column(&self, set: &[Expr], name: &str) -> bool {
        set.iter().any(|key| self.column(key).as_deref() == Some(name))
    }
}

/// Adds such columns to the sets. `keyed` says what a relation in FROM is.
pub(super) fn resolve(select: &mut Select, order: &[&mut Expr], keyed: impl Fn(&TableFactor) -> Option<Keyed>) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else {
        return;
    };
    let [Expr::GroupingSets(sets)] = keys.as_mut_slice() else {
        return;
    };
    let tables = select.from.iter().flat_map(crate::pg::walk::factors).filter_map(keyed);
    for table in tables {
        if !sets
            .iter()
            .all(|set| table.key.iter().all(|name| table.has_column(set, name)))
        {
            continue;
        }
        let mut read = Read {
            table: &table,
            found: Vec::new(),
        };
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                let _ = Visit::visit(expr, &mut read);
            }
        }
        for expr in select.having.iter().chain(order.iter().map(|key| &**key)) {
            let _ = Visit::visit(expr, &mut read);
        }
        let read = read.found;
        let grouped = |name: &String| sets.iter().any(|set| table.has_column(set, name));
        // What some sets have as a key is NULL in the others.
        let more: Vec<Expr> = read
            .into_iter()
            .filter(|(name, _)| !grouped(name))
            .map(|(_, expr)| expr)
            .collect();
        sets.iter_mut().for_each(|set| set.extend(more.iter().cloned()));
    }
}

/// The columns of a table that are read, each as it is first written.
struct Read<'a> {
    table: &'a Keyed,
    found: Vec<(String, Expr)>,
}

impl Visitor for Read<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_name = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if let Some(name) = self.table.column(expr).filter(|_| is_name)
            && !self.found.iter().any(|(known, _)| *known == name)
        {
            self.found.push((name, expr.clone()));
        }
        ControlFlow::Continue(())
    }
}
