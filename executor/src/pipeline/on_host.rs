//! Texts that the host makes of other columns, once it reads the rows: no kernel reads them, or none that makes texts.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};

use super::col::Col;
use super::flow::Flow;
use crate::expr::original;

/// Functions that make a text of any texts.
const FUNCTIONS: [&str; 13] = [
    "btrim",
    "coalesce",
    "concat",
    "concat_ws",
    "initcap",
    "lower",
    "ltrim",
    "nullif",
    "rtrim",
    "tenon_padded",
    "tenon_unpadded",
    "textcat",
    "upper",
];

/// What makes the values, of columns of its own.
pub struct OnHost {
    expr: PhysicalExprRef,
    pub columns: Vec<Col>,
    pub schema: SchemaRef,
}

impl OnHost {
    /// Of the row at hand; None: it makes no text, or might fail, which only rows of the result may.
    pub fn of(flow: &Flow, expr: &PhysicalExprRef) -> Option<Self> {
        let schema = &flow.translator.schema;
        let is_text = expr.data_type(schema).is_ok_and(|own| own == DataType::Utf8View);
        if !is_text || !never_fails(expr, schema) {
            return None;
        }
        let mut read: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        read.sort_unstable();
        let own = flow.current();
        let columns = read.iter().map(|&index| own.get(index).cloned());
        let fields = read.iter().map(|&index| {
            let field = schema.field(index);
            Field::new(field.name(), field.data_type().clone(), true).with_metadata(field.metadata().clone())
        });
        let fields: Vec<Field> = fields.collect();
        let moved = Arc::clone(expr).transform_up(|node| {
            let Some(column) = node.downcast_ref::<Column>() else {
                return Ok(Transformed::no(node));
            };
            let at = read.binary_search(&column.index()).unwrap_or(0);
            let moved: PhysicalExprRef = Arc::new(Column::new(column.name(), at));
            Ok(Transformed::yes(moved))
        });
        Some(Self {
            columns: columns.collect::<Option<_>>()?,
            expr: moved.data().ok()?,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The same of these columns.
    pub fn over(&self, columns: Vec<Col>) -> Self {
        Self {
            expr: Arc::clone(&self.expr),
            columns,
            schema: Arc::clone(&self.schema),
        }
    }

    /// The values of so many rows.
    pub fn values(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<ArrayRef> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.expr.evaluate(&batch)?.into_array(rows)
    }
}

/// Whether an expression has a value of every row, whatever is in it.
fn never_fails(expr: &PhysicalExprRef, schema: &Schema) -> bool {
    if let Some(plain) = original(expr) {
        return never_fails(plain, schema);
    }
    let is_text = |expr: &PhysicalExprRef| expr.data_type(schema).is_ok_and(|own| own.is_string());
    let known = match (expr.downcast_ref::<BinaryExpr>(), expr.downcast_ref::<CastExpr>()) {
        (Some(binary), _) => match binary.op() {
            Operator::And | Operator::Or => true,
            Operator::StringConcat | Operator::Eq | Operator::NotEq => {
                is_text(binary.left()) && is_text(binary.right())
            }
            _ => false,
        },
        (_, Some(cast)) => is_text(cast.expr()) && cast.cast_type().is_string(),
        _ => match expr.downcast_ref::<ScalarFunctionExpr>() {
            Some(call) => {
                let joins = call.name().starts_with("concat");
                FUNCTIONS.contains(&call.name()) && (joins || call.args().iter().all(is_text))
            }
            None => {
                expr.is::<Column>()
                    || expr.is::<Literal>()
                    || expr.is::<CaseExpr>()
                    || expr.is::<IsNullExpr>()
                    || expr.is::<IsNotNullExpr>()
                    || expr.is::<NotExpr>()
            }
        },
    };
    known && expr.children().into_iter().all(|child| never_fails(child, schema))
}
