//! The schema of a UNION whose inputs have changed: what stands in place of an operator may be null where the operator
//! could not be, and so may the union then.

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::logical_expr::{LogicalPlan, Union};
use std::sync::Arc;

/// The plan with unions that may be null wherever an input may be.
pub(super) fn renewed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let stale = plan.exists(|node| Ok(matches!(node, LogicalPlan::Union(union) if of_inputs(union)?.is_some())))?;
    if !stale {
        return Ok(plan);
    }
    let renewed = plan.transform_up(|node| match node {
        LogicalPlan::Union(union) => match of_inputs(&union)? {
            Some(schema) => Ok(Transformed::yes(LogicalPlan::Union(Union {
                inputs: union.inputs,
                schema: Arc::new(schema),
            }))),
            None => Ok(Transformed::no(LogicalPlan::Union(union))),
        },
        // Above a union, nodes have its columns.
        other => other.recompute_schema().map(Transformed::yes),
    })?;
    Ok(renewed.data)
}

/// The schema that the union's inputs ask for; None: the one that it has.
fn of_inputs(union: &Union) -> Result<Option<DFSchema>> {
    let may_be_null = |at: usize| {
        let mut inputs = union.inputs.iter();
        inputs.any(|input| input.schema().fields().get(at).is_some_and(|field| field.is_nullable()))
    };
    let own = &union.schema;
    let stale = |at: usize, field: &FieldRef| !field.is_nullable() && may_be_null(at);
    if !own.fields().iter().enumerate().any(|(at, field)| stale(at, field)) {
        return Ok(None);
    }
    let fields: Vec<(Option<TableReference>, FieldRef)> = own
        .iter()
        .enumerate()
        .map(|(at, (qualifier, field))| {
            let nullable = field.is_nullable() || may_be_null(at);
            let field = Arc::new(field.as_ref().clone().with_nullable(nullable));
            (qualifier.cloned(), field)
        })
        .collect();
    let metadata = own.as_arrow().metadata().clone();
    DFSchema::new_with_metadata(fields, metadata).map(Some)
}
