//! Aggregates whose result types, digits or accounts of memory differ from DataFusion's.

#[cfg(test)]
mod accounts;
mod average;
mod bits;
mod collect;
mod exact;
mod extremes;
mod floats;
mod intervals;
mod moments;
pub(crate) mod names;
pub(crate) mod planner;
mod real;
mod regression;
pub(crate) mod single;
mod sum;
mod variance;

use super::window;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::semantics::fields;
use datafusion::arrow::datatypes::{DataType, FieldRef, IntervalUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, WindowFunction, WindowFunctionDefinition,
};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, Expr, SortExpr};
use std::sync::Arc;
use tenon_storage::bits::BITS;

pub(super) fn functions() -> Vec<AggregateUDF> {
    let mut functions = vec![sum::udaf(), average::udaf()];
    functions.extend(bits::functions());
    functions.extend(variance::functions());
    functions.extend(collect::functions());
    functions.extend(regression::functions());
    functions
}

fn fail_out_of_range(message: &str) -> DataFusionError {
    to_datafusion(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, message))
}

/// The arguments of the function of another type that computes a call: all are of that type there, and so is the result.
fn of_type<R>(args: &AccumulatorArgs, data_type: &DataType, of: impl FnOnce(AccumulatorArgs) -> R) -> R {
    let retyped = |field: &FieldRef| -> FieldRef { Arc::new(field.as_ref().clone().with_data_type(data_type.clone())) };
    let fields: Vec<FieldRef> = args.expr_fields.iter().map(retyped).collect();
    of(AccumulatorArgs {
        return_field: retyped(&args.return_field),
        schema: args.schema,
        ignore_nulls: args.ignore_nulls,
        order_bys: args.order_bys,
        is_reversed: args.is_reversed,
        name: args.name,
        is_distinct: args.is_distinct,
        exprs: args.exprs,
        expr_fields: &fields,
    })
}

/// The type in which `sum` and `avg` take their one argument: integers in the width that PostgreSQL knows, decimals in
/// 128 bits or more, floats in 64.
fn exact_argument(function: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    let [one] = types else {
        return plan_err!("{function} takes one argument");
    };
    Ok(vec![match one {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => DataType::Int16,
        DataType::UInt16 | DataType::Int32 => DataType::Int32,
        DataType::UInt32 | DataType::Int64 | DataType::UInt64 => DataType::Int64,
        DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null => DataType::Float64,
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Duration(_) | DataType::LargeBinary => {
            one.clone()
        }
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        other => return plan_err!("{function} does not take {other}"),
    }])
}

/// What computes a call whose arguments are coerced; None: the function itself.
fn lowered(
    function: &AggregateUDF,
    params: &mut AggregateFunctionParams,
    schema: &DFSchema,
) -> Result<Option<Arc<AggregateUDF>>> {
    if let [argument] = params.args.as_slice()
        && matches!(fields::data_type(argument, schema)?, DataType::Interval(_))
        && let Some(found) = intervals::named(function.name())
    {
        return Ok(Some(found));
    }
    match function.name() {
        "bit_and" | "bit_or" | "bit_xor" => match params.args.as_slice() {
            [argument] if fields::data_type(argument, schema)? != BITS => Ok(bits::of_integers(function.name())),
            _ => Ok(None),
        },
        "min" | "max" => match params.args.as_slice() {
            [argument] if fields::data_type(argument, schema)?.is_floating() => {
                Ok(extremes::of_floats(function.name()))
            }
            _ => Ok(None),
        },
        "sum" => sum::lower(params, schema),
        "avg" => average::lower(params, schema),
        name => variance::lower(name, params, schema),
    }
}

/// The function that computes a call over coerced arguments of these types, which it may change.
pub(crate) fn for_types(function: &Arc<AggregateUDF>, fields: &mut [FieldRef]) -> Arc<AggregateUDF> {
    let types = fields.iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    if let [DataType::Interval(_)] = types.as_slice()
        && let Some(found) = intervals::named(function.name())
    {
        return found;
    }
    match (function.name(), types.as_slice()) {
        ("sum", [DataType::Int16 | DataType::Int32]) => {
            let wide = fields[0].as_ref().clone().with_data_type(DataType::Int64);
            fields[0] = Arc::new(wide);
            sum_udaf()
        }
        ("sum", [DataType::Float32]) => real::sum(),
        (name, [DataType::Float32 | DataType::Float64]) if extremes::of_floats(name).is_some() => {
            extremes::of_floats(name).unwrap_or_else(|| Arc::clone(function))
        }
        (name, [other]) if *other != BITS && bits::of_integers(name).is_some() => {
            bits::of_integers(name).unwrap_or_else(|| Arc::clone(function))
        }
        ("sum", [DataType::LargeBinary]) => moments::udaf("sum", moments::Kind::Sum),
        ("avg", [DataType::LargeBinary]) => moments::udaf("avg", moments::Kind::Average),
        ("sum", [DataType::Float64]) => floats::sum(),
        ("avg", [DataType::Float64]) => floats::average(),
        ("sum", [other]) if *other != DataType::Int64 => sum_udaf(),
        ("avg", [other]) if !average::is_exact(other) => avg_udaf(),
        _ => Arc::clone(function),
    }
}

/// `min` and `max` of arrays are the first ones in order, which DataFusion's do not know.
fn of_arrays(call: &mut AggregateFunction, schema: &DFSchema) -> Result<bool> {
    let ascending = match call.func.name() {
        "min" => true,
        "max" => false,
        _ => return Ok(false),
    };
    let [value] = call.params.args.as_slice() else {
        return Ok(false);
    };
    if !matches!(fields::data_type(value, schema)?, DataType::List(_)) {
        return Ok(false);
    }
    // NULLs within arrays are the greatest, those that are no arrays come last all the same.
    let mut order = vec![SortExpr::new(value.clone(), ascending, !ascending)];
    if !ascending {
        order.insert(0, SortExpr::new(value.clone().is_null(), true, false));
    }
    call.params.order_by = order;
    call.params.distinct = false;
    call.func = first_value_udaf();
    Ok(true)
}

pub(crate) fn lower(mut call: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    planner::check_types(&call, schema)?;
    if of_arrays(&mut call, schema)? {
        return Ok(Transformed::yes(Expr::AggregateFunction(call)));
    }
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
    let framed = window::lower(call.clone(), schema)?;
    if framed.transformed {
        return Ok(framed);
    }
    let Some(function) = lowered(function, &mut params, schema)? else {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    };
    call.params.args = params.args;
    call.fun = WindowFunctionDefinition::AggregateUDF(function);
    Ok(Transformed::yes(Expr::WindowFunction(call)))
}
