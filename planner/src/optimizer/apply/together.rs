//! Rows of an input whose subqueries run together, as one plan over the values of them all ([`unnested`]).

use super::asked::Asked;
use super::pairs::pairs_few;
use super::rows::{RowsOfRun, RowsTable, fields};
use super::unnested::{Unnested, unnested};
use super::{Running, optimized};
use crate::optimizer;
use crate::optimizer::execution::{fresh, in_config, shares_state};
use crate::pg::nodes::{Apply, ApplyKind, GUARD};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::{SortColumn, lexsort_to_indices};
use datafusion::arrow::datatypes::{DataType, Int64Type, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenon_executor::gather::{concat_batches, pick};
use tenon_executor::options::{DeviceChoice, JoinOptions};
use tokio::sync::{OnceCell, RwLock};

/// Rows of the input that run together at first, and at most: more each time, for not all rows may be asked for.
const ROWS_FIRST: usize = 64;
const ROWS_MAX: usize = 1 << 17;
const GROWTH: usize = 4;
/// What a subquery gives for the rows that run together, at most, as far as those before them tell.
const FOUND_BYTES_MAX: usize = 4 << 20;
/// Fewer rows of different values run one by one.
const ROWS_MIN: usize = 4;
/// Rows that are expected where the input does not say.
const ROWS_EXPECTED: usize = 8192;

/// A plan that is made when the first rows ask for it.
#[derive(Default)]
pub(super) struct Lazy {
    /// None: the subquery runs row by row.
    of: Option<Asking>,
    made: OnceCell<Option<Together>>,
    /// Held by each partition whose rows run together.
    running: RwLock<()>,
    /// Memory was too little for that: rows run one by one from now on.
    short: AtomicBool,
}

struct Asking {
    /// As it stands for one row.
    subquery: Arc<LogicalPlan>,
    kind: ApplyKind,
    types: Vec<DataType>,
    /// Rows of the input.
    expected: Option<usize>,
}

impl Lazy {
    pub fn of(
        node: &Apply,
        ids: &[String],
        input: &Arc<dyn ExecutionPlan>,
        values: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Self> {
        let schema = input.schema();
        let types = values.iter().map(|value| value.data_type(&schema));
        let known = StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new())?;
        let of = Asking {
            subquery: Arc::clone(&node.subquery),
            kind: node.kind,
            types: types.collect::<Result<_>>()?,
            expected: known.num_rows.get_value().copied(),
        };
        let possible = ids.iter().any(|id| id != GUARD);
        Ok(Self {
            of: possible.then_some(of),
            ..Self::default()
        })
    }

    /// Whether there may be such a plan, as far as is known.
    pub fn is_possible(&self) -> bool {
        self.of.is_some() && !matches!(self.made.get(), Some(None)) && !self.short.load(Ordering::Relaxed)
    }

    async fn get(&self, ids: &[String], state: &SessionState) -> Option<&Together> {
        let of = self.of.as_ref()?;
        let make = async {
            // What cannot be planned so still runs row by row.
            let plan = Together::prepared(of, ids, state);
            Box::pin(plan).await.unwrap_or(None)
        };
        self.made.get_or_init(|| make).await.as_ref()
    }
}

/// The plan over the rows' values.
struct Together {
    plan: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    in_order: bool,
    state: SessionState,
}

/// The subquery's rows, those of each of the input's together.
struct Found {
    rows: RecordBatch,
    /// Where those of each number are.
    of: Vec<Range<u32>>,
}

impl Together {
    /// None: the subquery runs row by row.
    async fn prepared(of: &Asking, ids: &[String], state: &SessionState) -> Result<Option<Self>> {
        let Asking {
            subquery, kind, types, ..
        } = of;
        let is_mark = *kind == ApplyKind::Mark;
        let kept: Vec<usize> = (0..ids.len()).filter(|at| ids[*at] != GUARD).collect();
        let Some(fields) = fields(subquery, ids, types, &kept)? else {
            return Ok(None);
        };
        let schema = Arc::new(Schema::new(fields));
        let table = RowsTable {
            schema: Arc::clone(&schema),
            expected: of.expected.unwrap_or(ROWS_EXPECTED).clamp(1, ROWS_MAX),
        };
        let ids: Vec<String> = kept.iter().map(|at| ids[*at].clone()).collect();
        let Some(Unnested { plan, in_order }) = unnested(subquery, &ids, Arc::new(table), is_mark)? else {
            return Ok(None);
        };
        // The device would take the values of one run for those of the next.
        let mut state = state.clone();
        let options = JoinOptions {
            device: DeviceChoice::Cpu,
            ..JoinOptions::of(state.config())
        };
        state.config_mut().set_extension(Arc::new(options));
        let plan = optimizer::physical(&optimized(plan, &state)?, &state).await?;
        let own = plan.schema();
        let before = if in_order { 2 } else { 1 };
        let types = own.fields().iter().skip(before).map(|field| field.data_type());
        let as_told = is_mark || types.eq(subquery.schema().fields().iter().map(|field| field.data_type()));
        Ok((as_told && !shares_state(&plan) && pairs_few(&plan)?).then_some(Self {
            plan,
            schema,
            in_order,
            state,
        }))
    }

    fn run(&self, values: &[ArrayRef], rows: usize) -> Result<SendableRecordBatchStream> {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        let columns = std::iter::once(numbers).chain(values.iter().cloned()).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let config = self.state.config().clone().with_extension(Arc::new(RowsOfRun(batch)));
        let plan = fresh(&self.plan, None)?;
        execute_stream(plan, in_config(&self.state, config))
    }

    /// The subquery's rows for these values, of which there are `count`.
    async fn found(&self, values: &[ArrayRef], count: usize, reservation: &MemoryReservation) -> Result<Found> {
        let mut stream = self.run(values, count)?;
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            // Once as they come, and once in order.
            reservation.try_grow(2 * batch.get_array_memory_size())?;
            batches.push(batch);
        }
        drop(stream);
        let all = concat_batches(&batches)?.unwrap_or_else(|| RecordBatch::new_empty(self.plan.schema()));
        if all.num_rows() > u32::MAX as usize {
            return internal_err!("a subquery gives too many rows");
        }
        let numbers = all.column(0).as_primitive::<Int64Type>().values();
        let order = match self.in_order {
            true => {
                let key = |at: usize| SortColumn {
                    values: Arc::clone(all.column(at)),
                    options: None,
                };
                lexsort_to_indices(&[key(0), key(1)], None)?
            }
            false => by_number(numbers, count),
        };
        let mut of = vec![0..0; count];
        let mut at = 0;
        for row in order.values() {
            let own = &mut of[numbers[*row as usize] as usize];
            if own.start == own.end {
                *own = at..at;
            }
            at += 1;
            own.end = at;
        }
        let columns = all.columns().iter().skip(if self.in_order { 2 } else { 1 });
        let columns = columns.map(|column| pick(column, &order)).collect::<Result<Vec<_>>>()?;
        let fields: Vec<_> = all
            .schema()
            .fields()
            .iter()
            .skip(if self.in_order { 2 } else { 1 })
            .cloned()
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(order.len()));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        Ok(Found { rows, of })
    }
}

