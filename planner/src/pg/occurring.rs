//! What occurs in a logical plan: kinds of nodes and expressions, found in one walk that copies nothing.
//!
//! Rules take plans apart and put them together again, whatever they find. One whose subject does not occur is not run.

use crate::pg::functions::record::asked_itself;
use crate::pg::nodes::Materialized;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, InSubquery, SetComparison};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Volatility};
use std::ops::BitOr;

/// Whether a plan may give other rows, or do something, each time that it runs.
pub(crate) fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = found || expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u32);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $bit:literal,)*) => {
        impl Kinds {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
        }
    };
}

kinds! {
    FILTER = 0,
    WINDOW = 1,
    AGGREGATE = 2,
    SORT = 3,
    JOIN = 4,
    /// A join that is no inner one.
    OUTER_JOIN = 5,
    JOIN_CONDITION = 6,
    LIMIT = 7,
    UNION = 8,
    DISTINCT = 9,
    /// A relation without rows.
    EMPTY = 10,
    /// A subquery in FROM that refers to others there.
    LATERAL = 11,
    EXISTS = 12,
    IN_SUBQUERY = 13,
    SCALAR_SUBQUERY = 14,
    SET_COMPARISON = 15,
    /// A column of an enclosing query's row.
    OUTER_REFERENCE = 16,
    /// IS NULL, IS NOT NULL.
    NULL_TEST = 17,
    /// Of a function of one row.
    CALL = 18,
    DISTINCT_CALL = 19,
    /// Rows that several read.
    SHARED_ROWS = 20,
    BETWEEN = 21,
    IN_LIST = 22,
    /// A constant timestamp.
    INSTANT = 23,
    VOLATILE = 24,
    WINDOW_CALL = 25,
    /// Several aggregations, or one by several sets of keys.
    REGROUPING = 26,
    /// A projection of a projection's rows, with nothing between them.
    PROJECTED_TWICE = 27,
    RECURSION = 28,
}

impl Kinds {
    /// In expressions, of any sort.
    pub const SUBQUERY: Self =
        Self(Self::EXISTS.0 | Self::IN_SUBQUERY.0 | Self::SCALAR_SUBQUERY.0 | Self::SET_COMPARISON.0);

    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of these is among them.
    pub const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    fn add(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

/// Stack that a node may take, and how much more there is where that is not left.
const RED_ZONE_BYTES: usize = 128 << 10;
const MORE_BYTES: usize = 2 << 20;

/// What was found in a plan, its subqueries among it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Occurring {
    pub kinds: Kinds,
    pub nodes: usize,
    /// Nodes above each other.
    pub depth: usize,
}

impl Occurring {
    /// `stop`: how many nodes, and how many above each other, are enough to look at.
    pub fn of(plan: &LogicalPlan, stop: (usize, usize)) -> Result<Self> {
        let mut found = Self::default();
        found.see(plan, 1, stop)?;
        Ok(found)
    }

    fn see(&mut self, plan: &LogicalPlan, depth: usize, stop: (usize, usize)) -> Result<TreeNodeRecursion> {
        stacker::maybe_grow(RED_ZONE_BYTES, MORE_BYTES, || self.look(plan, depth, stop))
    }

    fn look(&mut self, plan: &LogicalPlan, depth: usize, stop: (usize, usize)) -> Result<TreeNodeRecursion> {
        self.nodes += 1;
        self.depth = self.depth.max(depth);
        if self.nodes > stop.0 || self.depth > stop.1 {
            return Ok(TreeNodeRecursion::Stop);
        }
        let own = of_node(plan);
        if own.has(Kinds::AGGREGATE) && self.kinds.has(Kinds::AGGREGATE) {
            self.kinds.add(Kinds::REGROUPING);
        }
        self.kinds.add(own);
        let below = plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                self.kinds.add(of_expr(expr));
                match subquery(expr) {
                    Some(subquery) => self.see(subquery, depth + 1, stop),
                    None => Ok(TreeNodeRecursion::Continue),
                }
            })
        })?;
        match below {
            TreeNodeRecursion::Stop => Ok(below),
            _ => plan.apply_children(|child| self.see(child, depth + 1, stop)),
        }
    }
}

