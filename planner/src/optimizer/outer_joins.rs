//! DataFusion's rule that makes inner joins of outer ones below filters that drop their nulls, for Tenon's functions too, and
//! below other joins whose conditions do.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, Join, LogicalPlan, Operator};
use datafusion::optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Functions that comparisons and arithmetic are made of and that are NULL where an argument is.
const STRICT: [&str; 14] = [
    "convert",
    "convert_time",
    "date_as_timestamp",
    "date_as_timestamptz",
    "numeric_above",
    "numeric_add",
    "numeric_below",
    "numeric_div",
    "numeric_key",
    "numeric_mod",
    "numeric_mul",
    "numeric_sub",
    "numeric_trimmed",
    "numeric_uminus",
];

/// `EliminateOuterJoin` (DataFusion 55.2) knows of operators and casts that they are NULL where an operand is, and of no
/// function. It is asked about the filter with operators in the place of such functions.
#[derive(Debug, Default)]
pub struct EliminateOuterJoinBelowFunctions(EliminateOuterJoin);

impl OptimizerRule for EliminateOuterJoinBelowFunctions {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut filter = match plan {
            LogicalPlan::Filter(filter) => filter,
            LogicalPlan::Join(join) => return self.below_join(join, config),
            plan => return Ok(Transformed::no(plan)),
        };
        let condition = filter.predicate.clone().transform_up(|expr| Ok(as_operators(expr)))?;
        let inner = self.rejecting(&filter.input, &condition.data, config)?;
        let changed = inner.is_some();
        if let Some(inner) = inner {
            filter.input = Arc::new(inner);
        }
        Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), changed))
    }
}

impl EliminateOuterJoinBelowFunctions {
    /// A row that the join's condition is not true of is lost where its side's unmatched rows are: with it go the rows of
    /// NULLs that outer joins below have made for it.
    fn below_join(&self, mut join: Join, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        use JoinType::*;
        let (left, right) = match join.join_type {
            Inner | LeftSemi | RightSemi => (true, true),
            Left | LeftAnti => (false, true),
            Right | RightAnti => (true, false),
            Full | LeftMark | RightMark => (false, false),
        };
        let (left, right) = (left && has_outer(&join.left), right && has_outer(&join.right));
        if join.null_aware || !(left || right) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let equals = |(left, right): &(Expr, Expr)| left.clone().eq(right.clone());
        let keys = match join.null_equality {
            NullEquality::NullEqualsNothing => join.on.iter().map(equals).collect(),
            NullEquality::NullEqualsNull => vec![],
        };
        let filters = join.filter.iter().flat_map(split_conjunction).cloned();
        let Some(condition) = conjunction(keys.into_iter().chain(filters)) else {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        };
        let mut changed = false;
        for (input, may) in [(&mut join.left, left), (&mut join.right, right)] {
            // Of the other side's columns nothing is said.
            let own = input.schema().columns().into_iter();
            let own = own.map(|column| (column.clone(), Expr::Column(column))).collect();
            if may && let Some(inner) = self.rejecting(input, &replaced(&condition, &own)?, config)? {
                *input = Arc::new(inner);
                changed = true;
            }
        }
        Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
    }

    /// The plan with fewer outer joins, whose rows of which `condition` is not true are lost; None if it stays as it is.
    fn rejecting(
        &self,
        plan: &LogicalPlan,
        condition: &Expr,
        config: &dyn OptimizerConfig,
    ) -> Result<Option<LogicalPlan>> {
        if !has_outer(plan) {
            return Ok(None);
        }
        let below = |condition: &Expr, input: &LogicalPlan| self.rejecting(input, condition, config);
        Ok(match plan {
            LogicalPlan::Projection(projection) => {
                let shown = projection.schema.columns().into_iter().zip(&projection.expr);
                let shown = shown.map(|(column, expr)| (column, expr.clone().unalias()));
                let inner = below(&replaced(condition, &shown.collect())?, &projection.input)?;
                inner.map(|inner| {
                    let mut projection = projection.clone();
                    projection.input = Arc::new(inner);
                    LogicalPlan::Projection(projection)
                })
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let columns = alias.input.schema().columns().into_iter().map(Expr::Column);
                let named = alias.schema.columns().into_iter().zip(columns);
                let inner = below(&replaced(condition, &named.collect())?, &alias.input)?;
                inner.map(|inner| {
                    let mut alias = alias.clone();
                    alias.input = Arc::new(inner);
                    LogicalPlan::SubqueryAlias(alias)
                })
            }
            LogicalPlan::Filter(filter) => below(condition, &filter.input)?.map(|inner| {
                let mut filter = filter.clone();
                filter.input = Arc::new(inner);
                LogicalPlan::Filter(filter)
            }),
            LogicalPlan::Join(join) => {
                // A name without a relation's may be a column of either side.
                let is_of_both =
                    |column: &Column| join.left.schema().has_column(column) && join.right.schema().has_column(column);
                let asked = condition.clone().transform_up(|expr| match &expr {
                    Expr::Column(column) if is_of_both(column) => Ok(Transformed::yes(Expr::default())),
                    _ => Ok(Transformed::no(expr)),
                });
                let asked = Filter::try_new(asked.data()?, Arc::new(plan.clone()))?;
                let asked = self.0.rewrite(LogicalPlan::Filter(asked), config)?;
                let (mut join, mut changed) = match (asked.transformed, asked.data) {
                    (true, LogicalPlan::Filter(filter)) => match filter.input.as_ref() {
                        LogicalPlan::Join(inner) => (inner.clone(), true),
                        _ => (join.clone(), false),
                    },
                    _ => (join.clone(), false),
                };
                use JoinType::*;
                let (left, right) = match join.join_type {
                    Inner => (true, true),
                    Left | LeftSemi | LeftAnti | LeftMark => (true, false),
                    Right | RightSemi | RightAnti | RightMark => (false, true),
                    Full => (false, false),
                };
                for (input, may) in [(&mut join.left, left), (&mut join.right, right)] {
                    if may && let Some(inner) = below(condition, input)? {
                        *input = Arc::new(inner);
                        changed = true;
                    }
                }
                changed.then_some(LogicalPlan::Join(join))
            }
            _ => None,
        })
    }
}

/// Whether there is an outer join that a condition above the plan may be about.
fn has_outer(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_outer(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_outer(&alias.input),
        LogicalPlan::Filter(filter) => has_outer(&filter.input),
        LogicalPlan::Join(join) => join.join_type.is_outer() || has_outer(&join.left) || has_outer(&join.right),
        _ => false,
    }
}

/// The condition over what columns stand for; of columns that are not among these it says nothing.
fn replaced(condition: &Expr, columns: &HashMap<Column, Expr>) -> Result<Expr> {
    let replaced = condition.clone().transform_up(|expr| match &expr {
        Expr::Column(column) => Ok(Transformed::yes(columns.get(column).cloned().unwrap_or_default())),
        _ => Ok(Transformed::no(expr)),
    });
    replaced.data()?.transform_up(|expr| Ok(as_operators(expr))).data()
}

fn as_operators(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if STRICT.contains(&func.name()) && !args.is_empty() => {
            let plus = |left, right| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), Operator::Plus, Box::new(right)));
            Transformed::yes(args.into_iter().reduce(plus).unwrap_or_default())
        }
        expr => Transformed::no(expr),
    }
}
