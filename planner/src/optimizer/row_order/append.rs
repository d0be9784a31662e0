//! UNION ALL whose rows come one input after the other.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::stats::NdvFallback;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, CardinalityEffect, EmissionType};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PhysicalExpr, PlanProperties, SendableRecordBatchStream, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt};

type Plan = Arc<dyn ExecutionPlan>;

/// All rows of the first input, then those of the next.
#[derive(Debug)]
pub(crate) struct AppendExec {
    inputs: Vec<Plan>,
    properties: Arc<PlanProperties>,
}

impl AppendExec {
    pub fn new(inputs: Vec<Plan>, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            inputs,
            properties: Arc::new(properties),
        }
    }
}

/// An input's rows under the schema of all: the inputs' columns may have other names, and be less often NULL.
pub(crate) fn appended(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

impl DisplayAs for AppendExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "AppendExec")
    }
}

impl ExecutionPlan for AppendExec {
    fn name(&self) -> &str {
        "AppendExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; self.inputs.len()])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // Each input's rows stay as they are, though no order holds for all.
        vec![true; self.inputs.len()]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::GreaterEqual
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        Ok(Arc::new(Self::new(children, self.schema())))
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None); self.inputs.len()]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let inputs = inputs.iter().map(|input| input.as_ref());
        let merged = Statistics::try_merge_iter_with_ndv_fallback(inputs, self.schema().as_ref(), NdvFallback::Sum)?;
        Ok(Arc::new(merged))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, inputs) = (self.schema(), self.inputs.clone());
        let own = Arc::clone(&schema);
        let rows = futures::stream::iter(inputs)
            .map(move |input| input.execute(0, Arc::clone(&context)))
            .try_flatten()
            .map(move |batch| appended(&batch?, &own));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
