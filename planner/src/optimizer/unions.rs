//! DataFusion's rule that takes what has no rows out of a plan, where it can.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// `PropagateEmptyRelation` (DataFusion 55.2) fails where the first input of a union that is left has columns of other names
/// than the union's, which are those of its first.
#[derive(Debug, Default)]
pub struct PropagateEmptyInUnions(PropagateEmptyRelation);

impl OptimizerRule for PropagateEmptyInUnions {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Union(union) => {
                let left: Vec<_> = union.inputs.iter().filter(|input| !is_empty(input)).cloned().collect();
                if left.len() == union.inputs.len() || left.is_empty() {
                    return self.0.rewrite(LogicalPlan::Union(union), config);
                }
                without_empty(left, &union).map(Transformed::yes)
            }
            plan => self.0.rewrite(plan, config),
        }
    }
}

fn is_empty(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row)
}

/// The union of the inputs that are left.
fn without_empty(mut left: Vec<Arc<LogicalPlan>>, union: &Union) -> Result<LogicalPlan> {
    let first = renamed(&left[0], union)?;
    if left.len() == 1 {
        return Ok(first);
    }
    left[0] = Arc::new(first);
    Ok(LogicalPlan::Union(Union {
        inputs: left,
        schema: Arc::clone(&union.schema),
    }))
}

/// The input under the union's names.
fn renamed(input: &Arc<LogicalPlan>, union: &Union) -> Result<LogicalPlan> {
    if input.schema() == &union.schema {
        return Ok(input.as_ref().clone());
    }
    let named = input.schema().columns().into_iter().zip(union.schema.iter());
    let named = named
        .map(|(column, (qualifier, field))| Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()));
    let (named, schema) = (named.collect(), Arc::clone(&union.schema));
    Projection::try_new_with_schema(named, Arc::clone(input), schema).map(LogicalPlan::Projection)
}
