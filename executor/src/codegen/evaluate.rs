//! Expressions evaluated on the host.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, Result};
use datafusion::logical_expr::Volatility;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef, ScalarFunctionExpr};

use super::types::Translated;

/// The columns of a filter that an expression reads.
pub enum Reads {
    Nothing,
    One(JoinSide),
    Both,
}

impl Reads {
    pub fn of(expr: &PhysicalExprRef, inputs: &[(ArrayRef, JoinSide)]) -> Self {
        let mut sides = collect_columns(expr)
            .into_iter()
            .filter_map(|column| Some(inputs.get(column.index())?.1));
        let Some(first) = sides.next() else {
            return Reads::Nothing;
        };
        match sides.all(|side| side == first) {
            true => Reads::One(first),
            false => Reads::Both,
        }
    }
}

/// Whether an expression has the same value for the same inputs in every execution of its plan.
pub fn is_immutable(expr: &PhysicalExprRef) -> bool {
    let changes = |expr: &PhysicalExprRef| {
        expr.downcast_ref::<ScalarSubqueryExpr>().is_some()
            || expr
                .downcast_ref::<ScalarFunctionExpr>()
                .is_some_and(|call| call.fun().signature().volatility != Volatility::Immutable)
    };
    !expr.exists(|expr| Ok(changes(expr))).unwrap_or(true)
}

/// The values of an expression of one side, or the one value of an expression of none. An error on any row refuses: the
/// host may never evaluate that row.
pub fn evaluated(expr: &PhysicalExprRef, schema: &SchemaRef, inputs: &[ArrayRef]) -> Translated<ArrayRef> {
    if datafusion::physical_expr_common::physical_expr::is_volatile(expr) {
        return Err("a volatile function".into());
    }
    evaluate(expr, schema, inputs).map_err(|error| format!("a part that fails on some row ({error})"))
}

fn evaluate(expr: &PhysicalExprRef, schema: &SchemaRef, inputs: &[ArrayRef]) -> Result<ArrayRef> {
    let mut indices: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
    indices.sort_unstable();
    let columns: Vec<ArrayRef> = indices.iter().map(|&index| Arc::clone(&inputs[index])).collect();
    let fields = indices.iter().zip(&columns).map(|(&index, column)| {
        let field = schema.field(index);
        Field::new(field.name(), column.data_type().clone(), true).with_metadata(field.metadata().clone())
    });
    let batch_schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let rows = columns.first().map_or(1, |column| column.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(batch_schema, columns, &options)?;
    let moved = Arc::clone(expr)
        .transform_up(|node| {
            let Some(column) = node.downcast_ref::<Column>() else {
                return Ok(Transformed::no(node));
            };
            let at = indices.binary_search(&column.index()).unwrap_or(0);
            let moved: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), at));
            Ok(Transformed::yes(moved))
        })
        .data()?;
    moved.evaluate(&batch)?.into_array(rows)
}
