//! What COPY's loader leaves to expressions: the rows that WHERE lets through, defaults that differ from row to row, and
//! columns that are computed from others. The loader leaves those columns NULL.

use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::rewrite;
use crate::session::statements::{defaults, insert};
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;
use tenon_storage::{Generated, MemoryBudget, Segment, TableDefinition, TableWriter};

pub(super) struct Fill {
    /// The table's own; the loader's has no NOT NULL where a value is still to come.
    definition: Arc<TableDefinition>,
    loaded: Arc<TableDefinition>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// Values over no columns, then values over the row's other columns.
    defaults: Vec<(usize, Arc<dyn PhysicalExpr>)>,
    computed: Vec<(usize, Arc<dyn PhysicalExpr>)>,
    budget: Arc<MemoryBudget>,
}

impl Fill {
    /// `late`: the columns whose defaults are not one value. None where there is nothing to do.
    pub(super) fn of(
        binder: &Binder,
        definition: &Arc<TableDefinition>,
        late: &[usize],
        filter: Option<&ast::Expr>,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Option<Fill>> {
        let columns = definition.columns.iter().enumerate();
        let computed: Vec<usize> = columns
            .filter(|(_, column)| column.generated == Some(Generated::Stored))
            .map(|(at, _)| at)
            .collect();
        if late.is_empty() && computed.is_empty() && filter.is_none() {
            return Ok(None);
        }
        let mut loaded = (**definition).clone();
        for at in late.iter().chain(&computed) {
            loaded.columns[*at].not_null = false;
        }
        let fields = loaded
            .columns
            .iter()
            .map(|column| column.sql_type.field(&column.name, true));
        loaded.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let schema = DFSchema::try_from(loaded.schema.as_ref().clone()).map_err(|error| from_datafusion(&error))?;
        let physical = |expr: Expr| binder.physical(expr, &schema);
        let filter = filter.map(|condition| {
            let mut condition = condition.clone();
            let places = ("COPY FROM WHERE condition", "COPY FROM WHERE conditions");
            defaults::refuse_sets(&condition, places.0, places.1)?;
            rewrite(&mut condition);
            let condition = binder.expression(condition, &schema)?;
            let given = condition.get_type(&schema).map_err(|error| from_datafusion(&error))?;
            if !matches!(given, DataType::Boolean | DataType::Null) {
                let message = "argument of WHERE must be type boolean";
                return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
            }
            physical(condition)
        });
        let filter = filter.transpose()?;
        let late = late.iter().map(|at| {
            let value = defaults::value(binder, definition, &definition.columns[*at])?;
            Ok((*at, physical(value)?))
        });
        let late = late.collect::<Result<_>>()?;
        let computed = computed.into_iter().map(|at| {
            let column = &definition.columns[at];
            let mut tree = parse_expression(column.default.as_deref().unwrap_or("NULL"))?;
            rewrite(&mut tree);
            let value = insert::assigned(binder.expression(tree, &schema)?, column);
            Ok((at, physical(value)?))
        });
        let computed = computed.collect::<Result<_>>()?;
        Ok(Some(Fill {
            definition: definition.clone(),
            loaded: Arc::new(loaded),
            filter,
            defaults: late,
            computed,
            budget: budget.clone(),
        }))
    }

    /// What the loader is to write.
    pub(super) fn loaded(&self) -> &Arc<TableDefinition> {
        &self.loaded
    }

    /// Whether it leaves rows out.
    pub(super) fn is_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// The rows that the table gets, and their number.
    pub(super) fn apply(&self, segments: &[Arc<Segment>]) -> Result<(Vec<Arc<Segment>>, u64)> {
        let told = |error| from_datafusion(&error);
        let columns: Vec<usize> = (0..self.definition.columns.len()).collect();
        let mut writer = TableWriter::new(self.definition.clone(), self.budget.clone());
        let mut rows = 0;
        for segment in segments {
            let mut batch = segment.batch(&self.loaded.schema, &columns, 0, segment.rows())?;
            // As in PostgreSQL, a row that WHERE leaves out has taken its values from sequences.
            batch = filled(&batch, &self.defaults)?;
            if let Some(filter) = &self.filter {
                let kept = filter
                    .evaluate(&batch)
                    .and_then(|kept| kept.into_array(batch.num_rows()))
                    .map_err(told)?;
                let kept = cast(&kept, &DataType::Boolean).map_err(|error| from_arrow(&error))?;
                batch = filter_record_batch(&batch, kept.as_boolean()).map_err(|error| from_arrow(&error))?;
            }
            batch = filled(&batch, &self.computed)?;
            rows += batch.num_rows() as u64;
            writer.append(&batch)?;
        }
        Ok((writer.finish()?, rows))
    }
}

/// The rows with values in some of their columns.
fn filled(batch: &RecordBatch, values: &[(usize, Arc<dyn PhysicalExpr>)]) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    let mut fields = batch.schema().fields().to_vec();
    for (at, value) in values {
        let value = value
            .evaluate(batch)
            .and_then(|value| value.into_array(batch.num_rows()));
        columns[*at] = value.map_err(|error| from_datafusion(&error))?;
        let of = columns[*at].data_type().clone();
        fields[*at] = Arc::new(fields[*at].as_ref().clone().with_data_type(of).with_nullable(true));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| from_arrow(&error))
}
