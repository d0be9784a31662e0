//! VALUES with subqueries. DataFusion computes VALUES while it plans, when no subquery has run yet: here the rows keep
//! NULLs in their places, and a projection above fills them in by the number of the row.

use super::is_subquery;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::{Case, Expr, LogicalPlan, LogicalPlanBuilder, lit};
use std::collections::HashMap;
use std::sync::Arc;

const NUMBER: &str = "number of the row";

/// The projection that gives the same rows.
pub(super) fn filled_in(values: Values) -> Result<LogicalPlan> {
    let Values { schema, mut values } = values;
    let mut columns: Vec<Expr> = schema.fields().iter().map(|field| column(field.name())).collect();
    for (at, field) in schema.fields().iter().enumerate() {
        let mut cases = vec![];
        for (number, row) in values.iter_mut().enumerate() {
            if row[at].exists(|expr| Ok(is_subquery(expr)))? {
                let place = Expr::Literal(ScalarValue::try_from(field.data_type())?, None);
                let expr = std::mem::replace(&mut row[at], place);
                cases.push((Box::new(lit(number as i64)), Box::new(expr)));
            }
        }
        if !cases.is_empty() {
            let other = std::mem::take(&mut columns[at]);
            let case = Case::new(Some(Box::new(column(NUMBER))), cases, Some(Box::new(other)));
            columns[at] = Expr::Case(case).alias(field.name());
        }
    }
    for (number, row) in values.iter_mut().enumerate() {
        row.push(lit(number as i64));
    }
    let number = Arc::new(Field::new(NUMBER, DataType::Int64, false));
    let fields = schema
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true));
    let fields = fields.map(Arc::new).chain([number]).collect();
    let schema = Arc::new(DFSchema::from_unqualified_fields(fields, HashMap::new())?);
    LogicalPlanBuilder::new(LogicalPlan::Values(Values { schema, values }))
        .project(columns)?
        .build()
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}
