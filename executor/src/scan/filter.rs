//! One conjunct of a scan's WHERE: its expression over the few columns that it reads, its cost class, and the range of
//! values that it lets through, where it has one.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};

use crate::expr::accelerate;
use crate::keys::{append_integer_keys, is_integer_key};

#[derive(Debug)]
pub struct ScanFilter {
    /// Over `columns`, in their order.
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    schema: SchemaRef,
    cost: Cost,
    range: Option<Range>,
}

/// In the order in which conjuncts run. Runtime filters run after the cheap ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// A vector comparison: run over whole chunks.
    Cheap,
    /// Strings: worth fewer rows first, if rows are few.
    Costly,
    /// May fail, so only rows that passed everything else may see it.
    Fallible,
}

/// A column's lanes that pass, as the conjunct alone says: exactly those, nulls excepted.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    pub column: usize,
    pub min: i64,
    pub max: i64,
}

impl ScanFilter {
    pub fn try_new(expr: &Arc<dyn PhysicalExpr>, table: &Schema) -> Result<Self> {
        let mut columns: Vec<usize> = vec![];
        expr.apply(|e| {
            if let Some(column) = e.downcast_ref::<Column>()
                && !columns.contains(&column.index())
            {
                columns.push(column.index());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let schema = Arc::new(table.project(&columns)?);
        let cost = cost(expr, &schema)?;
        let range = range(expr, table);
        let expr = Arc::clone(expr).transform(|e| {
            Ok(match e.downcast_ref::<Column>() {
                Some(column) => {
                    let at = columns.iter().position(|&c| c == column.index()).unwrap_or(0);
                    Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>)
                }
                None => Transformed::no(e),
            })
        })?;
        Ok(Self {
            expr: accelerate(expr.data)?,
            columns,
            schema,
            cost,
            range,
        })
    }

    pub fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    pub fn cost(&self) -> Cost {
        self.cost
    }

    pub fn range(&self) -> Option<Range> {
        self.range
    }

    /// Table columns read.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Evaluates over `rows` rows of the columns, in the order of `columns`.
    pub fn evaluate(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let result = self.expr.evaluate(&batch)?.into_array(rows)?;
        Ok(as_boolean_array(&result)?.clone())
    }
}

impl fmt::Display for ScanFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

fn cost(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Cost> {
    let mut worst = Cost::Cheap;
    expr.apply(|e| {
        let own = if e.downcast_ref::<Column>().is_some() || e.downcast_ref::<Literal>().is_some() {
            Cost::Cheap
        } else if let Some(binary) = e.downcast_ref::<BinaryExpr>() {
            match binary.op() {
                Operator::And | Operator::Or => Cost::Cheap,
                Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                    Cost::Cheap
                }
                Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => Cost::Cheap,
                _ => Cost::Fallible,
            }
        } else if e.downcast_ref::<LikeExpr>().is_some() || e.downcast_ref::<InListExpr>().is_some() {
            Cost::Costly
        } else if e.downcast_ref::<IsNullExpr>().is_some()
            || e.downcast_ref::<IsNotNullExpr>().is_some()
            || e.downcast_ref::<NotExpr>().is_some()
        {
            Cost::Cheap
        } else {
            Cost::Fallible
        };
        worst = worst.max(own);
        Ok(TreeNodeRecursion::Continue)
    })?;
    let strings = schema
        .fields()
        .iter()
        .any(|f| matches!(f.data_type(), DataType::Utf8View | DataType::Utf8));
    Ok(if strings { worst.max(Cost::Costly) } else { worst })
}

/// The range of `column op literal`.
fn range(expr: &Arc<dyn PhysicalExpr>, table: &Schema) -> Option<Range> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let column = binary.left().downcast_ref::<Column>()?;
    let literal = binary.right().downcast_ref::<Literal>()?;
    let data_type = table.field(column.index()).data_type();
    if !is_integer_key(data_type) || literal.value().data_type() != *data_type || literal.value().is_null() {
        return None;
    }
    let value = lane(literal.value())?;
    let (min, max) = match binary.op() {
        Operator::Eq => (value, value),
        Operator::Lt => (i64::MIN, value.checked_sub(1)?),
        Operator::LtEq => (i64::MIN, value),
        Operator::Gt => (value.checked_add(1)?, i64::MAX),
        Operator::GtEq => (value, i64::MAX),
        _ => return None,
    };
    Some(Range {
        column: column.index(),
        min,
        max,
    })
}

fn lane(value: &ScalarValue) -> Option<i64> {
    let mut lanes = vec![];
    append_integer_keys(&value.to_array().ok()?, &mut lanes).ok()?;
    lanes.first().copied()
}
