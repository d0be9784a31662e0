//! Calls of aggregates that PostgreSQL refuses and DataFusion takes.

use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use crate::pg::types::type_name;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ExprSchemable;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr};
use std::sync::Arc;

const WRONG_OBJECT_TYPE: &str = "42809";

pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(Aggregates)
}

#[derive(Debug)]
struct Aggregates;

impl ExprPlanner for Aggregates {
    fn plan_aggregate(&self, call: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        let name = call.func.name();
        if name == "count" && call.args.is_empty() {
            let message = "count(*) must be used to call a parameterless aggregate function";
            return Err(fail(WRONG_OBJECT_TYPE, message));
        }
        if call.distinct && !call.order_by.iter().all(|key| call.args.contains(&key.expr)) {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            return Err(fail("42P10", message));
        }
        Ok(PlannerResult::Original(call))
    }
}

fn fail(state: &'static str, message: impl Into<String>) -> DataFusionError {
    to_datafusion(SqlError::new(SqlState(state), message))
}

/// `min` and `max` are not of all types that have an order.
pub(super) fn check_types(call: &AggregateFunction, schema: &DFSchema) -> Result<()> {
    let (name, [arg]) = (call.func.name(), call.params.args.as_slice()) else {
        return Ok(());
    };
    if !matches!(name, "min" | "max") {
        return Ok(());
    }
    let data_type = arg.get_type(schema)?;
    let unordered = matches!(
        data_type,
        DataType::Boolean
            | DataType::FixedSizeBinary(6 | 8 | 16)
            | DataType::Binary
            | DataType::BinaryView
            | DataType::Struct(_)
    );
    match unordered {
        true => Err(fail(
            "42883",
            format!("function {name}({}) does not exist", type_name(&data_type)),
        )),
        false => Ok(()),
    }
}
