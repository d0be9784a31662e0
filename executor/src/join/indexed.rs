//! `SELECT ... FROM outer JOIN inner ON inner.k = outer.x AND inner.n BETWEEN outer.low AND outer.high [AND ...]` with an
//! index on `inner (k, n)`: indexed nested loops (He 2008, section 4.2) on the CPU, for outer sides of few rows.
//!
//! More than 400 lines because the node and its one running loop share their fields.
//!
//! Each outer row is looked up in the index; the rows found pass the inner table's own filters and the rest of the
//! join's condition. Pieces of about `PAIRS_MAX` pairs hold whole outer rows, so that all that an outer row meets is
//! known when its piece is put out. Every join kind whose inner rows need not be seen without a partner.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{and, filter};
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType, Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr, PlanProperties,
    SendableRecordBatchStream, StatisticsArgs,
};
use futures::TryStreamExt;
use tenon_storage::{Segment, TableVersion};

use super::choice::Choice;
use super::path::Operator;
use crate::explain::Chosen;
use crate::gather::{concat, pick};
use crate::index::{Declared, IndexData, IndexReader};
use crate::keys::all_valid;
use crate::scan::{ScanExec, Selector, take_column};

/// Pairs of a piece, where no outer row alone has more.
const PAIRS_MAX: usize = 32 * 1024;
/// Outer rows that are looked up together before it is known how many rows each of them finds.
const LOOKED_UP_FIRST: usize = 64;
/// What a pair takes while its piece is joined, without its columns.
const PAIR_BYTES: usize = 32;

/// What is looked up for each outer row: a prefix of the index's key, and the bounds of the column after it. Expressions
/// over the outer side, of the types of the key's columns.
#[derive(Debug, Clone, Default)]
pub struct Lookup {
    pub equal: Vec<PhysicalExprRef>,
    pub low: Option<PhysicalExprRef>,
    pub high: Option<PhysicalExprRef>,
}

/// What is joined, apart from the inputs.
#[derive(Debug, Clone)]
pub struct IndexJoinSpec {
    pub index: String,
    pub lookup: Lookup,
    /// Expressions over the outer side that must equal columns of the inner one, beside those looked up.
    pub also_equal: Vec<(PhysicalExprRef, usize)>,
    pub outer_side: JoinSide,
    pub join_type: JoinType,
    pub filter: Option<JoinFilter>,
    /// Source of each output column.
    pub output: Vec<ColumnIndex>,
}

impl IndexJoinSpec {
    /// Whether the join kind can be computed from its outer side, which is `outer_side`.
    pub fn is_supported(join_type: JoinType, outer_side: JoinSide) -> bool {
        use JoinType::*;
        match outer_side {
            JoinSide::Left => matches!(join_type, Inner | Left | LeftSemi | LeftAnti | LeftMark),
            JoinSide::Right => matches!(join_type, Inner | Right | RightSemi | RightAnti | RightMark),
            JoinSide::None => false,
        }
    }

    fn emits(&self) -> Emits {
        use JoinType::*;
        match self.join_type {
            Inner => Emits::Pairs { unmatched: false },
            Left | Right | Full => Emits::Pairs { unmatched: true },
            LeftSemi | RightSemi => Emits::Outer { matched: true },
            LeftAnti | RightAnti => Emits::Outer { matched: false },
            LeftMark | RightMark => Emits::Marked,
        }
    }
}

/// What an outer row gives.
enum Emits {
    /// Its pairs; without any, itself beside NULLs where `unmatched`.
    Pairs { unmatched: bool },
    /// Itself, if it has a pair or if it has none.
    Outer { matched: bool },
    /// Itself, and whether it has a pair.
    Marked,
}