/// Whether a node's expressions are columns as they are, or under another name, and constants.
pub(crate) fn only_columns(plan: &LogicalPlan) -> Result<bool> {
    all_are(plan, is_column)
}

/// Whether something holds of all of a node's expressions.
pub(crate) fn all_are(plan: &LogicalPlan, holds: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut all = true;
    plan.apply_expressions(|expr| {
        all &= holds(expr);
        Ok(match all {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(all)
}

pub(crate) fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_column(&alias.expr),
        Expr::Column(_) | Expr::Literal(..) => true,
        _ => false,
    }
}

fn subquery(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::InSubquery(InSubquery { subquery, .. }) => Some(&subquery.subquery),
        Expr::SetComparison(SetComparison { subquery, .. }) => Some(&subquery.subquery),
        _ => None,
    }
}

fn of_node(plan: &LogicalPlan) -> Kinds {
    match plan {
        LogicalPlan::Projection(outer) if matches!(*outer.input, LogicalPlan::Projection(_)) => Kinds::PROJECTED_TWICE,
        LogicalPlan::Filter(_) => Kinds::FILTER,
        LogicalPlan::Window(_) => Kinds::WINDOW,
        LogicalPlan::Aggregate(_) => Kinds::AGGREGATE,
        LogicalPlan::Sort(_) => Kinds::SORT,
        LogicalPlan::Join(join) => {
            let outer = match join.join_type {
                JoinType::Inner => Kinds::default(),
                _ => Kinds::OUTER_JOIN,
            };
            // Keys with a name inside are conditions that rules make anew.
            let named = |key: &Expr| key.exists(|part| Ok(matches!(part, Expr::Alias(_)))).unwrap_or(true);
            let condition =
                match join.filter.is_some() || join.on.iter().any(|(left, right)| named(left) || named(right)) {
                    true => Kinds::JOIN_CONDITION,
                    false => Kinds::default(),
                };
            Kinds::JOIN | outer | condition
        }
        LogicalPlan::Limit(_) => Kinds::LIMIT,
        LogicalPlan::Union(_) => Kinds::UNION,
        LogicalPlan::Distinct(Distinct::All(_) | Distinct::On(_)) => Kinds::DISTINCT,
        LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row => Kinds::EMPTY,
        LogicalPlan::Subquery(_) => Kinds::LATERAL,
        LogicalPlan::RecursiveQuery(_) => Kinds::RECURSION,
        LogicalPlan::Extension(extension) if extension.node.as_any().is::<Materialized>() => Kinds::SHARED_ROWS,
        _ => Kinds::default(),
    }
}

fn of_expr(expr: &Expr) -> Kinds {
    match expr {
        Expr::Exists(_) => Kinds::EXISTS,
        Expr::InSubquery(_) => Kinds::IN_SUBQUERY,
        Expr::ScalarSubquery(_) => Kinds::SCALAR_SUBQUERY,
        Expr::SetComparison(_) => Kinds::SET_COMPARISON,
        Expr::OuterReferenceColumn(..) => Kinds::OUTER_REFERENCE,
        Expr::IsNull(_) | Expr::IsNotNull(_) => Kinds::NULL_TEST,
        Expr::ScalarFunction(_) if asked_itself(expr).is_some() => Kinds::CALL | Kinds::NULL_TEST,
        Expr::ScalarFunction(call) => match call.func.signature().volatility {
            Volatility::Volatile => Kinds::CALL | Kinds::VOLATILE,
            _ => Kinds::CALL,
        },
        Expr::AggregateFunction(call) => of_aggregate(call),
        Expr::GroupingSet(_) => Kinds::REGROUPING,
        Expr::WindowFunction(_) => Kinds::WINDOW_CALL,
        Expr::Between(_) => Kinds::BETWEEN,
        Expr::InList(_) => Kinds::IN_LIST,
        Expr::Literal(ScalarValue::TimestampMicrosecond(..), _) => Kinds::INSTANT,
        _ => Kinds::default(),
    }
}

fn of_aggregate(call: &AggregateFunction) -> Kinds {
    match call.params.distinct {
        true => Kinds::DISTINCT_CALL,
        false => Kinds::default(),
    }
}
