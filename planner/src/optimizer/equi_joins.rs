//! DataFusion's rule that makes keys of a join's equalities, where it is right.

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, Operator};
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `ExtractEquijoinPredicate` (DataFusion 55.2) adds the equalities of a join's condition to keys that match nulls, where
/// they would match nulls too: such a condition comes about when a filter is pushed into a join whose key is an
/// `IS NOT DISTINCT FROM`. Here the equalities become the keys, and the keys that match nulls a condition.
#[derive(Debug, Default)]
pub struct ExtractKeysOfOneEquality(ExtractEquijoinPredicate);

impl OptimizerRule for ExtractKeysOfOneEquality {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join)
                if join.null_equality == NullEquality::NullEqualsNull
                    && !join.on.is_empty()
                    && join.filter.is_some() =>
            {
                self.beside_nulls(join, config)
            }
            plan => self.0.rewrite(plan, config),
        }
    }
}

impl ExtractKeysOfOneEquality {
    /// The keys of the condition alone, and then what becomes of those that are there.
    fn beside_nulls(&self, mut join: Join, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let unchanged = join.clone();
        let matching_nulls = std::mem::take(&mut join.on);
        join.null_equality = NullEquality::NullEqualsNothing;
        let extracted = self.0.rewrite(LogicalPlan::Join(join), config)?;
        let LogicalPlan::Join(mut join) = extracted.data else {
            return Ok(Transformed::no(LogicalPlan::Join(unchanged)));
        };
        if join.on.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Join(unchanged)));
        }
        match join.null_equality {
            NullEquality::NullEqualsNull => join.on.extend(matching_nulls),
            NullEquality::NullEqualsNothing => {
                let conditions = matching_nulls.into_iter().map(|(left, right)| {
                    Expr::BinaryExpr(BinaryExpr::new(
                        Box::new(left),
                        Operator::IsNotDistinctFrom,
                        Box::new(right),
                    ))
                });
                join.filter = conjunction(join.filter.into_iter().chain(conditions));
            }
        }
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    }
}

/// The plan with a name of its own for each key that is called as a column beside it, as conversions are called as what they
/// convert: the key becomes a column of the join's input.
pub fn named(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            let (left, right) = (join.left.schema().clone(), join.right.schema().clone());
            for (at, (own, other)) in join.on.iter_mut().enumerate() {
                changed |= name(own, at, &left) | name(other, at, &right);
            }
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
        }
        node => Ok(Transformed::no(node)),
    })
    .data()
}

fn name(key: &mut Expr, at: usize, input: &DFSchema) -> bool {
    if !matches!(key, Expr::ScalarFunction(_)) {
        return false;
    }
    let called = key.schema_name().to_string();
    let alike = input
        .columns()
        .iter()
        .any(|column| column.flat_name() == called || column.name == called);
    if alike {
        let own = format!("{key} {at}");
        *key = std::mem::take(key).alias(own);
    }
    alike
}