#[derive(Debug)]
pub struct IndexJoinExec {
    outer: Arc<dyn ExecutionPlan>,
    inner: Arc<ScanExec>,
    /// None where the scan's table is without rows, too.
    reader: Option<Arc<IndexReader>>,
    spec: Arc<IndexJoinSpec>,
    /// Rows that the planner expects.
    estimate: Option<usize>,
    /// Why the index is used.
    choice: Option<Choice>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl IndexJoinExec {
    /// `reader` is the index over the inner scan's table; `schema` is the output's.
    pub fn new(
        outer: Arc<dyn ExecutionPlan>,
        inner: Arc<ScanExec>,
        reader: Option<Arc<IndexReader>>,
        spec: Arc<IndexJoinSpec>,
        schema: SchemaRef,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(outer.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            outer,
            inner,
            reader,
            spec,
            estimate: None,
            choice: None,
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
        }
    }

    /// The same join, expected to put out `rows` rows.
    pub fn with_estimate(mut self, rows: usize) -> Self {
        self.estimate = Some(rows);
        self
    }

    /// The same join, which was chosen so.
    pub fn with_choice(mut self, choice: Choice) -> Self {
        self.choice = Some(choice);
        self
    }

    /// The same join over another outer side.
    pub fn with_outer(&self, outer: Arc<dyn ExecutionPlan>) -> Self {
        self.over(outer, Arc::clone(&self.inner), self.reader.clone())
    }

    fn over(&self, outer: Arc<dyn ExecutionPlan>, inner: Arc<ScanExec>, reader: Option<Arc<IndexReader>>) -> Self {
        let mut own = Self::new(outer, inner, reader, Arc::clone(&self.spec), self.schema());
        own.estimate = self.estimate;
        own.choice = self.choice.clone();
        own
    }

    /// The same join with another scan of its inner table, of another version of it if `reader` is over that; a detached scan has
    /// none.
    pub fn with_inner(&self, inner: ScanExec, reader: Option<Arc<IndexReader>>) -> Self {
        self.over(Arc::clone(&self.outer), Arc::new(inner), reader)
    }

    /// The same join with `change` made to the filters of its inner scan, and to what rows are looked up by.
    pub fn with_values_changed(
        &self,
        change: impl Fn(Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let equal = self.spec.lookup.equal.iter().cloned().map(&change);
        let spec = IndexJoinSpec {
            lookup: Lookup {
                equal: equal.collect::<Result<_>>()?,
                ..self.spec.lookup.clone()
            },
            ..self.spec.as_ref().clone()
        };
        let inner = self.inner.with_filters_changed(change)?;
        let mut changed = self.with_inner(inner, self.reader.clone());
        changed.spec = Arc::new(spec);
        Ok(changed)
    }

    /// The join's index over a version of its inner table; None where there is none, or it is to be asked for anew whether it is
    /// worth it.
    pub fn reader_of(&self, table: &TableVersion) -> Option<Arc<IndexReader>> {
        let mut indexes = table.definition().all_indexes();
        let index = Declared::from(indexes.find(|index| index.name == self.spec.index)?);
        let rows = usize::try_from(table.rows()).unwrap_or(usize::MAX);
        let ready = IndexData::ready(table, &index);
        let made = || IndexData::reader_for(table, &index, rows, self.inner.lookup_budget()?).ok()?;
        ready.or_else(made)
    }

    /// Whether each outer row is looked up by columns of the outer side and values alone.
    pub fn is_plain(&self) -> bool {
        let IndexJoinSpec {
            lookup,
            also_equal,
            filter,
            ..
        } = self.spec.as_ref();
        let mut keys = lookup.equal.iter().chain(also_equal.iter().map(|(expr, _)| expr));
        let is_plain = |key: &PhysicalExprRef| key.is::<Column>() || collect_columns(key).is_empty();
        lookup.low.is_none() && lookup.high.is_none() && filter.is_none() && keys.all(is_plain)
    }

    /// The rows that a batch of the outer side gives, with this scan and this index in the place of the join's; None where it has
    /// more than so many pairs.
    pub fn join_few(
        &self,
        outer: RecordBatch,
        inner: ScanExec,
        reader: Arc<IndexReader>,
        pairs_max: usize,
    ) -> Result<Option<RecordBatch>> {
        Operator::Inlj.count(false);
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let metrics = ExecutionPlanMetricsSet::new();
        let mut running = self.running(Arc::new(inner), reader, &pool, (&metrics, 0));
        running.pairs_max = pairs_max;
        running.enter(outer)?;
        let joined = running.next_piece();
        // Some are left, or the lookup was broken off.
        match running.has_too_many || running.current.is_some() {
            true => Ok(None),
            false => joined,
        }
    }

    fn running(
        &self,
        inner: Arc<ScanExec>,
        reader: Arc<IndexReader>,
        pool: &Arc<dyn MemoryPool>,
        (metrics, partition): (&ExecutionPlanMetricsSet, usize),
    ) -> Running {
        Running {
            selector: Selector::new(Arc::clone(inner.filters()), vec![]),
            inner,
            reader,
            spec: Arc::clone(&self.spec),
            schema: self.schema(),
            current: None,
            reservation: MemoryConsumer::new("index join").register(pool),
            pairs_max: usize::MAX,
            has_too_many: false,
            metrics: BaselineMetrics::new(metrics, partition),
            found: MetricBuilder::new(metrics).counter("rows_looked_up", partition),
        }
    }

    pub fn outer(&self) -> &Arc<dyn ExecutionPlan> {
        &self.outer
    }

    /// The scan whose rows are looked up instead.
    pub fn inner(&self) -> &Arc<ScanExec> {
        &self.inner
    }

    pub fn spec(&self) -> &IndexJoinSpec {
        &self.spec
    }
}

impl DisplayAs for IndexJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let Lookup { equal, low, high } = &self.spec.lookup;
        let mut keys: Vec<String> = equal.iter().map(|expr| format!("= {expr}")).collect();
        keys.extend(low.iter().map(|expr| format!(">= {expr}")));
        keys.extend(high.iter().map(|expr| format!("<= {expr}")));
        let (kind, index, keys) = (self.spec.join_type, &self.spec.index, keys.join(", "));
        write!(f, "IndexJoinExec: INLJ {kind}, index scan using {index} for {keys}")?;
        if let Some(filter) = &self.spec.filter {
            write!(f, ", where {filter}")?;
        }
        write!(f, ", inner ")?;
        self.inner.fmt_as(DisplayFormatType::Default, f)
    }
}

