//! The scan: each partition reads a contiguous run of a table's rows, batch by batch, without copying.

use super::statistics;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream, StatisticsArgs,
};
use std::fmt;
use std::sync::Arc;
use tenon_storage::{Segment, TableVersion};

/// Rows of one segment.
#[derive(Clone, Copy, Debug)]
struct Run {
    segment: usize,
    offset: usize,
    rows: usize,
}

/// Reads columns of one version of a table.
#[derive(Debug)]
pub struct ScanExec {
    table: Arc<TableVersion>,
    /// Positions in the provider's schema: the table's columns, then segment number and row number.
    columns: Vec<usize>,
    schema: SchemaRef,
    partitions: Vec<Arc<[Run]>>,
    batch_rows: usize,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
}

impl ScanExec {
    pub fn try_new(
        table: Arc<TableVersion>,
        full_schema: &SchemaRef,
        columns: Vec<usize>,
        partitions: usize,
        batch_rows: usize,
        limit: Option<usize>,
    ) -> Result<Self> {
        let schema = Arc::new(full_schema.project(&columns)?);
        let partitions = split(table.segments(), partitions.max(1), batch_rows, limit);
        let own = table.statistics();
        let orderings = columns.iter().enumerate().filter_map(|(at, column)| {
            let ascending = own.columns.get(*column).is_some_and(|statistics| statistics.ascending);
            let expr = Arc::new(Column::new(schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
            let options = SortOptions { descending: false, nulls_first: false };
            (ascending && own.rows > 0).then(|| vec![PhysicalSortExpr::new(expr, options)])
        });
        let equivalences = EquivalenceProperties::new_with_orderings(schema.clone(), orderings);
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let mut statistics = statistics::of_table(&table, full_schema).project(Some(&columns));
        if limit.is_some() {
            statistics = statistics.to_inexact();
        }
        Ok(Self {
            table,
            columns,
            schema,
            partitions,
            batch_rows,
            statistics: Arc::new(statistics),
            properties: Arc::new(properties),
        })
    }
}

/// Contiguous runs for each partition, cut at batch boundaries where a segment is cut.
fn split(segments: &[Arc<Segment>], partitions: usize, batch_rows: usize, limit: Option<usize>) -> Vec<Arc<[Run]>> {
    let total: usize = segments.iter().map(|segment| segment.rows()).sum();
    let total = limit.map_or(total, |limit| total.min(limit));
    let each = total.div_ceil(partitions).next_multiple_of(batch_rows).max(batch_rows);
    let mut out: Vec<Vec<Run>> = vec![Vec::new()];
    let (mut room, mut left) = (each, total);
    for (number, segment) in segments.iter().enumerate() {
        let mut offset = 0;
        while offset < segment.rows() && left > 0 {
            if room == 0 {
                out.push(Vec::new());
                room = each;
            }
            let rows = (segment.rows() - offset).min(room).min(left);
            if let Some(last) = out.last_mut() {
                last.push(Run { segment: number, offset, rows });
            }
            (offset, room, left) = (offset + rows, room - rows, left - rows);
        }
    }
    out.into_iter().map(Into::into).collect()
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "Scan: {}, columns=[{}], rows={}", self.table.name(), names.join(", "), self.table.rows())
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "ScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(runs) = self.partitions.get(partition).cloned() else {
            return internal_err!("the scan has no partition {partition}");
        };
        let (table, columns, schema) = (self.table.clone(), self.columns.clone(), self.schema.clone());
        let batch_rows = self.batch_rows;
        let batches = (0..runs.len()).flat_map(move |at| {
            let run = runs[at];
            (0..run.rows).step_by(batch_rows).map(move |from| {
                let rows = (run.rows - from).min(batch_rows);
                Run { segment: run.segment, offset: run.offset + from, rows }
            })
        });
        let stream = batches.map(move |run| batch(&table, &columns, &schema, run));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), futures::stream::iter(stream))))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(self.statistics.clone()),
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema))),
        }
    }
}

fn batch(table: &TableVersion, columns: &[usize], schema: &SchemaRef, run: Run) -> Result<RecordBatch> {
    let segment = &table.segments()[run.segment];
    let own = table.schema().fields().len();
    let arrays = columns.iter().map(|column| -> ArrayRef {
        if *column < own {
            segment.column_slice(*column, run.offset, run.rows)
        } else if *column == own {
            Arc::new(UInt32Array::from_value(run.segment as u32, run.rows))
        } else {
            Arc::new(UInt32Array::from_iter_values((run.offset..run.offset + run.rows).map(|row| row as u32)))
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(run.rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays.collect(), &options)?)
}
