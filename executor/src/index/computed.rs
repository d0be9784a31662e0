//! Keys that are computed: of expressions over a table's columns, for the rows that meet the index's condition.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use tenon_storage::{ComputedKey, ErrorKind, KeyValues, StorageError};

use super::implied::implies;

type Expr = Arc<dyn PhysicalExpr>;

/// What computes an index's keys.
#[derive(Debug)]
pub struct ComputedKeys {
    /// Over the table's columns.
    values: Vec<Expr>,
    predicate: Option<Expr>,
    types: Vec<DataType>,
    /// The columns that are read, and the same over these alone.
    columns: Vec<usize>,
    schema: SchemaRef,
    own_values: Vec<Expr>,
    own_predicate: Option<Expr>,
}

impl ComputedKeys {
    /// `values` and `predicate` are over the columns of a table, whose schema this is.
    pub fn try_new(values: Vec<Expr>, predicate: Option<Expr>, table: &Schema) -> Result<ComputedKeys> {
        let exprs = values.iter().chain(&predicate);
        let columns: BTreeSet<usize> = exprs.flat_map(collect_columns).map(|column| column.index()).collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        let over_them = |expr: &Expr| {
            let moved = Arc::clone(expr).transform_down(|expr| {
                let Some(column) = expr.downcast_ref::<Column>() else {
                    return Ok(Transformed::no(expr));
                };
                let at = columns.partition_point(|own| *own < column.index());
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Expr))
            });
            moved.data()
        };
        Ok(ComputedKeys {
            types: values
                .iter()
                .map(|value| value.data_type(table))
                .collect::<Result<_>>()?,
            own_values: values.iter().map(over_them).collect::<Result<_>>()?,
            own_predicate: predicate.as_ref().map(over_them).transpose()?,
            schema: Arc::new(table.project(&columns)?),
            columns,
            values,
            predicate,
        })
    }

    /// The columns of the table that are read.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The types of the key's parts.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// The parts of the key, over the table's columns.
    pub fn values(&self) -> &[Expr] {
        &self.values
    }

    /// What the rows meet that the index holds, where it does not hold all.
    pub fn predicate(&self) -> Option<&Expr> {
        self.predicate.as_ref()
    }

    /// The keys of so many rows, given by the columns that are read.
    pub fn keys(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<KeyValues> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let evaluated = |expr: &Expr| expr.evaluate(&rows)?.into_array(rows.num_rows());
        // NULL holds no row.
        let held = self.own_predicate.as_ref().map(evaluated).transpose()?.map(|held| {
            let held = held.as_boolean();
            match held.nulls() {
                Some(nulls) => held.values() & nulls.inner(),
                None => held.values().clone(),
            }
        });
        Ok(KeyValues {
            columns: self.own_values.iter().map(evaluated).collect::<Result<_>>()?,
            held,
        })
    }

    /// Whether the index holds all rows of a table that pass all `filters`.
    pub(super) fn holds(&self, filters: &[Expr], table: &Schema) -> bool {
        let implied = |wanted: &Expr| implies(filters, wanted, table);
        self.predicate.as_ref().is_none_or(implied)
    }
}

impl ComputedKey for ComputedKeys {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn of(&self, columns: Vec<ArrayRef>, rows: usize) -> tenon_storage::Result<KeyValues> {
        self.keys(columns, rows).map_err(|error| match error.find_root() {
            DataFusionError::ResourcesExhausted(message) => StorageError::new(ErrorKind::OutOfMemory, message.clone()),
            // They were computed before, when the rows were written.
            root => StorageError::internal(root.to_string()),
        })
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
