//! DataFusion's rule that makes inner joins of outer ones below filters that drop their nulls, for Tenon's functions too.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator};
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
        let LogicalPlan::Filter(mut filter) = plan else {
            return Ok(Transformed::no(plan));
        };
        let predicate = filter.predicate.clone();
        filter.predicate = predicate.clone().transform_up(|expr| Ok(as_operators(expr)))?.data;
        let rewritten = self.0.rewrite(LogicalPlan::Filter(filter), config)?;
        rewritten.map_data(|plan| match plan {
            LogicalPlan::Filter(filter) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)),
            plan => Ok(plan),
        })
    }
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
