//! `SELECT keys, aggregates FROM input GROUP BY keys`, in one node.
//!
//! Each input partition gathers groups of its own; when all are done, output partition `p` merges the groups that fall
//! to it. One exact key is shared out by value, so that each share's keys stay dense; other keys by hash. Few groups
//! are all merged by partition 0. The final values are DataFusion's accumulators', fed with the partial states.
//! Limits: keys are exact types (see `keys`) or strings; every aggregate has a grouping accumulator, without DISTINCT or
//! ORDER BY.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, exec_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr, PlanProperties,
    SendableRecordBatchStream, StatisticsArgs,
};
use futures::TryStreamExt;
use tenon_gpu::cpu::Stop;

use super::keys::{GroupKeys, is_supported};
use super::local::{Local, Partial};
use crate::keys::{append_exact, hash_lanes, is_exact, lane_range};
use crate::per_execution::{MadeOnce, PerExecution};

/// Groups, over all partitions, that one output partition merges alone.
const MERGED_ALONE: usize = 16 * 1024;

/// What is grouped and aggregated, apart from the input.
#[derive(Debug, Clone)]
pub struct GroupSpec {
    pub keys: Vec<(Arc<dyn PhysicalExpr>, String)>,
    pub aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// FILTER (WHERE ...) of each aggregate.
    pub filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    pub input_schema: SchemaRef,
    /// Keys, then aggregates.
    pub schema: SchemaRef,
}

impl GroupSpec {
    /// Whether `GroupExec` can compute this.
    pub fn is_supported(&self) -> bool {
        let keys = self.keys.iter().enumerate();
        let keys = keys.map(|(at, (key, _))| (key.data_type(&self.input_schema), self.schema.field(at).data_type()));
        keys.into_iter()
            .all(|(own, out)| own.is_ok_and(|own| own == *out && is_supported(&own)))
            && self.keys.len() < 63
            && self
                .aggregates
                .iter()
                .all(|a| !a.is_distinct() && a.order_bys().is_empty())
            && self.aggregates.iter().all(|a| a.groups_accumulator_supported())
    }

    pub(super) fn group_keys(&self) -> GroupKeys {
        let fields = &self.schema.fields()[..self.keys.len()];
        let types: Vec<DataType> = fields.iter().map(|f| f.data_type().clone()).collect();
        GroupKeys::new(&types, fields.iter().any(|f| f.is_nullable()))
    }
}

#[derive(Debug)]
pub struct GroupExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<GroupSpec>,
    /// Groups that the planner expects.
    estimate: Option<usize>,
    partials: PerExecution<MadeOnce<Arc<Gathered>>>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

/// Every partition's groups.
struct Gathered {
    partials: Vec<Partial>,
    _reservation: MemoryReservation,
}

impl GroupExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, spec: GroupSpec) -> Self {
        let partitions = if spec.keys.is_empty() {
            1
        } else {
            input.output_partitioning().partition_count()
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&spec.schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            input,
            spec: Arc::new(spec),
            estimate: None,
            partials: PerExecution::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
        }
    }

    /// The same, expected to give `rows` groups.
    pub fn with_estimate(mut self, rows: usize) -> Self {
        self.estimate = Some(rows);
        self
    }

    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub fn spec(&self) -> &GroupSpec {
        &self.spec
    }
}

impl DisplayAs for GroupExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let keys: Vec<_> = self.spec.keys.iter().map(|(key, _)| key.to_string()).collect();
        let aggregates: Vec<_> = self.spec.aggregates.iter().map(|a| a.name().to_string()).collect();
        write!(
            f,
            "GroupExec: by [{}], aggregates [{}]",
            keys.join(", "),
            aggregates.join(", ")
        )
    }
}

