//! Arrays of one type as arrays of another: each item is cast as it would be alone.

use super::construct::in_arrays;
use super::leaf;
use super::lists::{Builder, Lists, list_type};
use crate::pg::error::SqlError;
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::create_physical_expr;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tenon_storage::SqlType;

/// A cast of an array whose item's cast means something of PostgreSQL's own. `rewrite` gives the meaning of a cast of one
/// value.
pub(crate) fn cast_items(
    expr: Expr,
    from: &DataType,
    to: &FieldRef,
    rewrite: impl Fn(Cast, &DFSchema) -> Result<Expr>,
) -> Result<Expr> {
    let item = Field::new("item", leaf(from).0.clone(), true);
    let schema = DFSchema::from_unqualified_fields(vec![item].into(), Default::default())?;
    let wanted: FieldRef = match SqlType::from_field(to) {
        Some(SqlType::Array(of)) => Arc::new(of.element().field("item", true)),
        _ => Arc::new(Field::new("item", leaf(to.data_type()).0.clone(), true)),
    };
    let target = leaf(to.data_type()).0.clone();
    let one = Cast::new_from_field(Box::new(Expr::Column(Column::from_name("item"))), wanted);
    let one = rewrite(one, &schema)?;
    let function = CastItems {
        to: to.clone(),
        target,
        schema,
        one,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Ok(Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr]))
}

#[derive(Debug)]
struct CastItems {
    to: FieldRef,
    target: DataType,
    schema: DFSchema,
    one: Expr,
    signature: Signature,
}

impl PartialEq for CastItems {
    fn eq(&self, other: &Self) -> bool {
        self.to == other.to && self.schema == other.schema
    }
}

impl Eq for CastItems {}

impl Hash for CastItems {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to.hash(state);
    }
}

impl ScalarUDFImpl for CastItems {
    fn name(&self) -> &str {
        "cast_items"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!(
            "cast_items({}, {})",
            args[0].schema_name(),
            self.to.data_type()
        ))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(
            self.name(),
            self.to.data_type().clone(),
            args.arg_fields[0].is_nullable(),
        );
        Ok(Arc::new(field.with_metadata(self.to.metadata().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // By the conventions of the session that runs it.
        let mut props = ExecutionProps::new();
        props.config_options = Some(Arc::clone(&args.config_options));
        let one = create_physical_expr(&self.one, &self.schema, &props, &PhysicalPlanningContext::default())?;
        in_arrays(&args.args, args.number_rows, |arrays, rows| {
            let lists = Lists::of(&arrays[0])?;
            let depth = leaf(self.to.data_type()).1;
            let schema = Arc::clone(self.schema.inner());
            let batch = RecordBatch::try_new(schema, vec![lists.items.clone()])?;
            let items = one.evaluate(&batch)?.into_array(lists.items.len())?;
            let mut out = Builder::new(rows);
            for row in 0..rows {
                if lists.is_null(row) {
                    out.null();
                    continue;
                }
                let sizes = lists.sizes(row);
                if !sizes.is_empty() && sizes.len() != depth {
                    let message = format!("an array of {} dimensions as one of {depth}", sizes.len());
                    return Err(to_datafusion(SqlError::unsupported(message)));
                }
                out.pick_all(0, lists.span(row));
                out.row(sizes);
            }
            let cast = out.finish(&[&items], &self.target, depth)?;
            debug_assert_eq!(*cast.data_type(), list_type(&self.target, depth));
            Ok(cast)
        })
    }
}
