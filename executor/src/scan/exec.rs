//! `SELECT columns FROM table WHERE filters`: the scan.
//!
//! More than 400 lines because the node, its plan-time changes and its running loop share their fields.
//!
//! Partitions draw morsels (runs of one segment's rows) from a shared queue, so that an uneven filter leaves no core
//! idle; each partition sees its morsels in table order. A morsel's filters leave a selection of row numbers, and only
//! then are the output columns gathered (`selection`). Without filters, batches are slices of the segment. A scan by an
//! index (`crate::index`) looks at the rows that it finds, and at no others; the filters have the last word on those too.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream, StatisticsArgs,
};
use parking_lot::Mutex;
use tenon_storage::{MemoryBudget, TableVersion, tid};

use super::filter::ScanFilter;
use super::first::First;
use super::in_order::{Given, Next, Progress};
use super::provider::ADDRESS_FIELD;
use super::selection::Selector;
use super::statistics;
use super::top::{Place, Top, TopFilter, order};
use crate::index::{Constraint, IndexScan, choose, constraints, semi_join};
use crate::per_execution::PerExecution;
use crate::runtime_filter::{KeySet, RuntimeFilter};
use crate::test_hooks;

/// Rows that a partition takes from the queue at once. What lies above a scan has no more partitions than this gives.
pub const MORSEL_ROWS: usize = 16 * 1024;

/// Tables of so many rows are read by one: others take longer to begin than this takes.
const ALONE_ROWS_MAX: usize = 48 * 1024;

/// Reads columns of one version of a table.
#[derive(Debug, Clone)]
pub struct ScanExec {
    pub(super) table: Arc<TableVersion>,
    alias: Option<Arc<str>>,
    /// Positions in the provider's schema: the table's columns, then segment number, row number and address.
    pub(super) columns: Vec<usize>,
    pub(super) schema: SchemaRef,
    partitions: usize,
    batch_rows: usize,
    pub(super) limit: Option<usize>,
    pub(super) filters: Arc<[ScanFilter]>,
    /// The filters as they were given: over the table's columns.
    given: Arc<[Arc<dyn PhysicalExpr>]>,
    full_schema: SchemaRef,
    /// Table columns with the runtime filter on each.
    runtime: Vec<(usize, Arc<RuntimeFilter>)>,
    /// What the sort above keeps the first rows by, with the table column that is its first key.
    pub(super) top: Option<(usize, TopFilter)>,
    pub(super) index: Option<Arc<IndexScan>>,
    /// The rows of the addresses that the filters say, as segment and row number.
    pub(super) addressed: Option<Arc<[(u32, u32)]>>,
    pub(super) index_budget: Option<Arc<MemoryBudget>>,
    shared: Arc<PerExecution<Shared>>,
    pub(super) statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
    /// Table columns whose values the nodes above may count on to ascend.
    pub(super) ascending: Arc<[usize]>,
}

/// How a scan runs.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions<'a> {
    /// At most so many partitions.
    pub partitions: usize,
    pub batch_rows: usize,
    /// At most so many rows are wanted.
    pub limit: Option<usize>,
    /// Indexes are used, and their memory taken from here, where it is given.
    pub index_budget: Option<&'a Arc<MemoryBudget>>,
}