/// The rows by their numbers, those of one number as they come.
fn by_number(numbers: &[i64], count: usize) -> UInt32Array {
    let mut next = vec![0_u32; count + 1];
    numbers.iter().for_each(|number| next[*number as usize + 1] += 1);
    (1..next.len()).for_each(|at| next[at] += next[at - 1]);
    let mut order = vec![0; numbers.len()];
    for (row, number) in numbers.iter().enumerate() {
        let place = &mut next[*number as usize];
        order[*place as usize] = row as u32;
        *place += 1;
    }
    UInt32Array::from(order)
}

impl Running {
    /// Runs the subquery for all rows of the input, many at a time.
    pub(super) async fn all(
        &mut self,
        mut input: SendableRecordBatchStream,
        values: &[Arc<dyn PhysicalExpr>],
    ) -> Result<()> {
        let (mut wanted, mut held, mut ended) = (ROWS_FIRST, Vec::new(), false);
        loop {
            let mut rows: usize = held.iter().map(RecordBatch::num_rows).sum();
            while rows < wanted && !ended {
                match input.next().await {
                    Some(batch) => {
                        let batch = batch?;
                        rows += batch.num_rows();
                        held.push(batch);
                    }
                    None => ended = true,
                }
            }
            let Some(all) = concat_batches(&held)?.filter(|_| rows > 0) else {
                return Ok(());
            };
            let now = rows.min(wanted);
            held = vec![all.slice(now, rows - now)];
            let Some(bytes) = self.together(all.slice(0, now), values).await? else {
                return Ok(());
            };
            let fits = FOUND_BYTES_MAX / (bytes / now).max(1);
            wanted = (wanted * GROWTH).min(fits).clamp(ROWS_FIRST, ROWS_MAX);
        }
    }

