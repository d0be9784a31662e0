//! Functions in FROM over the columns of what stands before them: `t, unnest(t.items) AS item`.

use super::super::sets::{contains_set, expand, is_set};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection};
use std::collections::HashMap;

/// `left` with the columns of `right`, where that is nothing but projections over one row. `outer`: a row for which a set
/// is empty stays. None: `right` is something else.
pub(super) fn with_row(
    left: &LogicalPlan,
    right: &LogicalPlan,
    outer: bool,
    names: &AliasGenerator,
) -> Result<Option<LogicalPlan>> {
    let mut projections: Vec<&Projection> = Vec::new();
    let mut node = right;
    loop {
        match node {
            LogicalPlan::SubqueryAlias(alias) if projections.is_empty() => {
                node = &alias.input;
            }
            LogicalPlan::Subquery(subquery) => node = &subquery.subquery,
            LogicalPlan::Projection(projection) => {
                projections.push(projection);
                node = &projection.input;
            }
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => break,
            _ => return Ok(None),
        }
    }
    let mut sets = false;
    for expr in projections.iter().flat_map(|projection| &projection.expr) {
        sets = sets || contains_set(expr)?;
        let refused = |expr: &Expr| {
            let foreign = matches!(expr, Expr::OuterReferenceColumn(_, column) if !left.schema().has_column(column));
            Ok(foreign || super::subquery_of(expr).is_some())
        };
        if expr.exists(refused)? {
            return Ok(None);
        }
    }
    // A row whose set is empty has NULL in all columns, not only in those of the set.
    let outer = outer && sets;
    if projections.is_empty() || outer && !only_sets(&projections) {
        return Ok(None);
    }
    let mut plan = left.clone();
    // What the projection below calls its columns, and what they are called here: the row may have the same names.
    let mut below: HashMap<Column, String> = HashMap::new();
    for (at, projection) in projections.into_iter().rev().enumerate() {
        let exprs = left.schema().columns().into_iter().map(Expr::Column);
        let own = projection.expr.iter().cloned().enumerate().map(|(place, expr)| {
            let expr = in_row(expr.unalias(), left.schema(), &below)?;
            Ok(expr.alias(own_name(at, place)))
        });
        let exprs = exprs.map(Ok).chain(own).collect::<Result<Vec<_>>>()?;
        plan = expand(exprs, plan, outer && at == 0, names)?;
        let columns = projection.schema.columns().into_iter().enumerate();
        below = columns.map(|(place, column)| (column, own_name(at, place))).collect();
    }
    let width = left.schema().fields().len();
    let given = plan.schema().columns();
    let named = given.into_iter().enumerate().map(|(at, column)| {
        let Some(place) = at.checked_sub(width) else {
            return Expr::Column(column);
        };
        let (qualifier, field) = right.schema().qualified_field(place);
        Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())
    });
    LogicalPlanBuilder::from(plan)
        .project(named.collect::<Vec<_>>())?
        .build()
        .map(Some)
}

/// Whether all columns are those of sets, or parts of them.
fn only_sets(projections: &[&Projection]) -> bool {
    let Some((lowest, above)) = projections.split_last() else {
        return false;
    };
    let is_column = |expr: &Expr| match expr.clone().unalias() {
        Expr::Column(_) => true,
        Expr::ScalarFunction(call) => call.name() == "get_field",
        _ => false,
    };
    lowest.expr.iter().all(|expr| is_set(&expr.clone().unalias()))
        && above.iter().all(|projection| projection.expr.iter().all(is_column))
}

fn own_name(projection: usize, place: usize) -> String {
    format!("\u{1}own {projection}.{place}")
}

/// References to the row as its columns, and those to the projection below as what it is called here.
fn in_row(expr: Expr, row: &DFSchema, below: &HashMap<Column, String>) -> Result<Expr> {
    // Not bottom up: a column of the row may be called like one of the projection.
    expr.transform_down(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) if row.has_column(&column) => {
            Ok(Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump))
        }
        Expr::Column(column) => match below.get(&column) {
            Some(name) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name)))),
            None => Ok(Transformed::no(Expr::Column(column))),
        },
        other => Ok(Transformed::no(other)),
    })
    .data()
}
