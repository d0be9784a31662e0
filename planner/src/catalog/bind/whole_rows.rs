//! `count(u.*)`: the rows that `u` has. Where an outer join may have put NULLs in its place, those of which some column is
//! not NULL; else all.

use super::fold;
use crate::pg::error::Result;
use crate::pg::names::alias;
use crate::pg::walk::{VisitMut, factors, leaves};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinOperator,
    ObjectNamePart, Query, Select, SelectItem, TableFactor, TableWithJoins, VisitorMut,
};
use std::ops::ControlFlow;

/// Gives the counts of a SELECT something to count. `columns` are the names of a relation's columns.
pub(super) fn resolve(
    select: &mut Select,
    keys: &mut [&mut Expr],
    mut columns: impl FnMut(TableFactor) -> Result<Vec<String>>,
) -> Result<()> {
    if !select.from.iter().any(has_outer_join) {
        return Ok(());
    }
    let mut counted = Counted {
        factors: select.from.iter().flat_map(leaves).cloned().collect(),
        columns: &mut columns,
        depth: 0,
    };
    let items = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    for expr in items
        .chain(select.having.as_mut())
        .chain(keys.iter_mut().map(|key| &mut **key))
    {
        if let ControlFlow::Break(error) = expr.visit(&mut counted) {
            return Err(error);
        }
    }
    Ok(())
}

pub(super) fn has_outer_join(table: &TableWithJoins) -> bool {
    table.joins.iter().any(|join| {
        matches!(
            join.join_operator,
            JoinOperator::Left(_)
                | JoinOperator::LeftOuter(_)
                | JoinOperator::Right(_)
                | JoinOperator::RightOuter(_)
                | JoinOperator::FullOuter(_)
        )
    }) || factors(table).any(|factor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => has_outer_join(table_with_joins),
        _ => false,
    })
}

struct Counted<'a> {
    factors: Vec<TableFactor>,
    columns: &'a mut dyn FnMut(TableFactor) -> Result<Vec<String>>,
    /// Subqueries around the place.
    depth: usize,
}

impl VisitorMut for Counted<'_> {
    type Break = crate::pg::error::SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.depth == 0
            && let Expr::Function(function) = expr
            && let Err(error) = self.function(function)
        {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }
}

impl Counted<'_> {
    fn function(&mut self, function: &mut Function) -> Result<()> {
        if crate::pg::rewrite::function_name(function) != "count" {
            return Ok(());
        }
        let FunctionArguments::List(list) = &mut function.args else {
            return Ok(());
        };
        let [FunctionArg::Unnamed(argument)] = list.args.as_mut_slice() else {
            return Ok(());
        };
        let FunctionArgExpr::QualifiedWildcard(name) = &*argument else {
            return Ok(());
        };
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
            return Ok(());
        };
        let name = fold(name);
        let found = self
            .factors
            .iter()
            .find(|factor| alias(factor).as_deref() == Some(&name));
        let Some(factor) = found else { return Ok(()) };
        let columns = (self.columns)(factor.clone())?;
        let quoted = |name: &str| Ident::with_quote('"', name);
        let known = columns.iter().map(|column| {
            let column = Expr::CompoundIdentifier(vec![quoted(&name), quoted(column)]);
            Expr::IsNotNull(Box::new(column))
        });
        let any = known.reduce(|a, b| Expr::BinaryOp {
            left: Box::new(a),
            op: BinaryOperator::Or,
            right: Box::new(b),
        });
        if let Some(any) = any {
            // NULL where it is not so, and counted where it is.
            *argument = FunctionArgExpr::Expr(crate::pg::rewrite::call("nullif", vec![any, boolean(false)]));
        }
        Ok(())
    }
}

fn boolean(value: bool) -> Expr {
    Expr::Value(datafusion::sql::sqlparser::ast::Value::Boolean(value).into())
}
