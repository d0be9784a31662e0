//! The predicate of a conflict target: the parameters that it names, and whether it says what a partial index's does.

use super::parameters;
use crate::catalog::bind::Binder;
use crate::pg::error::Result;
use crate::pg::errors::from_datafusion;
use crate::pg::parse::inference::Element;
use crate::pg::parse::{parse_expression, parse_query};
use crate::pg::rewrite::rewrite;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::expressions::{BinaryExpr, CastExpr, IsNotNullExpr, Literal, lit};
use datafusion::sql::sqlparser::ast::{ConflictTarget, Statement};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenon_storage::{TableDefinition, quote};

/// Parameters that a statement's predicate names, with the types of all up to the last of them.
pub(super) struct Asked {
    pub named: BTreeSet<usize>,
    pub fields: Vec<FieldRef>,
}

/// The parameters that a conflict target's predicate names; None where it names none.
pub(super) fn asked(
    binder: &Binder,
    definition: &TableDefinition,
    target: Option<&ConflictTarget>,
    types: &[u32],
) -> Result<Option<Asked>> {
    let Some(ConflictTarget::Columns(names)) = target else {
        return Ok(None);
    };
    let Some(text) = names.iter().find_map(|name| match Element::of(name) {
        Element::Predicate(text) => Some(text),
        _ => None,
    }) else {
        return Ok(None);
    };
    let named = parameters::hints(&parse_expression(text)?)?.named;
    if named.is_empty() {
        return Ok(None);
    }
    let (schema, table) = (&definition.schema_name, &definition.name);
    let rows = format!(
        "SELECT FROM {}.{} WHERE {text}",
        quote::identifier(schema),
        quote::identifier(table)
    );
    let Some(mut query) = parse_query(&rows)? else {
        return Ok(None);
    };
    rewrite(query.as_mut());
    let statement = Statement::Query(query);
    let (_, fields) = parameters::plan(&binder.clone().trusted(), statement, types)?;
    Ok(Some(Asked { named, fields }))
}

/// A condition without what tells equal ones apart: names of types, casts to the same one, constants that are computed.
pub(super) fn plain(condition: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let each = |expr: Arc<dyn PhysicalExpr>| {
        if let [inner] = expr.children().as_slice()
            && expr.downcast_ref::<CastExpr>().is_some()
            && inner.data_type(schema)? == expr.data_type(schema)?
        {
            let inner = Arc::clone(inner);
            return Ok(Transformed::yes(inner));
        }
        let literal = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Literal>().is_some();
        let value = match expr.downcast_ref::<Literal>() {
            Some(own) => own.value().clone(),
            None if expr.downcast_ref::<CastExpr>().is_some() && expr.children().into_iter().all(literal) => {
                let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
                match expr.evaluate(&none) {
                    Ok(ColumnarValue::Scalar(value)) => value,
                    _ => return Ok(Transformed::no(expr)),
                }
            }
            None => return Ok(Transformed::no(expr)),
        };
        Ok(Transformed::yes(lit(value)))
    };
    let plain = condition.transform_up(each).map_err(|error| from_datafusion(&error))?;
    Ok(plain.data)
}

/// Whether rows of which `given` is true have `wanted` true, as far as is seen: each of its parts is one of the given ones, or
/// says that something is not NULL which a given one compares.
pub(super) fn implies(given: &Arc<dyn PhysicalExpr>, wanted: &Arc<dyn PhysicalExpr>) -> bool {
    let given = split_conjunction(given);
    let compares = |wanted: &Arc<dyn PhysicalExpr>| {
        given.iter().any(|given| {
            given.downcast_ref::<BinaryExpr>().is_some_and(|given| {
                given.op().supports_propagation() && (given.left() == wanted || given.right() == wanted)
            })
        })
    };
    split_conjunction(wanted).into_iter().all(|wanted| {
        given.contains(&wanted)
            || wanted
                .downcast_ref::<IsNotNullExpr>()
                .is_some_and(|wanted| compares(wanted.arg()))
    })
}
