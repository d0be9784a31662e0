//! The columns of VALUES. DataFusion makes one type of what a column's rows have, by other rules than PostgreSQL's where dates
//! and timestamps stand beside points in time: what it has cast is taken back then.

use super::becoming::{become_of, becomes};
use super::neighbours::type_of_two;
use super::{Group, group, is_unknown, known, typed};
use crate::pg::types::planner::WRITTEN;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use std::sync::Arc;
use tenon_storage::SqlType;

pub(super) fn values(values: Values) -> Result<Transformed<LogicalPlan>> {
    let Values { schema, mut values } = values;
    let none = DFSchema::empty();
    let mut changed = false;
    let mut fields: Vec<_> = schema
        .iter()
        .map(|(qualifier, field)| (qualifier.cloned(), field.clone()))
        .collect();
    for (at, (_, field)) in fields.iter_mut().enumerate() {
        let types = values.iter().map(|row| known(written(&row[at]), &none));
        let types: Vec<Option<SqlType>> = types.collect();
        let moments = types.iter().flatten().all(|of| group(*of) == Group::Moment);
        let found = types
            .iter()
            .flatten()
            .copied()
            .reduce(|a, b| type_of_two(a, b).unwrap_or(a));
        let Some(wanted) = found.filter(|wanted| moments && types.iter().flatten().any(|own| becomes(*own, *wanted)))
        else {
            continue;
        };
        changed = true;
        for (row, own) in values.iter_mut().zip(types) {
            let expr = written(&row[at]).clone();
            row[at] = match own {
                // A NULL has the type that the column had.
                _ if matches!(&expr, Expr::Literal(value, _) if value.is_null()) => {
                    lit(ScalarValue::try_from(&wanted.data_type())?)
                }
                Some(own) if becomes(own, wanted) => become_of(expr, own, wanted),
                None if is_unknown(&expr) => typed(expr, wanted),
                _ => expr.cast_to(&wanted.data_type(), &none)?,
            };
        }
        let own = field.as_ref().clone().with_data_type(wanted.data_type());
        *field = Arc::new(own.with_metadata(wanted.field("", true).metadata().clone()));
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Values(Values { schema, values })));
    }
    let schema = Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?);
    Ok(Transformed::yes(LogicalPlan::Values(Values { schema, values })))
}

/// Strings of the form that their column has: what chooses among literals without a type gives them as these are.
pub(super) fn strings(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Values(Values { schema, mut values }) = plan else {
        return Ok(Transformed::no(plan));
    };
    let none = DFSchema::empty();
    let mut changed = false;
    for row in &mut values {
        for (cell, field) in row.iter_mut().zip(schema.fields()) {
            let (own, wanted) = (cell.get_type(&none)?, field.data_type());
            if own != *wanted && own.is_string() && wanted.is_string() {
                *cell = std::mem::take(cell).cast_to(wanted, &none)?;
                changed = true;
            }
        }
    }
    let values = LogicalPlan::Values(Values { schema, values });
    Ok(Transformed::new_transformed(values, changed))
}

/// The value before DataFusion has cast it.
fn written(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) if cast.field.name() != WRITTEN => &cast.expr,
        other => other,
    }
}