impl ExecutionPlan for GroupExec {
    fn name(&self) -> &str {
        "GroupExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let args = self
            .spec
            .aggregates
            .iter()
            .flat_map(|a| a.expressions())
            .collect::<Vec<_>>();
        for expr in self
            .spec
            .keys
            .iter()
            .map(|(key, _)| key)
            .chain(&args)
            .chain(self.spec.filters.iter().flatten())
        {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("GroupExec has one input");
        };
        let mut own = Self::new(input, (*self.spec).clone());
        own.estimate = self.estimate;
        Ok(Arc::new(own))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let shared = self.partials.get_or_make(&context, MadeOnce::default);
        let (input, spec) = (Arc::clone(&self.input), Arc::clone(&self.spec));
        let partitions = self.properties.partitioning.partition_count();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let output = async move {
            let gathered = async { Ok(Arc::new(gather(&input, &spec, &context).await?)) };
            let gathered = Arc::clone(shared.get_or_make(gathered).await?);
            let _timer = metrics.elapsed_compute().timer();
            let batch = merge(&spec, &gathered.partials, partition, partitions)?;
            metrics.record_output(batch.num_rows());
            Ok::<_, datafusion::error::DataFusionError>(slices(batch, context.session_config().batch_size()))
        };
        let output = futures::stream::once(output).map_ok(|b| futures::stream::iter(b.into_iter().map(Ok)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            output.try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![partition.map_or(ChildStats::At(None), |_| ChildStats::Skip)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let ([input], None) = (inputs, args.partition()) else {
            return Ok(Arc::new(statistics));
        };
        statistics.num_rows = match self.estimate {
            _ if self.spec.keys.is_empty() => Precision::Exact(1),
            Some(rows) => Precision::Inexact(rows),
            None => Precision::Absent,
        };
        for (own, (key, _)) in statistics.column_statistics.iter_mut().zip(&self.spec.keys) {
            let column = key.downcast_ref::<Column>();
            if let Some(known) = column.and_then(|column| input.column_statistics.get(column.index())) {
                *own = known.clone().to_inexact();
            }
        }
        Ok(Arc::new(statistics))
    }
}

fn slices(batch: RecordBatch, rows: usize) -> Vec<RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(rows.max(1));
    starts
        .map(|start| batch.slice(start, rows.min(batch.num_rows() - start)))
        .collect()
}

/// Runs every input partition to its end, each as a task of its own.
async fn gather(input: &Arc<dyn ExecutionPlan>, spec: &Arc<GroupSpec>, context: &Arc<TaskContext>) -> Result<Gathered> {
    let reservation = MemoryConsumer::new("groups").register(context.memory_pool());
    let partitions = input.output_partitioning().partition_count();
    let mut partials = vec![];
    if partitions == 1 {
        let mut share = reservation.new_empty();
        partials.push(gather_one(input, 0, spec, context, &mut share).await?);
        reservation.grow(share.free());
        return Ok(Gathered {
            partials,
            _reservation: reservation,
        });
    }
    let tasks: Vec<_> = (0..partitions)
        .map(|partition| {
            let (input, spec, context) = (Arc::clone(input), Arc::clone(spec), Arc::clone(context));
            let mut share = reservation.new_empty();
            SpawnedTask::spawn(async move {
                let partial = gather_one(&input, partition, &spec, &context, &mut share).await?;
                Ok::<_, datafusion::error::DataFusionError>((partial, share))
            })
        })
        .collect();
    for task in tasks {
        let (partial, share) = match task.join_unwind().await {
            Ok(result) => result?,
            Err(error) => return exec_err!("grouping was cut off: {error}"),
        };
        reservation.grow(share.free());
        partials.push(partial);
    }
    Ok(Gathered {
        partials,
        _reservation: reservation,
    })
}

async fn gather_one(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    spec: &Arc<GroupSpec>,
    context: &Arc<TaskContext>,
    reservation: &mut MemoryReservation,
) -> Result<Partial> {
    let mut stream = input.execute(partition, Arc::clone(context))?;
    let mut local = Local::new(Arc::clone(spec))?;
    while let Some(batch) = stream.try_next().await? {
        local.update(&batch)?;
        reservation.try_resize(local.bytes())?;
    }
    // Once more for the copies that merging makes.
    reservation.try_grow(local.foreign_bytes())?;
    local.finish()
}

/// The final rows of output partition `partition` of `partitions`.
fn merge(spec: &GroupSpec, partials: &[Partial], partition: usize, partitions: usize) -> Result<RecordBatch> {
    let total: usize = partials.iter().map(|p| p.groups).sum();
    let alone = partitions == 1 || total <= MERGED_ALONE;
    if alone && partition > 0 {
        return Ok(RecordBatch::new_empty(Arc::clone(&spec.schema)));
    }
    let mut keys = (!spec.keys.is_empty()).then(|| spec.group_keys());
    let accumulators = spec
        .aggregates
        .iter()
        .map(|a| a.create_groups_accumulator())
        .collect::<Result<Vec<_>>>();
    let mut accumulators = accumulators?;
    let mut numbers = vec![];
    let shares = if alone {
        vec![None; partials.len()]
    } else {
        share(spec, partials, partition, partitions)?
    };
    for (partial, rows) in partials.iter().zip(shares) {
        let pick = |array: &ArrayRef| match &rows {
            None => Ok(Arc::clone(array)),
            Some(rows) => take(array, rows, None),
        };
        let count = rows.as_ref().map_or(partial.groups, Array::len);
        match &mut keys {
            Some(keys) => {
                let columns = partial.keys.iter().map(pick).collect::<Result<Vec<_>, _>>()?;
                keys.assign(&columns, count, &mut numbers)?;
            }
            None => numbers = vec![0; count],
        }
        let groups = keys.as_ref().map_or(1, GroupKeys::groups);
        for (accumulator, state) in accumulators.iter_mut().zip(&partial.states) {
            let state = state.iter().map(pick).collect::<Result<Vec<_>, _>>()?;
            accumulator.merge_batch(&state, &numbers, groups)?;
        }
    }
    let groups = keys.as_ref().map_or(1, GroupKeys::groups);
    let mut columns = keys.as_ref().map_or(Ok(vec![]), GroupKeys::emit)?;
    for accumulator in &mut accumulators {
        columns.push(accumulator.evaluate(EmitTo::All)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(groups));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(&spec.schema),
        columns,
        &options,
    )?)
}

/// For each partial, the groups that fall to `partition`.
fn share(
    spec: &GroupSpec,
    partials: &[Partial],
    partition: usize,
    partitions: usize,
) -> Result<Vec<Option<UInt32Array>>> {
    let by_value = spec.keys.len() == 1 && is_exact(spec.schema.field(0).data_type());
    let mut lanes = vec![];
    for partial in partials {
        lanes.push(if by_value {
            let mut lanes = vec![];
            append_exact(&partial.keys[0], &mut lanes)?;
            lanes
        } else {
            hash_lanes(&partial.keys, partial.groups, Stop::never())?
        });
    }
    let ranges = lanes.iter().filter_map(|l| lane_range(l, None));
    let (min, max) = ranges.fold((i64::MAX, i64::MIN), |(min, max), (l, h)| (min.min(l), max.max(h)));
    let width = (max.wrapping_sub(min) as u64 / partitions as u64).saturating_add(1);
    let falls_to = |lane: i64| (lane.wrapping_sub(min) as u64 / width) as usize;
    let bounds = |lanes: &Vec<i64>| -> UInt32Array {
        let rows = lanes
            .iter()
            .enumerate()
            .filter(|&(_, &lane)| falls_to(lane) == partition);
        rows.map(|(row, _)| row as u32).collect::<Vec<_>>().into()
    };
    Ok(lanes.iter().map(|lanes| Some(bounds(lanes))).collect())
}
