//! Join ordering by statistics, over the optimized logical plan.
//!
//! A maximal tree of inner joins, with the semi, anti and left joins that hang on it, is flattened into a graph
//! (`graph`, `edges`); an order is searched by cost (`search` over `pairs`, with `cardinality` for the rows); the tree is built anew
//! (`rebuild`). Left is the build side from here on. Other joins stay where they are, with the smaller input as build
//! side.

mod cardinality;
mod edges;
mod graph;
mod pairs;
mod rebuild;
mod search;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::{Join, LogicalPlan, Projection};

use super::estimate::Profile;
use graph::Graph;

/// The same query with its joins ordered.
pub fn reorder(plan: LogicalPlan) -> Result<LogicalPlan> {
    let Some(graph) = Graph::of(&plan)? else {
        let plan = plan.map_children(|child| Ok(Transformed::yes(reorder(child)?)))?.data;
        // The children of expressions: subqueries that the optimizer left as they were.
        let plan = plan
            .map_subqueries(|subquery| Ok(Transformed::yes(reorder(subquery)?)))?
            .data;
        return match plan {
            LogicalPlan::Join(join) => Ok(LogicalPlan::Join(smaller_build(join)?)),
            other => Ok(other),
        };
    };
    let tree = search::search(&graph);
    let ordered = rebuild::rebuild(&graph, &tree)?;
    if same_columns(&ordered, &plan) {
        return Ok(ordered);
    }
    let columns = plan
        .schema()
        .columns()
        .into_iter()
        .map(datafusion::logical_expr::Expr::Column)
        .collect();
    Ok(LogicalPlan::Projection(Projection::try_new_with_schema(
        columns,
        Arc::new(ordered),
        Arc::clone(plan.schema()),
    )?))
}

/// Whether the plans have the same columns at the same places. Fields alone do not tell: columns of two relations may have
/// one name and type.
fn same_columns(a: &LogicalPlan, b: &LogicalPlan) -> bool {
    a.schema().iter().eq(b.schema().iter())
}

/// Puts the smaller input on the left of each semi join.
pub fn smaller_builds(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up(|node| match node {
        LogicalPlan::Join(join) if matches!(join.join_type, JoinType::LeftSemi | JoinType::RightSemi) => {
            let own = join.join_type;
            let join = smaller_build(join)?;
            let swapped = join.join_type != own;
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), swapped))
        }
        node => Ok(Transformed::no(node)),
    })
}

/// Puts the smaller input on the left of a join that is not part of a graph.
fn smaller_build(join: Join) -> Result<Join> {
    use JoinType::*;
    let swapped = match join.join_type {
        Left => Right,
        Right => Left,
        LeftSemi => RightSemi,
        RightSemi => LeftSemi,
        LeftAnti => RightAnti,
        RightAnti => LeftAnti,
        // Both orders would need a projection above.
        Inner | Full | LeftMark | RightMark => return Ok(join),
    };
    if join.null_aware || Profile::of(&join.left).rows <= Profile::of(&join.right).rows {
        return Ok(join);
    }
    match join.join_type {
        // The output's column order changes with the sides, so only kinds that show one side can swap for free.
        Left | Right => Ok(join),
        _ => {
            let on = join.on.into_iter().map(|(left, right)| (right, left)).collect();
            let (constraint, nulls) = (join.join_constraint, join.null_equality);
            Join::try_new(
                join.right,
                join.left,
                on,
                join.filter,
                swapped,
                constraint,
                nulls,
                false,
            )
        }
    }
}
