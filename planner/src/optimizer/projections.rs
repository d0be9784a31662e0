//! Projections: column picking moves into the join below, expressions take their fast forms, and what DataFusion pushes down.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, remove_unnecessary_projections, try_embed_projection};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use tenon_executor::expr::accelerate;
use tenon_executor::join::JoinExec;

pub fn replace(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let predicate = accelerate(Arc::clone(filter.predicate()))?;
        if Arc::ptr_eq(&predicate, filter.predicate()) {
            return Ok(plan);
        }
        let builder = FilterExecBuilder::from(filter).with_predicate(predicate);
        return Ok(Arc::new(builder.build()?));
    }
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return Ok(plan);
    };
    let mut exprs: Vec<ProjectionExpr> = projection.expr().to_vec();
    let mut input = Arc::clone(projection.input());
    if let Some(join) = input.downcast_ref::<JoinExec>() {
        let picked: Option<Vec<usize>> = exprs
            .iter()
            .map(|e| e.expr.downcast_ref::<Column>().map(Column::index))
            .collect();
        if let Some(columns) = picked
            && exprs
                .iter()
                .zip(&columns)
                .all(|(e, &c)| e.alias == *join.schema().field(c).name())
        {
            return Ok(Arc::new(join.with_output(&columns)));
        }
        // The join puts out only what the expressions read.
        let mut used = vec![];
        for e in &exprs {
            e.expr.apply(|node| {
                if let Some(column) = node.downcast_ref::<Column>()
                    && !used.contains(&column.index())
                {
                    used.push(column.index());
                }
                Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
            })?;
        }
        if used.len() < join.schema().fields().len() {
            input = Arc::new(join.with_output(&used));
            for e in &mut exprs {
                e.expr = Arc::clone(&e.expr)
                    .transform(|node| {
                        let found = node.downcast_ref::<Column>().and_then(|column| {
                            let at = used.iter().position(|&c| c == column.index())?;
                            Some(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>)
                        });
                        Ok(found.map_or(Transformed::no(node), Transformed::yes))
                    })?
                    .data;
            }
        }
    }
    let mut changed = !Arc::ptr_eq(&input, projection.input());
    for e in &mut exprs {
        let own = accelerate(Arc::clone(&e.expr))?;
        changed |= !Arc::ptr_eq(&own, &e.expr);
        e.expr = own;
    }
    if !changed {
        return Ok(plan);
    }
    // What a union's columns are declared as may not be what the expressions are.
    let schema = projection.schema();
    ProjectionExec::try_new_with_schema_metadata(exprs, input, &schema).map(|plan| Arc::new(plan) as _)
}

/// `ProjectionPushdown` (DataFusion 55.2) puts a projection below a filter that picks columns itself, and takes the places
/// that the projection reads, which are those of the picked columns, for places in what the filter reads.
#[derive(Debug)]
pub struct PushDownProjections;

impl PhysicalOptimizerRule for PushDownProjections {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| {
            let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
                return Ok(Transformed::no(plan));
            };
            match projection.input().downcast_ref::<FilterExec>() {
                Some(filter) if filter.projection().is_some() && !is_identity(projection) => {
                    let embedded = try_embed_projection(projection, filter)?;
                    Ok(embedded.map_or_else(|| Transformed::no(Arc::clone(&plan)), Transformed::yes))
                }
                _ => remove_unnecessary_projections(plan),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "ProjectionPushdown"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_identity(projection: &ProjectionExec) -> bool {
    let mut exprs = projection.expr().iter().enumerate();
    projection.schema() == projection.input().schema()
        && exprs.all(|(at, e)| {
            e.expr
                .downcast_ref::<Column>()
                .is_some_and(|column| column.index() == at)
        })
}