impl ExecutionPlan for IndexJoinExec {
    fn name(&self) -> &str {
        "IndexJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.outer]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let Lookup { equal, low, high } = &self.spec.lookup;
        let also = self.spec.also_equal.iter().map(|(expr, _)| expr);
        let filter = self.spec.filter.as_ref().map(JoinFilter::expression);
        for expr in equal.iter().chain(low).chain(high).chain(also).chain(filter) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([outer]) = <[_; 1]>::try_from(children) else {
            return internal_err!("IndexJoinExec has one input");
        };
        Ok(Arc::new(self.with_outer(outer)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition == 0 {
            Operator::Inlj.count(false);
        }
        let Some(reader) = &self.reader else {
            return internal_err!("an index join runs without its index");
        };
        let (inner, reader) = (Arc::clone(&self.inner), Arc::clone(reader));
        let running = self.running(inner, reader, context.memory_pool(), (&self.metrics, partition));
        let input = self.outer.execute(partition, context)?;
        let stream = futures::stream::try_unfold((running, input), |(mut running, mut input)| async move {
            loop {
                // An index lookup waits for nothing: without this a long join would never give its thread back.
                tokio::task::coop::consume_budget().await;
                if running.current.is_none() {
                    match input.try_next().await? {
                        Some(batch) => running.enter(batch)?,
                        None => return Ok(None),
                    }
                }
                if let Some(batch) = running.next_piece()?
                    && batch.num_rows() > 0
                {
                    running.metrics.record_output(batch.num_rows());
                    return Ok(Some((batch, (running, input))));
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let (Some(rows), None) = (self.estimate, args.partition()) {
            statistics.num_rows = Precision::Inexact(rows);
        }
        Ok(Arc::new(statistics))
    }
}

impl Chosen for IndexJoinExec {
    fn operator(&self) -> &'static str {
        "Nested Loop"
    }

    fn device(&self) -> &'static str {
        "cpu"
    }

    fn reason(&self) -> Option<String> {
        self.choice.as_ref().map(ToString::to_string)
    }
}

/// A batch of the outer side with the values of its lookups.
struct Outer {
    batch: RecordBatch,
    equal: Vec<ArrayRef>,
    low: Option<ArrayRef>,
    high: Option<ArrayRef>,
    also_equal: Vec<ArrayRef>,
    /// Rows before this one are done.
    next: usize,
}

/// One partition under way.
struct Running {
    inner: Arc<ScanExec>,
    selector: Selector,
    reader: Arc<IndexReader>,
    spec: Arc<IndexJoinSpec>,
    schema: SchemaRef,
    current: Option<Outer>,
    reservation: MemoryReservation,
    /// Where more pairs than so many are found, that is an error.
    pairs_max: usize,
    has_too_many: bool,
    metrics: BaselineMetrics,
    /// Rows that the index has given.
    found: Count,
}

/// An inner row, segment and row number, and an outer row.
type Pair = (u32, u32, u32);

impl Running {
    fn enter(&mut self, batch: RecordBatch) -> Result<()> {
        let value = |expr: &PhysicalExprRef| expr.evaluate(&batch)?.into_array(batch.num_rows());
        let Lookup { equal, low, high } = &self.spec.lookup;
        let outer = Outer {
            equal: equal.iter().map(value).collect::<Result<_>>()?,
            low: low.as_ref().map(value).transpose()?,
            high: high.as_ref().map(value).transpose()?,
            also_equal: self
                .spec
                .also_equal
                .iter()
                .map(|(expr, _)| value(expr))
                .collect::<Result<_>>()?,
            batch,
            next: 0,
        };
        self.current = Some(outer);
        Ok(())
    }

    /// Joins the next outer rows of the current batch.
    fn next_piece(&mut self) -> Result<Option<RecordBatch>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let Some(mut outer) = self.current.take() else {
            return Ok(None);
        };
        let from = outer.next;
        let pairs = self.look_up(&mut outer)?;
        self.found.add(pairs.len());
        let (pairs, inner) = self.conditioned(&outer, pairs)?;
        let piece = self.emit(&outer, from, &pairs, &inner)?;
        if outer.next < outer.batch.num_rows() {
            self.current = Some(outer);
        }
        Ok(Some(piece))
    }

    /// What the index finds for the next outer rows, as far as `PAIRS_MAX` allows, in the inner table's order.
    fn look_up(&mut self, outer: &mut Outer) -> Result<Vec<Pair>> {
        let before = outer.next;
        let mut pairs = match (&outer.low, &outer.high) {
            (None, None) => self.look_up_equal(outer)?,
            _ => self.look_up_ranges(outer)?,
        };
        let usage = &self.inner.table().definition().usage;
        usage.looked_up(outer.next - before, pairs.len());
        pairs.sort_unstable();
        Ok(pairs)
    }

    /// Equal keys, many together: as many as are expected to find what is left of `PAIRS_MAX`.
    fn look_up_equal(&mut self, outer: &mut Outer) -> Result<Vec<Pair>> {
        let mut pairs: Vec<Pair> = vec![];
        let (mut looked_up, mut reserved) = (0, 0);
        while outer.next < outer.batch.num_rows() && pairs.len() < PAIRS_MAX {
            let found_each = pairs.len() / looked_up.max(1) + 1;
            let together = ((PAIRS_MAX - pairs.len()) / found_each).clamp(1, 4 * looked_up.max(LOOKED_UP_FIRST));
            let from = outer.next;
            outer.next = outer.batch.num_rows().min(from + together);
            looked_up += outer.next - from;
            let probes: Vec<ArrayRef> = outer.equal.iter().map(|v| v.slice(from, outer.next - from)).collect();
            let (reservation, pairs_max, has_too_many) =
                (&mut self.reservation, self.pairs_max, &mut self.has_too_many);
            self.reader.equal_rows(&probes, |number, segment, inner| {
                if pairs.len() >= pairs_max {
                    *has_too_many = true;
                    return internal_err!("an index finds more rows than are wanted");
                }
                if pairs.len() == reserved {
                    reserved = (2 * reserved).max(PAIRS_MAX / 4);
                    reservation.try_resize(reserved * PAIR_BYTES)?;
                }
                pairs.push((segment, inner, (from + number) as u32));
                Ok(())
            })?;
        }
        Ok(pairs)
    }

    /// Ranges of keys, one after the other.
    fn look_up_ranges(&mut self, outer: &mut Outer) -> Result<Vec<Pair>> {
        let bounds = outer.equal.iter().chain(&outer.low).chain(&outer.high);
        let valid = all_valid(&bounds.cloned().collect::<Vec<_>>());
        let mut pairs = vec![];
        while outer.next < outer.batch.num_rows() && pairs.len() < PAIRS_MAX {
            let row = outer.next;
            outer.next += 1;
            if valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
                continue;
            }
            let one = |values: &ArrayRef| values.slice(row, 1);
            let prefix: Vec<ArrayRef> = outer.equal.iter().map(one).collect();
            let (low, high) = (outer.low.as_ref().map(one), outer.high.as_ref().map(one));
            let range = [self.reader.encoding().range(&prefix, low.as_ref(), high.as_ref())?];
            self.reservation
                .try_resize((pairs.len() + self.reader.count(&range)) * PAIR_BYTES)?;
            self.reader
                .visit(&range[0], |segment, inner| pairs.push((segment, inner, row as u32)));
        }
        Ok(pairs)
    }

    /// The pairs that pass the inner table's filters and the join's condition, with the columns of their inner rows:
    /// those that somebody reads.
    fn conditioned(&mut self, outer: &Outer, pairs: Vec<Pair>) -> Result<(UInt32Array, Vec<Option<ArrayRef>>)> {
        let table = Arc::clone(self.inner.table());
        let mut kept: Vec<Pair> = Vec::with_capacity(pairs.len());
        for of_segment in pairs.chunk_by(|a, b| a.0 == b.0) {
            let segment = &table.segments()[of_segment[0].0 as usize];
            if !self.selector.enter(segment) {
                continue;
            }
            let mut rows: Vec<u32> = of_segment.iter().map(|pair| pair.1).collect();
            rows.dedup();
            let mut passing = vec![];
            self.selector.select_among(segment, rows, &mut passing)?;
            kept.extend(of_segment.iter().filter(|pair| passing.binary_search(&pair.1).is_ok()));
        }
        let inner = self.inner_columns(table.segments(), &kept)?;
        let outer_rows = UInt32Array::from_iter_values(kept.iter().map(|pair| pair.2));
        let Some(keep) = self.condition(outer, &outer_rows, &inner)? else {
            return Ok((outer_rows, inner));
        };
        let columns = inner
            .iter()
            .map(|column| column.as_ref().map(|column| filter(column, &keep)).transpose());
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let outer_rows = UInt32Array::from(filter(&outer_rows, &keep)?.to_data());
        Ok((outer_rows, columns))
    }

    fn inner_columns(&self, segments: &[Arc<Segment>], pairs: &[Pair]) -> Result<Vec<Option<ArrayRef>>> {
        let inner_side = self.spec.outer_side.negate();
        let reads = |index: usize| {
            let mut filtered = self.spec.filter.iter().flat_map(|filter| filter.column_indices());
            let is_it = |own: &ColumnIndex| own.side == inner_side && own.index == index;
            let compared = self.spec.also_equal.iter().any(|(_, column)| *column == index);
            compared || filtered.any(is_it) || self.spec.output.iter().any(is_it)
        };
        let gather = |(index, column): (usize, &usize)| {
            if !reads(index) {
                return Ok(None);
            }
            let mut pieces = vec![];
            for of_segment in pairs.chunk_by(|a, b| a.0 == b.0) {
                let rows = UInt32Array::from_iter_values(of_segment.iter().map(|pair| pair.1));
                pieces.push(take_column(&segments[of_segment[0].0 as usize], *column, &rows)?);
            }
            let schema = self.inner.schema();
            Ok(Some(concat(&pieces, || Ok(schema.field(index).data_type().clone()))?))
        };
        self.inner.columns().iter().enumerate().map(gather).collect()
    }

    /// Which pairs pass the condition; None: it has nothing to say beyond the lookup.
    fn condition(
        &self,
        outer: &Outer,
        outer_rows: &UInt32Array,
        inner: &[Option<ArrayRef>],
    ) -> Result<Option<BooleanArray>> {
        let column = |inner: &Option<ArrayRef>| match inner {
            Some(column) => Ok(Arc::clone(column)),
            None => internal_err!("an index join reads a column that it has not gathered"),
        };
        let mut answers: Vec<BooleanArray> = vec![];
        for ((_, index), values) in self.spec.also_equal.iter().zip(&outer.also_equal) {
            let values = pick(values, outer_rows)?;
            answers.push(arrow::compute::kernels::cmp::eq(&values, &column(&inner[*index])?)?);
        }
        if let Some(filter) = &self.spec.filter {
            let columns = filter.column_indices().iter().map(|own| {
                if own.side == self.spec.outer_side {
                    pick(outer.batch.column(own.index), outer_rows)
                } else {
                    column(&inner[own.index])
                }
            });
            let options = RecordBatchOptions::new().with_row_count(Some(outer_rows.len()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let batch = RecordBatch::try_new_with_options(Arc::clone(filter.schema()), columns, &options)?;
            let answer = filter.expression().evaluate(&batch)?.into_array(outer_rows.len())?;
            answers.push(as_boolean_array(&answer)?.clone());
        }
        let all = answers.into_iter().map(Ok::<_, arrow::error::ArrowError>);
        Ok(all.reduce(|a, b| and(&a?, &b?)).transpose()?)
    }

    /// The output of the outer rows from `from` on that are done.
    fn emit(&self, outer: &Outer, from: usize, pairs: &UInt32Array, inner: &[Option<ArrayRef>]) -> Result<RecordBatch> {
        let mut matched = vec![false; outer.next - from];
        pairs
            .values()
            .iter()
            .for_each(|row| matched[*row as usize - from] = true);
        let rows_that = |wanted: bool| {
            let rows = matched.iter().enumerate().filter(move |(_, own)| **own == wanted);
            rows.map(move |(row, _)| (from + row) as u32)
        };
        match self.spec.emits() {
            Emits::Pairs { unmatched: false } => self.gather(outer, pairs, inner, None),
            Emits::Pairs { unmatched: true } => {
                let alone: Vec<u32> = rows_that(false).collect();
                let padded = inner.iter().map(|column| {
                    let column = column.as_ref()?;
                    let nulls = new_null_array(column.data_type(), alone.len());
                    Some(concat(&[Arc::clone(column), nulls], || Ok(column.data_type().clone())))
                });
                let padded = padded.map(Option::transpose).collect::<Result<Vec<_>, _>>()?;
                let rows = UInt32Array::from_iter_values(pairs.values().iter().copied().chain(alone));
                self.gather(outer, &rows, &padded, None)
            }
            Emits::Outer { matched } => {
                let rows = UInt32Array::from_iter_values(rows_that(matched));
                self.gather(outer, &rows, &[], None)
            }
            Emits::Marked => {
                let rows = UInt32Array::from_iter_values(from as u32..outer.next as u32);
                self.gather(outer, &rows, &[], Some(Arc::new(BooleanArray::from(matched))))
            }
        }
    }

    fn gather(
        &self,
        outer: &Outer,
        outer_rows: &UInt32Array,
        inner: &[Option<ArrayRef>],
        mark: Option<ArrayRef>,
    ) -> Result<RecordBatch> {
        let columns = self.spec.output.iter().map(|ColumnIndex { index, side }| {
            let found = match side {
                JoinSide::None => mark.clone(),
                side if *side == self.spec.outer_side => {
                    return pick(outer.batch.column(*index), outer_rows);
                }
                _ => inner.get(*index).cloned().flatten(),
            };
            match found {
                Some(column) => Ok(column),
                None => internal_err!("an output column of an index join has no source"),
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(outer_rows.len()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns,
            &options,
        )?)
    }
}
