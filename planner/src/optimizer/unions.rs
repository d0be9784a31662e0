//! DataFusion's rules of unions: the one that takes what has no rows out of a plan, where it can, and the one that makes one
//! union of unions in each other.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::optimize_unions::OptimizeUnions;
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

/// `OptimizeUnions` (DataFusion 55.2) puts a projection of a union over each of the union's inputs as it is, though the
/// columns of inputs after the first have names of their own.
#[derive(Debug, Default)]
pub struct UnionsOfUnions(OptimizeUnions);

impl OptimizerRule for UnionsOfUnions {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Union(Union { inputs, schema }) if inputs.len() > 1 => {
                Ok(Transformed::yes(LogicalPlan::Union(flat(inputs, schema)?)))
            }
            LogicalPlan::Distinct(Distinct::All(input)) if matches!(*input, LogicalPlan::Union(_)) => {
                let LogicalPlan::Union(Union { inputs, schema }) = Arc::unwrap_or_clone(input) else {
                    return internal_err!("a union is expected");
                };
                let inputs = inputs.into_iter().map(|input| match Arc::unwrap_or_clone(input) {
                    LogicalPlan::Distinct(Distinct::All(input)) => input,
                    input => Arc::new(input),
                });
                let union = LogicalPlan::Union(flat(inputs.collect(), schema)?);
                Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::All(Arc::new(union)))))
            }
            plan => self.0.rewrite(plan, config),
        }
    }
}

/// The union of all that its inputs are unions of.
fn flat(inputs: Vec<Arc<LogicalPlan>>, schema: Arc<DFSchema>) -> Result<Union> {
    let mut found = Vec::with_capacity(inputs.len());
    for input in inputs {
        match input.as_ref() {
            LogicalPlan::Union(inner) => found.extend(inner.inputs.iter().cloned()),
            LogicalPlan::Projection(projection) => match projection.input.as_ref() {
                LogicalPlan::Union(inner) if !has_subquery(projection)? => {
                    for input in &inner.inputs {
                        found.push(Arc::new(projected(projection, &inner.schema, input)?));
                    }
                }
                _ => found.push(input),
            },
            _ => found.push(input),
        }
    }
    let inputs = found.into_iter().map(|input| {
        let input = coerce_plan_expr_for_schema(Arc::unwrap_or_clone(input), &schema)?;
        Ok(Arc::new(input))
    });
    Ok(Union {
        inputs: inputs.collect::<Result<_>>()?,
        schema,
    })
}

/// Whether an expression may read the projection's rows by other ways than by its columns.
fn has_subquery(projection: &Projection) -> Result<bool> {
    let mut found = false;
    for expr in &projection.expr {
        expr.apply(|expr| {
            found |= matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(found)
}

/// The projection of a union over one of its inputs.
fn projected(projection: &Projection, union: &DFSchema, input: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let columns = input.schema().columns();
    let exprs = projection.expr.iter().zip(projection.schema.iter());
    let exprs = exprs.map(|(expr, (qualifier, field))| {
        let own = expr.clone().transform(|expr| match &expr {
            Expr::Column(column) => Ok(Transformed::yes(Expr::Column(
                columns[union.index_of_column(column)?].clone(),
            ))),
            _ => Ok(Transformed::no(expr)),
        });
        Ok(own.data()?.unalias().alias_qualified(qualifier.cloned(), field.name()))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let schema = Arc::clone(&projection.schema);
    Projection::try_new_with_schema(exprs, Arc::clone(input), schema).map(LogicalPlan::Projection)
}
