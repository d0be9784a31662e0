//! Aggregates whose result types or digits differ from DataFusion's.

mod average;
pub(crate) mod single;
mod sum;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, WindowFunction, WindowFunctionDefinition,
};
use datafusion::logical_expr::{AggregateUDF, Expr};
use std::sync::Arc;

pub(super) fn functions() -> Vec<AggregateUDF> {
    vec![sum::udaf(), average::udaf()]
}

/// What computes a call whose arguments are coerced; None: the function itself.
fn lowered(
    function: &AggregateUDF,
    params: &mut AggregateFunctionParams,
    schema: &DFSchema,
) -> Result<Option<Arc<AggregateUDF>>> {
    match function.name() {
        "sum" => sum::lower(params, schema),
        "avg" => average::lower(params, schema),
        _ => Ok(None),
    }
}

pub(crate) fn lower(mut call: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let lowered = lowered(&call.func, &mut call.params, schema)?;
    let found = lowered.is_some();
    if let Some(function) = lowered {
        call.func = function;
    }
    Ok(Transformed::new_transformed(Expr::AggregateFunction(call), found))
}

pub(crate) fn lower_window(mut call: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let WindowFunctionDefinition::AggregateUDF(function) = &call.fun else {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    };
    // The arguments of a window function have parameters of another type; those that matter here are the same.
    let mut params = AggregateFunctionParams {
        args: call.params.args.clone(),
        distinct: call.params.distinct,
        filter: None,
        order_by: Vec::new(),
        null_treatment: None,
    };
    let Some(function) = lowered(function, &mut params, schema)? else {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    };
    call.params.args = params.args;
    call.fun = WindowFunctionDefinition::AggregateUDF(function);
    Ok(Transformed::yes(Expr::WindowFunction(call)))
}
