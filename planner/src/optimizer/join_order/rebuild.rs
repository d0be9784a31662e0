//! The logical plan of a chosen join tree.

use std::sync::Arc;

use datafusion::common::{JoinConstraint, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, LogicalPlan};

use super::graph::{Graph, Set};
use super::search::{Tree, joins};

/// Joins as `tree` says: left inputs are build sides, and every predicate is applied where its relations first meet.
pub fn rebuild(graph: &Graph, tree: &Tree) -> Result<LogicalPlan> {
    match tree {
        Tree::Relation(at) => Ok(graph.relations[*at].plan.as_ref().clone()),
        Tree::Inner { build, probe } => {
            let (left, right) = (rebuild(graph, build)?, rebuild(graph, probe)?);
            let (on, filter) = (
                keys(graph, build.set(), probe.set()),
                residual(graph, build.set(), probe.set()),
            );
            let (left, right) = (Arc::new(left), Arc::new(right));
            let nulls = NullEquality::NullEqualsNothing;
            let join = Join::try_new(
                left,
                right,
                on,
                filter,
                JoinType::Inner,
                JoinConstraint::On,
                nulls,
                false,
            )?;
            Ok(LogicalPlan::Join(join))
        }
        Tree::Semi {
            outer,
            relation,
            builds_outer,
        } => {
            let outer = Arc::new(rebuild(graph, outer)?);
            let inner = Arc::clone(&graph.relations[*relation].plan);
            let Some(semi) = &graph.relations[*relation].semi else {
                return Ok(outer.as_ref().clone());
            };
            let Join {
                on,
                filter,
                join_type,
                join_constraint,
                null_equality,
                null_aware,
                ..
            } = semi.join.clone();
            if *builds_outer {
                let join = Join::try_new(
                    outer,
                    inner,
                    on,
                    filter,
                    join_type,
                    join_constraint,
                    null_equality,
                    null_aware,
                )?;
                return Ok(LogicalPlan::Join(join));
            }
            let swapped = if join_type == JoinType::LeftAnti {
                JoinType::RightAnti
            } else {
                JoinType::RightSemi
            };
            let on = on.into_iter().map(|(outer, inner)| (inner, outer)).collect();
            let join = Join::try_new(inner, outer, on, filter, swapped, join_constraint, null_equality, false)?;
            Ok(LogicalPlan::Join(join))
        }
    }
}

/// One equality for each class that has members on both sides: the rest of the class follows from it and from the
/// equalities applied below.
fn keys(graph: &Graph, build: Set, probe: Set) -> Vec<(Expr, Expr)> {
    let mut keys = vec![];
    for class in &graph.classes {
        let on_side = |side: Set| class.iter().find(|m| side >> m.relation & 1 == 1);
        if let (Some(l), Some(r)) = (on_side(build), on_side(probe)) {
            keys.push((Expr::Column(l.column.clone()), Expr::Column(r.column.clone())));
        }
    }
    for equality in &graph.equalities {
        let (left, right) = (&equality.left, &equality.right);
        if joins(left.1, right.1, build, probe) {
            let (l, r) = if left.1 & !build == 0 {
                (left, right)
            } else {
                (right, left)
            };
            keys.push((l.0.clone(), r.0.clone()));
        }
    }
    keys
}

fn residual(graph: &Graph, build: Set, probe: Set) -> Option<Expr> {
    let first_meet = |reads: Set| reads & !(build | probe) == 0 && reads & !build != 0 && reads & !probe != 0;
    let mut conjuncts: Vec<Expr> = graph
        .residuals
        .iter()
        .filter(|(_, reads)| first_meet(*reads))
        .map(|(e, _)| e.clone())
        .collect();
    // An equality whose sides straddle the inputs is no key here.
    for equality in &graph.equalities {
        let reads = equality.left.1 | equality.right.1;
        if first_meet(reads) && !joins(equality.left.1, equality.right.1, build, probe) {
            conjuncts.push(equality.left.0.clone().eq(equality.right.0.clone()));
        }
    }
    conjunction(conjuncts)
}
