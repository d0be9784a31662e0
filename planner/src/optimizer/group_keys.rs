//! DataFusion's rule that leaves out keys of groups that others decide, where it is right.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::eliminate_group_by_constant::EliminateGroupByConstant;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// `EliminateGroupByConstant` (DataFusion 55.2) takes what is computed of a key for decided by it. Floats may be equal and
/// give different texts.
#[derive(Debug, Default)]
pub struct EliminateKeysOfOthers(EliminateGroupByConstant);

impl OptimizerRule for EliminateKeysOfOthers {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Aggregate(aggregate) if groups_floats(&aggregate) => {
                Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)))
            }
            plan => self.0.rewrite(plan, config),
        }
    }
}

fn groups_floats(aggregate: &Aggregate) -> bool {
    let schema = aggregate.input.schema();
    aggregate.group_expr.iter().any(|key| match key {
        Expr::Column(column) => schema
            .field_from_column(column)
            .is_ok_and(|field| matches!(field.data_type(), DataType::Float32 | DataType::Float64)),
        _ => false,
    })
}
