//! Aggregates over distinct values, beside others, in plans that go through files.
//!
//! A set of values that is kept for each group cannot go through a file. So the rows are sorted by group and value, each
//! value's first row is numbered 1, and the aggregate takes these rows alone: a plain one, beside whatever others.

use super::windows::unnamed;
use crate::pg::numeric::compare::key;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, FieldMetadata};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, col, lit,
};
use datafusion::optimizer::OptimizerConfig;
use std::sync::Arc;
use tenon_storage::types::NUMERIC;

/// The aggregation without DISTINCT; None where that is left as it is.
pub(crate) fn without_distinct(aggregate: &Aggregate, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let Aggregate {
        input,
        group_expr,
        aggr_expr,
        schema,
        ..
    } = aggregate;
    let sets = group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    if sets || !aggr_expr.iter().any(|call| distinct(call).is_some()) {
        return Ok(None);
    }
    // What is computed twice must come to the same.
    let evaluated = group_expr.iter().chain(aggr_expr);
    if evaluated.into_iter().any(Expr::is_volatile) {
        return Ok(None);
    }
    let mut numbers: Vec<(Vec<Expr>, String)> = Vec::new();
    let mut rows = Arc::unwrap_or_clone(Arc::clone(input));
    let mut calls = Vec::with_capacity(aggr_expr.len());
    for call in aggr_expr {
        let Some(found) = distinct(call) else {
            calls.push(call.clone());
            continue;
        };
        let params = &found.params;
        let values = params.args.iter().chain(params.filter.as_deref());
        let values = values.filter(|value| !matches!(value, Expr::Literal(..)));
        let schema = rows.schema();
        let values = values.map(|value| without_cast(value, schema));
        let values = values.map(|value| match is_numeric(value, schema) {
            true => key(value.clone()),
            false => value.clone(),
        });
        let keys = group_expr.iter().cloned().chain(values);
        let keys = keys.map(|key| sorted_alike(&key, schema));
        let keys: Vec<Expr> = keys.collect::<Result<_>>()?;
        let known = numbers.iter().find(|(known, _)| *known == keys);
        let number = match known {
            Some((_, number)) => number.clone(),
            None => {
                let number = config.alias_generator().next("__number");
                let window = row_number().partition_by(keys.clone()).build()?.alias(&number);
                rows = LogicalPlanBuilder::from(rows).window([window])?.build()?;
                numbers.push((keys, number.clone()));
                number
            }
        };
        let first = col(number).eq(lit(1u64));
        let filter = match &params.filter {
            Some(filter) => filter.as_ref().clone().and(first),
            None => first,
        };
        // Casts are no part of a name, by which two of these would be one.
        let made = Expr::AggregateFunction(AggregateFunction {
            func: Arc::clone(&found.func),
            params: AggregateFunctionParams {
                distinct: false,
                filter: Some(Box::new(filter)),
                ..params.clone()
            },
        });
        calls.push(made.alias(config.alias_generator().next("__distinct")));
    }
    let plain = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(rows), group_expr.clone(), calls)?);
    // Under the names that it had.
    let named = plain.schema().columns().into_iter().zip(schema.iter());
    let named = named.map(|(column, (qualifier, field))| {
        let same = column.relation.as_ref() == qualifier && column.name == *field.name();
        match same {
            true => Expr::Column(column),
            false => Expr::Column(column).alias_qualified_with_metadata(
                qualifier.cloned(),
                field.name(),
                Some(FieldMetadata::from(field.as_ref())),
            ),
        }
    });
    let named: Vec<Expr> = named.collect();
    LogicalPlanBuilder::from(plain).project(named)?.build().map(Some)
}

/// Whether a value is a numeric, which may be alike where its bytes are not.
pub(crate) fn is_numeric(value: &Expr, rows: &DFSchema) -> bool {
    value.get_type(rows).is_ok_and(|of| of == NUMERIC)
}

/// What a cast was made of that keeps all integers apart: `sum` and `count` of one column share its numbers.
fn without_cast<'a>(value: &'a Expr, rows: &DFSchema) -> &'a Expr {
    if let Expr::Cast(cast) = value
        && let (Ok(from), Ok(to)) = (cast.expr.get_type(rows), value.get_type(rows))
        && from.is_signed_integer()
        && matches!(to, DataType::Int64 | DataType::Decimal128(38, 0))
    {
        return without_cast(&cast.expr, rows);
    }
    value
}

/// A sort tells floats apart that are equal: the two zeros.
pub(super) fn sorted_alike(key: &Expr, rows: &DFSchema) -> Result<Expr> {
    Ok(match key.get_type(rows)? {
        DataType::Float32 => key.clone() + lit(0.0f32),
        DataType::Float64 => key.clone() + lit(0.0f64),
        _ => key.clone(),
    })
}

/// An aggregate over distinct values.
pub(crate) fn distinct(call: &Expr) -> Option<&AggregateFunction> {
    match unnamed(call) {
        Expr::AggregateFunction(call) if call.params.distinct => Some(call),
        _ => None,
    }
}