    /// The bytes of what the subquery gave, as far as its rows ran together; None where nobody waits for more.
    async fn together(&mut self, batch: RecordBatch, values: &[Arc<dyn PhysicalExpr>]) -> Result<Option<usize>> {
        let rows = batch.num_rows();
        let mut guard = None;
        let mut arrays = Vec::with_capacity(values.len());
        for (value, id) in values.iter().zip(&self.inner.ids) {
            let array = value.evaluate(&batch)?.into_array(rows)?;
            match id == GUARD {
                true => guard = Some(array.as_boolean().clone()),
                false => arrays.push(array),
            }
        }
        let asked = Asked::of(&arrays, guard.as_ref(), rows)?;
        let inner = Arc::clone(&self.inner);
        if asked.firsts.len() < ROWS_MIN || !inner.together.is_possible() {
            return self.one_by_one(batch, values).await;
        }
        let Some(together) = inner.together.get(&inner.ids, &inner.state).await else {
            return self.one_by_one(batch, values).await;
        };
        let running = inner.together.running.read().await;
        let firsts = UInt32Array::from(asked.firsts);
        let arrays = arrays
            .iter()
            .map(|array| pick(array, &firsts))
            .collect::<Result<Vec<_>>>()?;
        let reservation = MemoryConsumer::new("subquery").register(self.context.memory_pool());
        match together.found(&arrays, firsts.len(), &reservation).await {
            Ok(found) => {
                drop(running);
                let bytes = found.rows.get_array_memory_size();
                let more = self.beside_each(&batch, &asked.numbers, &found).await?;
                Ok(more.then_some(bytes))
            }
            // One by one they take less.
            Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                inner.together.short.store(true, Ordering::Relaxed);
                drop((reservation, running));
                // Until the other partitions have given back what they hold.
                drop(inner.together.running.write().await);
                self.one_by_one(batch, values).await
            }
            Err(error) => Err(error),
        }
    }

    async fn one_by_one(&mut self, batch: RecordBatch, values: &[Arc<dyn PhysicalExpr>]) -> Result<Option<usize>> {
        let more = self.batch(batch, values).await?;
        Ok(more.then_some(0))
    }

    async fn beside_each(&mut self, batch: &RecordBatch, numbers: &[Option<u32>], found: &Found) -> Result<bool> {
        let of = |number: &Option<u32>| number.map_or(0..0, |number| found.of[number as usize].clone());
        if self.kind == ApplyKind::Mark {
            let marks: BooleanArray = numbers.iter().map(|number| Some(!of(number).is_empty())).collect();
            let columns = batch.columns().iter().cloned().chain([Arc::new(marks) as ArrayRef]);
            return self.put_out(columns.collect(), batch.num_rows()).await;
        }
        let (mut left, mut right): (Vec<u32>, Vec<Option<u32>>) = Default::default();
        for (row, number) in numbers.iter().enumerate() {
            let mut rest = of(number);
            if rest.is_empty() && self.kind == ApplyKind::Left {
                left.push(row as u32);
                right.push(None);
            }
            while !rest.is_empty() {
                let room = self.rows_most.saturating_sub(left.len()).max(1);
                let next = rest.start..rest.end.min(rest.start.saturating_add(room as u32));
                rest.start = next.end;
                left.extend(std::iter::repeat_n(row as u32, next.len()));
                right.extend(next.map(Some));
                if left.len() >= self.rows_most && !self.pairs(batch, &mut left, &mut right, found).await? {
                    return Ok(false);
                }
            }
            if left.len() >= self.rows_most && !self.pairs(batch, &mut left, &mut right, found).await? {
                return Ok(false);
            }
        }
        self.pairs(batch, &mut left, &mut right, found).await
    }

    async fn pairs(
        &mut self,
        batch: &RecordBatch,
        left: &mut Vec<u32>,
        right: &mut Vec<Option<u32>>,
        found: &Found,
    ) -> Result<bool> {
        let (left, right) = (UInt32Array::from(std::mem::take(left)), std::mem::take(right));
        let rows = left.len();
        if rows == 0 {
            return Ok(true);
        }
        let mut columns = batch
            .columns()
            .iter()
            .map(|column| pick(column, &left))
            .collect::<Result<Vec<_>>>()?;
        let right = UInt32Array::from(right);
        for (column, field) in found
            .rows
            .columns()
            .iter()
            .zip(self.schema.fields().iter().skip(columns.len()))
        {
            columns.push(match right.null_count() == rows {
                true => new_null_array(field.data_type(), rows),
                false => pick(column, &right)?,
            });
        }
        self.put_out(columns, rows).await
    }

    async fn put_out(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<bool> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.metrics.record_output(rows);
        Ok(self.output.send(Ok(batch)).await.is_ok())
    }
}
