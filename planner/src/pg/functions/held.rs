//! Values of parameters in a plan. Arrays and records of enums are no literals there: a literal is shown by its Arrow type, and
//! that of an enum says a zone that there is not.

use super::enums::holds_enums;
use super::json::is_json;
use super::set_keys;
use crate::pg::semantics::resolve::is_blank;
use crate::pg::types::type_oid;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::metadata::{FieldMetadata, ScalarAndMetadata};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ParamValues, Result, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tenon_storage::SqlType;

/// A plan with values in place of its parameters.
pub(crate) fn with_values(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let plan = set_keys::below(plan)?;
    let plan = match values.iter().any(|value| holds_enums(&value.data_type())) {
        true => with_held(plan, values)?,
        false => plan,
    };
    // What only a field says of a type, a literal says by its metadata.
    let fields = plan.get_parameter_fields()?;
    let told = values.iter().enumerate().map(|(at, value)| {
        let field = fields.get(&format!("${}", at + 1)).and_then(Option::as_ref);
        let is_bpchar = |field: &FieldRef| match SqlType::from_field(field) {
            Some(SqlType::Array(of)) => is_blank(of.element()),
            of => of.is_some_and(is_blank),
        };
        let field = field.filter(|field| type_oid(field).is_some() || is_json(field) || is_bpchar(field));
        ScalarAndMetadata::new(value.clone(), field.map(|field| FieldMetadata::new_from_field(field)))
    });
    replaced(plan, &ParamValues::List(told.collect()))
}

/// As DataFusion does it, but for the columns of VALUES: those keep their types, which were found with all rows in view.
fn replaced(plan: LogicalPlan, values: &ParamValues) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let schema = node.schema().clone();
        let kept = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let (expr, has_any) = expr.infer_placeholder_types(&schema)?;
            if !has_any {
                return Ok(Transformed::no(expr));
            }
            let name = kept.save(&expr);
            let expr = expr.transform_up(|expr| match expr {
                Expr::Placeholder(Placeholder { id, .. }) => {
                    let (value, metadata) = values.get_placeholders_with_values(&id)?.into_inner();
                    Ok(Transformed::yes(Expr::Literal(value, metadata)))
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?
        .map_data(|node| match node {
            LogicalPlan::Values(rows) if are_of_their_columns(&rows)? => Ok(LogicalPlan::Values(rows)),
            LogicalPlan::Values(rows) => LogicalPlanBuilder::values(rows.values)?.build(),
            node => node.recompute_schema(),
        })
    })
    .data()
}

fn are_of_their_columns(rows: &Values) -> Result<bool> {
    let none = DFSchema::empty();
    for row in &rows.values {
        for (cell, column) in row.iter().zip(rows.schema.fields()) {
            let (_, own) = cell.to_field(&none)?;
            if own.data_type() != column.data_type() || own.is_nullable() && !column.is_nullable() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn with_held(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let held = |expr: Expr| {
        let Expr::Placeholder(Placeholder { id, .. }) = &expr else {
            return Ok(Transformed::no(expr));
        };
        let at = id.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let value = at.and_then(|at| values.get(at.checked_sub(1)?));
        match value.filter(|value| holds_enums(&value.data_type())) {
            Some(value) => {
                let function = Held {
                    name: format!("\u{1}held{id}"),
                    value: value.clone(),
                    signature: Signature::nullary(Volatility::Volatile),
                };
                let call = Arc::new(ScalarUDF::new_from_impl(function)).call(Vec::new());
                Ok(Transformed::yes(call))
            }
            None => Ok(Transformed::no(expr)),
        }
    };
    plan.transform_up_with_subqueries(|node| {
        let kept = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = kept.save(&expr);
            Ok(expr.transform_up(held)?.update_data(|expr| name.restore(expr)))
        })?
        .map_data(LogicalPlan::recompute_schema)
    })
    .data()
}

struct Held {
    name: String,
    value: ScalarValue,
    signature: Signature,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value
    }
}

impl Eq for Held {}

impl Hash for Held {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Held {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(&self.name, self.value.data_type(), true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}
