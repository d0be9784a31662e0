//! DataFusion's rule that takes what has no rows out of a plan, where it can.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// `PropagateEmptyRelation` (DataFusion 55.2) fails where one input of a union is left whose columns have other names than
/// the union's.
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
            LogicalPlan::Union(union) => match only_input(&union) {
                Some(input) => renamed(&input, &union).map(Transformed::yes),
                None => self.0.rewrite(LogicalPlan::Union(union), config),
            },
            plan => self.0.rewrite(plan, config),
        }
    }
}

/// The one input that may have rows, beside others.
fn only_input(union: &Union) -> Option<Arc<LogicalPlan>> {
    let is_empty = |plan: &LogicalPlan| matches!(plan, LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row);
    let mut left = union.inputs.iter().filter(|input| !is_empty(input));
    match (left.next(), left.next()) {
        (Some(input), None) if union.inputs.len() > 1 => Some(Arc::clone(input)),
        _ => None,
    }
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
