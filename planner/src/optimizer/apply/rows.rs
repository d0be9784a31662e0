//! The values of many rows of an input as a relation, which is another one each time that a plan over it runs.

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, StatisticsArgs,
};
use foldhash::{HashMap, HashMapExt};
use std::fmt;
use std::sync::Arc;

/// The name of the number's column in the relation.
pub(super) const NUMBER: &str = "number";

/// The name of the column of a value, by its place.
fn value_name(at: usize) -> String {
    format!("value{at}")
}

/// What the relation has in a run, as an extension of the run's configuration.
pub(super) struct RowsOfRun(pub RecordBatch);

#[derive(Debug)]
pub(super) struct RowsTable {
    pub schema: SchemaRef,
    /// How many rows are expected.
    pub expected: usize,
}

impl RowsTable {
    fn known(&self) -> Statistics {
        let mut known = Statistics::new_unknown(&self.schema);
        known.num_rows = Precision::Inexact(self.expected);
        known
    }
}

/// The columns of the relation: each value as its placeholder is declared. None: a placeholder is of another type than the
/// value, or none.
pub(super) fn fields(
    subquery: &LogicalPlan,
    ids: &[String],
    types: &[DataType],
    kept: &[usize],
) -> Result<Option<Vec<Field>>> {
    let mut declared: HashMap<String, Field> = HashMap::new();
    subquery.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Placeholder(placeholder) = expr
                    && let Some(field) = &placeholder.field
                {
                    declared.insert(placeholder.id.clone(), field.as_ref().clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    let mut fields = vec![Field::new(NUMBER, DataType::Int64, false)];
    for (place, at) in kept.iter().enumerate() {
        let field = match declared.remove(&ids[*at]) {
            Some(field) if *field.data_type() != types[*at] => return Ok(None),
            Some(field) => field,
            None => Field::new("", types[*at].clone(), true),
        };
        fields.push(field.with_name(value_name(place)).with_nullable(true));
    }
    Ok((!kept.is_empty()).then_some(fields))
}

#[async_trait]
impl TableProvider for RowsTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.known())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned();
        let columns = columns.unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let known = self.known().project(Some(&columns));
        let schema = Arc::new(self.schema.project(&columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(RowsExec {
            columns,
            known: Arc::new(known),
            properties: Arc::new(properties),
        }))
    }
}

#[derive(Debug)]
pub(super) struct RowsExec {
    columns: Vec<usize>,
    known: Arc<Statistics>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for RowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "RowsExec")
    }
}

impl ExecutionPlan for RowsExec {
    fn name(&self) -> &str {
        "RowsExec"
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

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(rows) = context.session_config().get_extension::<RowsOfRun>() else {
            return internal_err!("a subquery for many rows runs without them");
        };
        let batch = rows.0.project(&self.columns)?;
        let schema = self.schema();
        let size = context.session_config().batch_size().max(1);
        let batches = (0..batch.num_rows())
            .step_by(size)
            .map(move |from| Ok(batch.slice(from, size.min(batch.num_rows() - from))));
        let batches = futures::stream::iter(batches);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match args.partition() {
            None | Some(0) => Ok(Arc::clone(&self.known)),
            Some(_) => internal_err!("rows of a run are one partition"),
        }
    }
}
