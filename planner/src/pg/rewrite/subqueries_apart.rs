//! Subqueries in groups, aggregates and window functions. DataFusion names an expression by its parts, and a subquery by its
//! column, EXISTS or its operand: two of them would have one name, or one and a column that goes with the groups. Each gets a
//! name of its own by as many `coalesce` around it as its place among them says, which changes no value.

use super::apart::{coalesced, exchange_all, is_called, item, sort_keys, unnested};
use super::said::groups;
use crate::pg::walk::{Visit, expressions};
use datafusion::sql::sqlparser::ast::{Expr, OrderBy, Select};
use std::ops::ControlFlow;

pub(super) fn in_select(select: &mut Select, order_by: &mut Option<OrderBy>) {
    let mut found = Found::default();
    groups(select).iter().for_each(|group| found.see(group));
    found.see(&select.named_window);
    let named = select.projection.iter().filter_map(item);
    for expr in named.chain(&select.having).chain(sort_keys(order_by)) {
        let _ = expressions(expr, |expr, within| {
            if !within && is_called(expr) {
                found.see(expr);
            }
            ControlFlow::<()>::Continue(())
        });
    }
    for (at, from) in found.subqueries.iter().enumerate() {
        exchange_all(select, order_by, &unnested(from), &coalesced(from, at + 1));
    }
}

#[derive(Default)]
struct Found {
    subqueries: Vec<Expr>,
    /// What ANY and ALL compare with, which is no value.
    compared: Vec<Expr>,
}

impl Found {
    fn see<T: Visit>(&mut self, tree: &T) {
        let _ = expressions(tree, |expr, within| {
            match expr {
                Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if !within => {
                    self.compared.push((**right).clone())
                }
                Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. }
                    if !(within || self.subqueries.contains(expr) || self.compared.contains(expr)) =>
                {
                    self.subqueries.push(expr.clone());
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
    }
}
