//! The logical plan of a chosen join tree.

use std::cmp::Reverse;
use std::sync::Arc;

use datafusion::common::{JoinConstraint, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};

use super::graph::{Graph, Member, Set};
use super::search::{Tree, joins};

/// Joins as `tree` says: left inputs are build sides, and every predicate is applied where its relations first meet.
pub fn rebuild(graph: &Graph, tree: &Tree) -> Result<LogicalPlan> {
    match tree {
        Tree::Relation(at) => Ok(graph.relations[*at].plan.as_ref().clone()),
        Tree::Inner { build, probe } => {
            let (left, right) = (rebuild(graph, build)?, rebuild(graph, probe)?);
            let (on, used) = keys(graph, build.set(), probe.set());
            let filter = residual(graph, build.set(), probe.set(), &used);
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
        Tree::Attached {
            outer,
            relation,
            builds_outer,
        } => {
            let set = outer.set();
            let outer = Arc::new(rebuild(graph, outer)?);
            let inner = Arc::clone(&graph.relations[*relation].plan);
            let Some(attached) = &graph.relations[*relation].attached else {
                return Ok(outer.as_ref().clone());
            };
            let joined = LogicalPlan::Join(attach(outer, inner, &attached.join, *builds_outer)?);
            // Predicates over the columns that a left join adds.
            match residual(graph, set, 1 << relation, &[]) {
                Some(predicate) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(joined))?)),
                None => Ok(joined),
            }
        }
    }
}

/// A semi, anti or left join with its build side on the left.
fn attach(outer: Arc<LogicalPlan>, inner: Arc<LogicalPlan>, join: &Join, builds_outer: bool) -> Result<Join> {
    let Join {
        on,
        filter,
        join_type,
        join_constraint,
        null_equality,
        null_aware,
        ..
    } = join.clone();
    if builds_outer {
        return Join::try_new(
            outer,
            inner,
            on,
            filter,
            join_type,
            join_constraint,
            null_equality,
            null_aware,
        );
    }
    let swapped = match join_type {
        JoinType::LeftAnti => JoinType::RightAnti,
        JoinType::Left => JoinType::Right,
        _ => JoinType::RightSemi,
    };
    let on = on.into_iter().map(|(outer, inner)| (inner, outer)).collect();
    Join::try_new(inner, outer, on, filter, swapped, join_constraint, null_equality, false)
}

/// One equality for each class that has members on both sides: the rest of the class follows from it and from the
/// equalities applied below. And the equalities of expressions that are keys here, by their place in the graph.
fn keys(graph: &Graph, build: Set, probe: Set) -> (Vec<(Expr, Expr)>, Vec<usize>) {
    let (mut keys, mut used) = (vec![], vec![]);
    let uses = uses(graph, build, probe);
    for class in &graph.classes {
        // Of several members on a side, one of the relation that has most keys here: those are estimated together.
        let on_side = |side: Set| {
            let members = class.iter().filter(|m| is_in(m, side));
            members.min_by_key(|m| (Reverse(uses[m.relation]), m.relation))
        };
        if let (Some(l), Some(r)) = (on_side(build), on_side(probe)) {
            keys.push((Expr::Column(l.column.clone()), Expr::Column(r.column.clone())));
        }
    }
    for (at, equality) in graph.equalities.iter().enumerate() {
        let (left, right) = (&equality.left, &equality.right);
        if joins(left.1, right.1, build, probe) {
            used.push(at);
            let (l, r) = if left.1 & !build == 0 {
                (left, right)
            } else {
                (right, left)
            };
            keys.push((l.0.clone(), r.0.clone()));
        }
    }
    (keys, used)
}

/// By relation: in how many of the classes that connect the two sets it has a member.
fn uses(graph: &Graph, build: Set, probe: Set) -> [usize; Set::BITS as usize] {
    let mut uses = [0; Set::BITS as usize];
    let connects = |class: &&Vec<Member>| [build, probe].iter().all(|&side| class.iter().any(|m| is_in(m, side)));
    for member in graph.classes.iter().filter(connects).flatten() {
        uses[member.relation] += 1;
    }
    uses
}

fn is_in(member: &Member, side: Set) -> bool {
    side >> member.relation & 1 == 1
}

/// Predicates that the two sides together are the first to have all columns for, and that are no keys: `keys` says
/// which equalities of expressions are.
fn residual(graph: &Graph, build: Set, probe: Set, keys: &[usize]) -> Option<Expr> {
    let both = build | probe;
    let first_meet = |reads: Set| reads & !both == 0 && reads & !build != 0 && reads & !probe != 0;
    let mut conjuncts: Vec<Expr> = graph
        .residuals
        .iter()
        .filter(|residual| first_meet(residual.reads))
        .map(|residual| residual.predicate.clone())
        .collect();
    for (at, equality) in graph.equalities.iter().enumerate() {
        if first_meet(equality.left.1 | equality.right.1) && !keys.contains(&at) {
            conjuncts.push(equality.left.0.clone().eq(equality.right.0.clone()));
        }
    }
    conjunction(conjuncts)
}