impl ScanExec {
    /// `filters` are over the table's columns and must all hold.
    pub fn try_new(
        table: Arc<TableVersion>,
        full_schema: &SchemaRef,
        columns: Vec<usize>,
        filters: &[Arc<dyn PhysicalExpr>],
        options: ScanOptions<'_>,
    ) -> Result<Self> {
        let ScanOptions {
            partitions,
            batch_rows,
            limit,
            index_budget,
        } = options;
        let schema = Arc::new(full_schema.project(&columns)?);
        let own = table.statistics();
        let Compiled {
            filters: scan_filters,
            index,
            addressed,
        } = compiled(&table, full_schema, filters, index_budget)?;
        // By rows and not by segments: a table of few rows in many segments is read in its order, by one.
        let worth = match test_hooks::scattered() {
            true => table.segments().len(),
            false if table.rows() as usize <= ALONE_ROWS_MAX => 1,
            false => (table.rows() as usize).div_ceil(MORSEL_ROWS),
        };
        let partitions = match &index {
            // Few rows: more partitions would cost more than they save.
            Some(_) => 1,
            None if addressed.is_some() => 1,
            None => partitions.min(worth).max(1),
        };
        let ascends = |column: &usize| own.rows > 0 && own.columns.get(*column).is_some_and(|own| own.ascending);
        let ascending: Arc<[usize]> = columns.iter().copied().filter(ascends).collect();
        let orderings = columns.iter().enumerate().filter_map(|(at, column)| {
            let expr = Arc::new(Column::new(schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
            let options = SortOptions {
                descending: false,
                nulls_first: false,
            };
            ascends(column).then(|| vec![PhysicalSortExpr::new(expr, options)])
        });
        let equivalences = EquivalenceProperties::new_with_orderings(schema.clone(), orderings);
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let mut statistics = statistics::of_table(&table, full_schema).project(Some(&columns));
        if limit.is_some() || !filters.is_empty() {
            statistics = statistics.to_inexact();
        }
        if let Some(index) = &index {
            statistics.num_rows = Precision::Inexact(index.rows);
        }
        if let Some(addressed) = &addressed {
            statistics.num_rows = Precision::Inexact(addressed.len());
        }
        Ok(Self {
            table,
            alias: None,
            columns,
            schema,
            partitions,
            batch_rows,
            limit,
            filters: scan_filters,
            given: filters.into(),
            full_schema: Arc::clone(full_schema),
            runtime: vec![],
            top: None,
            index,
            addressed,
            index_budget: index_budget.cloned(),
            shared: Arc::default(),
            statistics: Arc::new(statistics),
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
            ascending,
        })
    }

    /// The same scan with a runtime filter on output column `column`; `None` where no filter can be.
    pub fn with_runtime_filter(&self, column: usize, filter: &Arc<RuntimeFilter>) -> Option<Self> {
        let table_column = *self.columns.get(column)?;
        let exact = crate::keys::is_integer_key(self.schema.field(column).data_type());
        if !exact || table_column >= self.table.schema().fields().len() || self.limit.is_some() {
            return None;
        }
        let mut scan = self.clone();
        scan.runtime.push((table_column, Arc::clone(filter)));
        Some(scan)
    }

    /// The same scan below a sort that keeps its first rows only, by output column `column` first; `None` where that is no
    /// help.
    pub fn with_top(&self, column: usize, filter: &TopFilter) -> Option<Self> {
        let table_column = *self.columns.get(column)?;
        if table_column >= self.table.schema().fields().len() || self.limit.is_some() || self.addressed.is_some() {
            return None;
        }
        let mut scan = self.clone();
        scan.top = Some((table_column, filter.clone()));
        Some(scan)
    }

    /// The same scan, expected to give `rows` rows.
    pub fn with_estimate(mut self, rows: usize) -> Self {
        // What an index holds is counted.
        let rows = self.index.as_ref().map_or(rows, |index| index.rows.min(rows));
        self.statistics = Arc::new(Statistics {
            num_rows: Precision::Inexact(rows),
            ..self.statistics.as_ref().clone().to_inexact()
        });
        self
    }

    /// The same scan read by one, in the table's order.
    pub fn in_order(mut self) -> Self {
        let properties = self.properties.as_ref().clone();
        self.partitions = 1;
        self.properties = Arc::new(properties.with_partitioning(Partitioning::UnknownPartitioning(1)));
        self
    }

    /// The same scan of a table that the query calls `alias`.
    pub fn with_alias(mut self, alias: &str) -> Self {
        self.alias = Some(alias.into());
        self
    }

    /// What the query calls the table, where that is not its name.
    pub fn alias(&self) -> Option<&str> {
        self.alias.as_deref()
    }

    /// The conjuncts of WHERE, in the order in which they run, each with the table columns that it reads.
    pub fn conjuncts(&self) -> impl Iterator<Item = (&Arc<dyn PhysicalExpr>, &[usize])> {
        self.filters.iter().map(|filter| (filter.expr(), filter.columns()))
    }

    /// Table columns with the runtime filter on each.
    pub fn runtime(&self) -> &[(usize, Arc<RuntimeFilter>)] {
        &self.runtime
    }

    /// Names of the columns that filters are on which are known when the query runs: of joins, and of a sort that keeps its
    /// first rows.
    pub fn runtime_filters(&self) -> impl Iterator<Item = &str> {
        let schema = self.table.schema();
        let of_joins = self.runtime.iter().map(|(column, _)| column);
        let of_sort = self.top.iter().map(|(column, _)| column);
        of_joins
            .chain(of_sort)
            .map(|column| schema.field(*column).name().as_str())
    }

    /// Whether rows are passed over that a sort above would not keep.
    pub fn is_below_top(&self) -> bool {
        self.top.is_some()
    }

    /// The same scan with nothing of earlier runs.
    pub fn renewed(&self) -> Self {
        Self {
            shared: Arc::default(),
            // The sort's copy has a filter of its own.
            top: None,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    /// The same scan with `change` made to its filters. It keeps its number of partitions, which the nodes above count on.
    pub fn with_filters_changed(
        &self,
        change: impl Fn(Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let given: Vec<_> = self.given.iter().cloned().map(change).collect::<Result<_>>()?;
        if given
            .iter()
            .zip(self.given.iter())
            .all(|(new, old)| Arc::ptr_eq(new, old))
        {
            return Ok(self.clone());
        }
        self.filtered(&self.table, &given)
    }

    /// The same scan of a version of its table with these filters.
    pub(super) fn filtered(&self, table: &Arc<TableVersion>, given: &[Arc<dyn PhysicalExpr>]) -> Result<Self> {
        let Compiled {
            filters,
            index,
            addressed,
        } = compiled(table, &self.full_schema, given, self.index_budget.as_ref())?;
        let found = index.as_ref().map(|index| index.rows);
        let scan = Self {
            table: Arc::clone(table),
            filters,
            index,
            addressed,
            given: given.into(),
            ..self.clone()
        };
        // What was expected without the values in the filters may be far more.
        let expected = self.statistics.num_rows.get_value();
        Ok(
            match found.filter(|found| expected.is_some_and(|expected| expected > found)) {
                Some(found) => scan.with_estimate(found),
                None => scan,
            },
        )
    }

    /// Rows of a batch.
    pub(super) fn batch_rows(&self) -> usize {
        self.batch_rows
    }

    /// The index that the rows are found by, and whether from its end.
    pub fn found_by(&self) -> Option<(String, bool)> {
        match self.first_by_index() {
            Some((first, index)) => Some((index, first.options.descending)),
            None => self.index.as_ref().map(|index| (index.name.clone(), false)),
        }
    }

    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    pub fn table(&self) -> &Arc<TableVersion> {
        &self.table
    }

    /// Positions in the table of the output's columns; beyond them are segment number, row number and address.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The conjuncts of WHERE as they were given, over the table's columns.
    pub fn given(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.given
    }

    /// The table's columns, and those of a row's place.
    pub fn full_schema(&self) -> &SchemaRef {
        &self.full_schema
    }

    /// Whether it gives all rows of its table.
    pub(crate) fn gives_all(&self) -> bool {
        let unfiltered =
            self.given.is_empty() && self.filters.is_empty() && self.runtime.is_empty() && self.top.is_none();
        unfiltered && self.limit.is_none() && self.index.is_none() && self.addressed.is_none()
    }

    pub(crate) fn filters(&self) -> &Arc<[ScanFilter]> {
        &self.filters
    }

    /// What indexes may take, where a join may look this scan's rows up instead of running it.
    pub fn lookup_budget(&self) -> Option<&Arc<MemoryBudget>> {
        let own = self.table.schema().fields().len();
        let plain = self.limit.is_none() && self.index.is_none() && self.runtime.is_empty();
        let plain = plain && self.columns.iter().all(|column| *column < own);
        self.index_budget.as_ref().filter(|_| plain)
    }
}

/// Filters in the order in which they run, and the index, or the addresses, that find the rows for them.
struct Compiled {
    filters: Arc<[ScanFilter]>,
    index: Option<Arc<IndexScan>>,
    addressed: Option<Arc<[(u32, u32)]>>,
}

fn compiled(
    table: &TableVersion,
    full_schema: &SchemaRef,
    given: &[Arc<dyn PhysicalExpr>],
    index_budget: Option<&Arc<MemoryBudget>>,
) -> Result<Compiled> {
    let own = table.schema().fields().len();
    let is_stored = |filter: &&Arc<dyn PhysicalExpr>| collect_columns(filter).iter().all(|column| column.index() < own);
    let (given, places): (Vec<_>, Vec<_>) = given.iter().cloned().partition(|filter| is_stored(&filter));
    let mut filters = given
        .iter()
        .map(|f| ScanFilter::try_new(f, full_schema))
        .collect::<Result<Vec<_>>>()?;
    filters.sort_by_key(ScanFilter::cost);
    let filters: Arc<[ScanFilter]> = filters.into();
    let mut selector = Selector::new(Arc::clone(&filters), vec![]);
    let index = match index_budget {
        Some(budget) if !given.is_empty() => {
            let left = table.segments().iter().filter(|segment| selector.enter(segment));
            let scanned_rows = left.map(|segment| segment.rows()).sum();
            choose(table, full_schema, &given, scanned_rows, budget)?.map(Arc::new)
        }
        _ => None,
    };
    Ok(Compiled {
        filters,
        index,
        addressed: addressed(table, full_schema, &places),
    })
}

/// The rows of a table that have one of the addresses that these filters say.
fn addressed(
    table: &TableVersion,
    full_schema: &SchemaRef,
    places: &[Arc<dyn PhysicalExpr>],
) -> Option<Arc<[(u32, u32)]>> {
    if places.is_empty() {
        return None;
    }
    let address = full_schema.index_of(ADDRESS_FIELD).ok()?;
    let Some(Constraint::Points(values)) = constraints(places, full_schema).remove(&address) else {
        return None;
    };
    let addresses = values.iter().map(|value| match value {
        ScalarValue::FixedSizeBinary(_, Some(bytes)) => Some(tid::to_address(bytes)),
        _ => None,
    });
    let addresses = addresses.collect::<Option<Vec<_>>>()?;
    let mut found = Vec::new();
    for address in addresses.into_iter().flatten() {
        let mut segments = table.segments().iter().enumerate();
        let row = segments.find_map(|(number, segment)| Some((number as u32, segment.row_at(address)? as u32)));
        found.extend(row);
    }
    found.sort_unstable();
    found.dedup();
    Some(found.into())
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(
            f,
            "Scan: {}, columns=[{}], rows={}",
            self.table.name(),
            names.join(", "),
            self.table.rows()
        )?;
        if let Some(index) = &self.index {
            write!(f, ", index scan using {}", index.name)?;
        }
        if self.addressed.is_some() {
            write!(f, ", by address")?;
        }
        if let Some((_, index)) = self.first_by_index() {
            write!(f, ", first rows by {index}")?;
        }
        if !self.filters.is_empty() {
            let filters: Vec<_> = self.filters.iter().map(ToString::to_string).collect();
            write!(f, ", where {}", filters.join(" and "))?;
        }
        let runtime: Vec<_> = self.runtime_filters().collect();
        if !runtime.is_empty() {
            write!(f, ", runtime filters on {}", runtime.join(", "))?;
        }
        Ok(())
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in self.filters.iter() {
            if f(filter.expr())? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
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

    /// For the next round of a recursive query, which runs under the same task context: the rows come anew, and filters
    /// of the round before do not hold.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (shared, runtime, top) = (Arc::default(), vec![], None);
        Ok(Arc::new(Self {
            shared,
            runtime,
            top,
            ..self.as_ref().clone()
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition >= self.partitions {
            return internal_err!("the scan has no partition {partition}");
        }
        let shared = self.shared.get_or_make(&context, Shared::default);
        let runtime: Vec<_> = self
            .runtime
            .iter()
            .map(|(column, filter)| (*column, filter.cell(&context)))
            .collect();
        let top = self
            .top
            .clone()
            .map(|(column, filter)| Top::new(filter, column, Arc::clone(&self.full_schema)));
        let running = Running {
            selector: Selector::new(Arc::clone(&self.filters), runtime.clone()).with_top(top),
            runtime,
            first: self.first_by_index().map(|(first, _)| first),
            given: Arc::default(),
            scan: self.clone(),
            shared,
            left: self.limit.unwrap_or(usize::MAX),
            pending: None,
            ready: VecDeque::new(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            pruned: MetricBuilder::new(&self.metrics).counter("rows_pruned", partition),
            found: MetricBuilder::new(&self.metrics).counter("rows_found_by_index", partition),
        };
        let stream = futures::stream::try_unfold(running, |mut running| async move {
            // Segments are in memory: without this a scan would never give its thread back, nor see a cancellation.
            tokio::task::coop::consume_budget().await;
            Ok(running.next()?.map(|batch| (batch, running)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(self.statistics.clone()),
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema))),
        }
    }
}

/// Rows of one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentRange {
    pub segment: usize,
    pub offset: usize,
    pub rows: usize,
}

/// What a partition looks at next.
enum Work {
    /// Whether its last rows are to be read first.
    Run(SegmentRange, bool),
    Candidates(Vec<(u32, u32)>),
}

/// What the partitions of a running scan share.
#[derive(Default)]
struct Shared {
    /// A row number of the table with each segment rounded up to full morsels, or of the candidates.
    next_row: AtomicUsize,
    /// Rows that an index found, segment and row number, in the table's order; None: every row is looked at.
    candidates: OnceLock<Option<Vec<(u32, u32)>>>,
    /// The segments in the order in which they are read; None: as they are.
    order: OnceLock<Option<Vec<Place>>>,
    /// Held by the partition that asks the index.
    finding: Mutex<()>,
    /// Where rows are given in the order of a sort above.
    progress: Mutex<Progress>,
}

/// One partition under way.
struct Running {
    scan: ScanExec,
    selector: Selector,
    /// The runtime filters that are there at the start.
    runtime: Vec<(usize, Arc<OnceLock<KeySet>>)>,
    /// What a sort above wants of rows that an index has in its order; None: they are read as they lie, but for those `given`.
    first: Option<First>,
    given: Arc<Given>,
    shared: Arc<Shared>,
    /// Rows until the limit.
    left: usize,
    /// Selected rows of a segment, not enough yet for a batch.
    pending: Option<(usize, Vec<u32>)>,
    ready: VecDeque<RecordBatch>,
    metrics: BaselineMetrics,
    pruned: Count,
    found: Count,
}

impl Running {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let _timer = elapsed.timer();
        loop {
            if let Some(batch) = self.ready.pop_front() {
                if self.left == 0 {
                    return Ok(None);
                }
                let batch = batch.slice(0, batch.num_rows().min(self.left));
                self.left -= batch.num_rows();
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if self.left == 0 {
                return Ok(None);
            }
            match self.take_work()? {
                Some(Work::Run(run, backwards)) => self.read(run, backwards)?,
                Some(Work::Candidates(rows)) => self.read_among(&rows)?,
                None => match self.pending.take() {
                    Some((segment, rows)) => self.gather(segment, rows)?,
                    None => return Ok(None),
                },
            }
        }
    }

    fn take_work(&mut self) -> Result<Option<Work>> {
        let shared = Arc::clone(&self.shared);
        if let Some(first) = self.first
            && let Some(top) = self.selector.top_mut()
        {
            match shared.progress.lock().next(&self.scan, first, top)? {
                Next::Rows(rows) => {
                    self.found.add(rows.len());
                    return Ok(Some(Work::Candidates(rows)));
                }
                Next::Rest(given) => (self.first, self.given) = (None, given),
                Next::Nothing => return Ok(None),
            }
        }
        if shared.candidates.get().is_none() {
            let _finding = shared.finding.lock();
            if shared.candidates.get().is_none() {
                let mut found = self.find_candidates()?;
                if let Some(found) = &mut found {
                    self.sort_candidates(found);
                }
                self.found.add(found.as_ref().map_or(0, Vec::len));
                let usage = &self.scan.table.definition().usage;
                match &found {
                    Some(found) => usage.looked_up(1, found.len()),
                    None => usage.scan(),
                }
                let _ = shared.candidates.set(found);
            }
        }
        let Some(candidates) = shared.candidates.get().and_then(Option::as_ref) else {
            return Ok(self.take_run().map(|(run, backwards)| Work::Run(run, backwards)));
        };
        let at = shared.next_row.fetch_add(self.scan.batch_rows, Ordering::Relaxed);
        let left = candidates.get(at..).filter(|left| !left.is_empty());
        Ok(left.map(|left| {
            let mut next = left[..left.len().min(self.scan.batch_rows)].to_vec();
            if self.order().is_some() {
                next.sort_unstable();
            }
            Work::Candidates(next)
        }))
    }

    /// The order in which a sort above wants the segments.
    fn order(&self) -> Option<&[Place]> {
        let (column, filter) = self.scan.top.as_ref()?;
        let made = || order(&self.scan.table, *column, filter);
        self.shared.order.get_or_init(made).as_deref()
    }

    /// Puts rows that an index found in the order in which their segments are read.
    fn sort_candidates(&self, candidates: &mut [(u32, u32)]) {
        let Some(order) = self.order() else { return };
        let mut ranks = vec![(0, false); order.len()];
        for (rank, place) in order.iter().enumerate() {
            ranks[place.segment] = (rank, place.backwards);
        }
        candidates.sort_unstable_by_key(|&(segment, row)| {
            let (rank, backwards) = ranks[segment as usize];
            (rank, if backwards { u32::MAX - row } else { row })
        });
    }

    /// Asks the index that the plan names, or one for the keys that a join has found meanwhile.
    fn find_candidates(&mut self) -> Result<Option<Vec<(u32, u32)>>> {
        if let Some(addressed) = &self.scan.addressed {
            return Ok(Some(addressed.to_vec()));
        }
        if let Some(index) = &self.scan.index {
            return Ok(Some(index.reader.rows(&index.ranges)));
        }
        let Some(budget) = &self.scan.index_budget else {
            return Ok(None);
        };
        let table = &self.scan.table;
        for (column, set) in &self.runtime {
            let Some(set) = set.get() else { continue };
            let left = table.segments().iter().filter(|segment| self.selector.enter(segment));
            let scanned_rows = left.map(|segment| segment.rows()).sum();
            let found = semi_join(table, *column, set, scanned_rows, self.scan.partitions, budget)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The next morsel, and whether its last rows are to be read first.
    fn take_run(&mut self) -> Option<(SegmentRange, bool)> {
        let mut at = self.shared.next_row.fetch_add(MORSEL_ROWS, Ordering::Relaxed);
        let segments = self.scan.table.segments();
        let order = self.order();
        for number in 0..segments.len() {
            let place = order.map_or(
                Place {
                    segment: number,
                    backwards: false,
                },
                |order| order[number],
            );
            let rows = segments[place.segment].rows();
            let space = rows.next_multiple_of(MORSEL_ROWS);
            if at < space {
                let offset = if place.backwards { space - MORSEL_ROWS - at } else { at };
                let run = SegmentRange {
                    segment: place.segment,
                    offset,
                    rows: (rows - offset).min(MORSEL_ROWS),
                };
                return Some((run, place.backwards));
            }
            at -= space;
        }
        None
    }

    fn read(&mut self, run: SegmentRange, backwards: bool) -> Result<()> {
        let table = Arc::clone(&self.scan.table);
        let segment = &table.segments()[run.segment];
        if !self.selector.enter(segment) || !self.selector.is_wanted(segment)? {
            self.pruned.add(run.rows);
            return Ok(());
        }
        table.definition().usage.scanned(run.rows);
        let pieces = (0..run.rows).step_by(self.scan.batch_rows).map(|from| SegmentRange {
            segment: run.segment,
            offset: run.offset + from,
            rows: (run.rows - from).min(self.scan.batch_rows),
        });
        let mut pieces: Vec<_> = pieces.collect();
        if backwards {
            pieces.reverse();
        }
        if self.selector.passes_all(segment) && !self.given.has_any(run.segment) {
            self.flush()?;
            for piece in pieces {
                let batch = self.scan.slice(piece)?;
                self.ready.push_back(batch);
            }
            return Ok(());
        }
        if self
            .pending
            .as_ref()
            .is_some_and(|(segment, _)| *segment != run.segment)
        {
            self.flush()?;
        }
        // A sort that has its first rows lets the others through no more.
        let enough = self.scan.batch_rows / 2;
        let enough = self
            .selector
            .top()
            .map_or(enough, |top| top.rows().clamp(1, enough.max(1)));
        for piece in pieces {
            let (_, mut pending) = self.pending.take().unwrap_or((run.segment, vec![]));
            let mut rows = vec![];
            self.selector.select(segment, piece.offset, piece.rows, &mut rows)?;
            self.given.retain_others(run.segment, &mut rows);
            if pending.is_empty() && rows.len() == piece.rows {
                let batch = self.scan.slice(piece)?;
                self.ready.push_back(batch);
                continue;
            }
            match backwards {
                true => {
                    rows.append(&mut pending);
                    self.pending = Some((run.segment, rows));
                }
                false => {
                    pending.append(&mut rows);
                    self.pending = Some((run.segment, pending));
                }
            }
            if self
                .pending
                .as_ref()
                .is_some_and(|(_, pending)| pending.len() >= enough)
            {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn read_among(&mut self, candidates: &[(u32, u32)]) -> Result<()> {
        let table = Arc::clone(&self.scan.table);
        for of_segment in candidates.chunk_by(|(segment, _), (next, _)| segment == next) {
            let number = of_segment[0].0 as usize;
            let segment = &table.segments()[number];
            if self.selector.enter(segment) && self.selector.is_wanted(segment)? {
                let among = of_segment.iter().map(|(_, row)| *row).collect();
                let mut rows = vec![];
                self.selector.select_among(segment, among, &mut rows)?;
                self.given.retain_others(number, &mut rows);
                self.gather(number, rows)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        match self.pending.take() {
            Some((segment, rows)) => self.gather(segment, rows),
            None => Ok(()),
        }
    }

    fn gather(&mut self, segment: usize, rows: Vec<u32>) -> Result<()> {
        if !rows.is_empty() {
            self.ready.push_back(self.scan.gather(&self.scan.table, segment, rows)?);
        }
        Ok(())
    }
}
