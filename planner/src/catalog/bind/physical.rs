//! Expressions that are evaluated outside of plans: conditions and keys of tables, defaults, bounds of partitions.

use super::Binder;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::functions::argument;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

impl Binder {
    /// An expression over the columns of `schema`, with PostgreSQL's meaning.
    pub(crate) fn physical(&self, expr: Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
        let expr = argument::everywhere(expr).map_err(|error| from_datafusion(&error))?;
        let settings = &self.facts.settings;
        let state = self.services.under(settings.join_options(), settings.conventions(None));
        let schema = Arc::new(schema.clone());
        let rows = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: false,
            schema: schema.clone(),
        });
        let plan = LogicalPlanBuilder::from(rows)
            .project([expr])
            .and_then(LogicalPlanBuilder::build)
            .and_then(|plan| {
                state
                    .analyzer()
                    .execute_and_check(plan, state.config_options(), |_, _| {})
            })
            .map_err(|error| from_datafusion(&error))?;
        let LogicalPlan::Projection(projection) = plan else {
            return Err(SqlError::unsupported("such an expression in this place"));
        };
        let expr = projection.expr.into_iter().next();
        let expr = expr.ok_or_else(|| SqlError::internal("an expression is gone"))?;
        let context = SimplifyContext::builder()
            .with_config_options(state.config_options().clone())
            .with_schema(schema.clone())
            .build();
        let expr = expr
            .transform_up(|expr| as_conditions(expr, &context))
            .map_err(|error| from_datafusion(&error))?;
        // The state's own way would coerce its types once more.
        let (props, context) = (state.execution_props(), PhysicalPlanningContext::default());
        create_physical_expr(&expr.data, &schema, props, &context).map_err(|error| from_datafusion(&error))
    }

    /// The value of an expression over no columns, as an array of one.
    pub(crate) fn constant(&self, expr: Expr) -> Result<ArrayRef> {
        let planned = self.physical(expr, &DFSchema::empty())?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
            .map_err(|error| from_arrow(&error))?;
        planned
            .evaluate(&row)
            .and_then(|value| value.into_array(1))
            .map_err(|error| from_datafusion(&error))
    }
}

/// Functions that do not compute all of their arguments, as `coalesce`, are evaluated as CASE alone: the optimizer would put it in
/// their place, which does not see this expression.
fn as_conditions(expr: Expr, context: &SimplifyContext) -> PlanResult<Transformed<Expr>> {
    match expr {
        Expr::ScalarFunction(mut call) if call.func.short_circuits() => {
            let args = std::mem::take(&mut call.args);
            Ok(match call.func.simplify(args, context)? {
                ExprSimplifyResult::Simplified(expr) => Transformed::yes(expr),
                ExprSimplifyResult::Original(args) => {
                    call.args = args;
                    Transformed::no(Expr::ScalarFunction(call))
                }
            })
        }
        other => Ok(Transformed::no(other)),
    }
}
