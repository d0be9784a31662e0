//! Running a plan: on the query threads, a bounded number at a time, its batches forwarded with back-pressure.
//!
//! More than 400 lines because a query's ways to run share what is tried, kept and given up.

use crate::optimizer::execution::{self, fresh, shares_state};
use crate::optimizer::few;
use crate::optimizer::open_limits::{self, OpenLimits};
use crate::optimizer::parameters::{by_rows, is_fillable, opened};
use crate::optimizer::{self, passes};
use crate::pg::bounds;
use crate::pg::error::{Result, SqlError, canceled, out_of_memory, state};
use crate::pg::errors::from_datafusion;
use crate::pg::functions::held::with_values;
use crate::pg::nodes::LimitByValueExec;
use crate::pg::outcome::BatchStream;
use crate::pg::planning;
use crate::pg::semantics::array_depths::is_array_cast;
use crate::pg::tasks;
use crate::session::admission::{AdmissionTicket, Standing};
use crate::session::engine::Engine;
use crate::session::explain;
use crate::session::own_pool;
use crate::session::plan_cache::{Keeper, PlanCacheMode, Serves, Slot};
use crate::session::reads::Noted;
use crate::session::role_turns::{InLine, RoleLimit};
use crate::session::spilling::Spilling;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, NullEquality, Result as DataFusionResult, ScalarValue};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, StreamExt};
use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tenon_executor::gather::debug_assert_listed;
use tenon_executor::memory_size::batch_bytes;
use tenon_executor::per_execution;
use tenon_executor::scan::ScanExec;
use tenon_storage::heap::{self, Account, Attempt};
use tenon_storage::network::CIDR;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Batches that may wait for the client.
const BATCHES_AHEAD: usize = 4;
/// Of a query that holds this much, one batch waits at a time, bytes.
const HELD_BYTES_LARGE: usize = 8 << 20;
/// Waking another thread takes longer than what is done with so many rows.
const ROWS_FEW: usize = 256;
/// A client that reads on so soon holds up nothing.
const CLIENT_GRACE: Duration = Duration::from_millis(10);
/// A plan of this cost does not begin among the short ones: it takes more than a moment.
const COST_LONG: f64 = 100_000.0;

/// What a statement's plans are made and run with.
#[derive(Clone)]
pub(crate) struct ExecutionContext {
    pub engine: Arc<Engine>,
    /// Of the engine, with the session's wishes for its joins.
    pub state: Arc<SessionState>,
    pub task: Arc<TaskContext>,
    pub cancel: CancellationToken,
    /// What the statement holds.
    pub account: Arc<Account>,
    pub standing: Standing,
    /// Where the role may run so many at a time.
    pub role_limit: Option<RoleLimit>,
    /// Set where EXPLAIN ANALYZE wants to see the plans that run.
    pub watch: Option<Arc<Watch>>,
    /// What describing the statement has come to.
    pub analyzed: Option<Arc<Analyzed>>,
}

/// A plan that was analyzed, under a state, to know its columns: the statement's, if that has nothing to be filled in.
pub(crate) struct Analyzed {
    state: Arc<SessionState>,
    /// Of what was analyzed.
    hash: u64,
    plan: LogicalPlan,
}

/// The first plan that a statement runs, and the time that making it took.
#[derive(Debug, Default)]
pub(crate) struct Watch(OnceLock<(Arc<dyn ExecutionPlan>, Duration)>);

impl ExecutionContext {
    /// A place for one of the statement's plans, which has no turn yet.
    pub fn place(&self) -> AdmissionTicket<'_> {
        let mut place = self.engine.admission.place(&self.account, &self.standing);
        place.role = InLine::under(self.role_limit.clone());
        place
    }

    /// The same, with batches left in the order in which one source gives them, where it must count which row came first.
    pub fn in_order(mut self) -> Self {
        let mut state = (*self.state).clone();
        let options = state.config_mut().options_mut();
        options.optimizer.enable_round_robin_repartition = false;
        self.state = Arc::new(state);
        self
    }

    /// The same for rows that are computed one by one, in the order in which one source gives them.
    pub fn row_by_row(self) -> Self {
        let mut own = self.in_order();
        let mut state = (*own.state).clone();
        let config = state.config_mut();
        *config = config.clone().with_batch_size(1).with_target_partitions(1);
        own.task = execution::task(&state);
        own.state = Arc::new(state);
        own
    }
}

impl Watch {
    fn note(&self, plan: &Arc<dyn ExecutionPlan>, planning: Duration) {
        // Later plans are of its parts: RETURNING, a conflict's rows.
        let _ = self.0.set((plan.clone(), planning));
    }

    pub fn seen(&self) -> Option<&(Arc<dyn ExecutionPlan>, Duration)> {
        self.0.get()
    }
}

/// Why a statement ends that was stopped.
pub(crate) fn stopped(account: &Account) -> SqlError {
    if account.is_over() { out_of_memory() } else { canceled() }
}

/// Optimizes and starts a plan. Errors of planning come back here, those of running in the stream; dropping the
/// stream stops the work.
pub(crate) async fn start(run: &ExecutionContext, plan: LogicalPlan) -> Result<BatchStream> {
    start_source(run, Source::Logical(Box::new(plan))).await
}

/// What is run.
pub(crate) enum Source {
    /// A plan to be made.
    Logical(Box<LogicalPlan>),
    /// The same, to be kept for these values of its parameters, which are in the plan already.
    Kept {
        plan: Box<LogicalPlan>,
        values: Vec<ScalarValue>,
        keeper: Keeper,
    },
    /// A plan with open parameters, to be kept for any values if it is a good one, and run with these.
    Open {
        plan: Box<LogicalPlan>,
        values: Vec<ScalarValue>,
        keeper: Keeper,
        mode: PlanCacheMode,
    },
    /// A plan that was kept, and for which statement.
    Physical(Arc<dyn ExecutionPlan>, Arc<Slot>),
}

impl Source {
    /// Whether there is nothing but expressions to evaluate, once.
    fn is_one_row(&self) -> bool {
        let plan = match self {
            Self::Logical(plan) | Self::Kept { plan, .. } | Self::Open { plan, .. } => plan,
            Self::Physical(plan, _) => {
                let mut plan = plan;
                while plan.is::<ProjectionExec>() {
                    plan = plan.children()[0];
                }
                return plan.is::<PlaceholderRowExec>();
            }
        };
        let mut plan = plan.as_ref();
        let reads = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
        while let LogicalPlan::Projection(projection) = plan {
            let reads = |expr: &Expr| expr.exists(|expr| Ok(reads(expr))).unwrap_or(true);
            if projection.expr.iter().any(reads) {
                return false;
            }
            plan = projection.input.as_ref();
        }
        matches!(plan, LogicalPlan::EmptyRelation(_))
    }

    /// What to plan once more, and the statement whose plans are kept.
    fn again(&self) -> Result<(Option<LogicalPlan>, Option<Arc<Slot>>)> {
        Ok(match self {
            Self::Logical(plan) => (Some((**plan).clone()), None),
            Self::Kept { plan, keeper, .. } => (Some((**plan).clone()), Some(keeper.slot.clone())),
            Self::Open {
                plan, values, keeper, ..
            } => {
                let bound = with_values(plan.as_ref().clone(), values);
                let bound = bound.map_err(|error| from_datafusion(&error))?;
                (Some(bound), Some(keeper.slot.clone()))
            }
            Self::Physical(_, slot) => (None, Some(slot.clone())),
        })
    }
}

pub(crate) async fn start_source(run: &ExecutionContext, source: Source) -> Result<BatchStream> {
    let (batches, receiver) = mpsc::channel(BATCHES_AHEAD);
    let (planned, ready) = oneshot::channel();
    // A token of this plan's own: cancelled with the statement's, and when the plan is dropped.
    let token = run.cancel.child_token();
    let own = ExecutionContext {
        cancel: token.clone(),
        ..run.clone()
    };
    let threads = match source.is_one_row() {
        true => run.engine.short()?.clone(),
        false => run.engine.beginning()?.clone(),
    };
    let work = async move {
        let _dropped = token.clone().drop_guard();
        let mut planned = Some(planned);
        let stop = token.clone();
        let job = produce(&own, source, &batches, &mut planned);
        let result = tokio::select! {
            biased;
            _ = stop.cancelled() => Err(stopped(&own.account)),
            _ = batches.closed() => Ok(()),
            result = AssertUnwindSafe(job).catch_unwind() => result.unwrap_or_else(|panic| Err(panicked(&*panic))),
        };
        match (planned.take(), result) {
            (Some(planned), result) => drop(planned.send(result)),
            (None, Err(error)) => drop(batches.send(Err(error)).await),
            (None, Ok(())) => {}
        }
    };
    threads.spawn(tasks::task(Some(run.account.clone()), false, work));
    // Planning is not to be interrupted: who no longer waits for it leaves it to find out.
    tokio::select! {
        biased;
        result = ready => match result {
            Ok(result) => result?,
            Err(_) => return Err(SqlError::internal("the query ended without a result")),
        },
        _ = run.cancel.cancelled() => return Err(stopped(&run.account)),
    }
    Ok(futures::stream::unfold(receiver, |mut receiver| async move {
        let next = receiver.recv().await?;
        Some((next, receiver))
    })
    .fuse()
    .boxed())
}

/// How long a plan that was given up may take to give back what it holds.
const SETTLING: Duration = Duration::from_secs(10);
/// What it may keep anyway, bytes.
const REST_BYTES_MIN: usize = 4 << 20;

/// Runs a plan. One that has too little memory runs once more, with operators that go on through files, where the server
/// has a directory for these and no row was sent.
async fn produce(
    run: &ExecutionContext,
    source: Source,
    batches: &mpsc::Sender<Result<RecordBatch>>,
    planned: &mut Option<oneshot::Sender<Result<()>>>,
) -> Result<()> {
    let token = run.cancel.child_token();
    let attempted = run.account.attempt(token.clone());
    let (Some(_), Some(attempted)) = (&run.engine.options().spill, attempted) else {
        return attempt(run, source, batches, planned, None).await;
    };
    let (again, slot) = source.again()?;
    let reserved = run.state.runtime_env().memory_pool.reserved();
    let mut attempted = Some(attempted);
    let first = ExecutionContext {
        cancel: token.clone(),
        ..run.clone()
    };
    let error = {
        let job = attempt(&first, source, batches, planned, Some(&mut attempted));
        let result = tokio::select! {
            biased;
            () = token.cancelled() => Err(stopped(&run.account)),
            result = job => result,
        };
        match result {
            Err(error) if error.state == state::OUT_OF_MEMORY => error,
            result => return result,
        }
    };
    if let Some(slot) = slot {
        slot.note_spilling();
    }
    let (Some(plan), Some(attempted), false) = (again, attempted, run.cancel.is_cancelled()) else {
        return Err(error);
    };
    tracing::debug!("a query goes on through files: {error}");
    settle(run, reserved).await;
    attempted.give_up();
    let spilling = Spilling::of(run, &error)?;
    let source = Source::Logical(Box::new(plan));
    attempt(&spilling.run, source, batches, planned, None).await
}

/// Waits until the tasks of a plan that was given up have ended: what they have reserved is missed otherwise. `reserved`: what
/// all queries had reserved before it.
async fn settle(run: &ExecutionContext, reserved: usize) {
    let (begin, pool) = (Instant::now(), &run.state.runtime_env().memory_pool);
    let rest = (heap::limit_bytes().min(run.account.limits().held()) / 8).max(REST_BYTES_MIN);
    while (pool.reserved() > reserved.saturating_add(rest) || run.account.bytes() > rest) && begin.elapsed() < SETTLING
    {
        tokio::time::sleep(SETTLING / 5000).await;
    }
}

/// Runs a plan once. `attempted` is gone once a row was sent.
async fn attempt(
    run: &ExecutionContext,
    source: Source,
    batches: &mpsc::Sender<Result<RecordBatch>>,
    planned: &mut Option<oneshot::Sender<Result<()>>>,
    mut attempted: Option<&mut Option<Attempt<'_>>>,
) -> Result<()> {
    let mut place = run.place();
    match source.is_one_row() {
        true => place.go_free().await,
        false => place.take().await,
    }
    let begin = Instant::now();
    let Ready { plan, task } = planning::under(run.cancel.clone(), plan_of(run, source)).await?;
    if let Some(watch) = &run.watch {
        watch.note(&plan, begin.elapsed());
    }
    if place.is_doubtful() && cost(&plan) >= COST_LONG {
        place.give_way().await;
    }
    let (task, _ending) = per_execution::begin(&own_pool::limited(task, &run.account));
    let mut stream = execute_stream(plan, task).map_err(|error| from_datafusion(&error))?;
    if let Some(planned) = planned.take() {
        let _ = planned.send(Ok(()));
    }
    place.restart();
    while let Some(batch) = place.run(stream.next()).await {
        // What a plan says of itself while it is taken apart is no news.
        if run.cancel.is_cancelled() {
            return Err(stopped(&run.account));
        }
        let batch = batch.map_err(|error| from_datafusion(&error))?;
        if batch.num_rows() > 0 {
            if let Some(attempted) = &mut attempted {
                **attempted = None;
            }
            if !forward(&mut place, batches, batch).await {
                break;
            }
        }
    }
    Ok(())
}

/// Hands a batch on, without a turn where the client keeps it waiting. Says whether anybody is there to take it.
async fn forward(
    place: &mut AdmissionTicket<'_>,
    batches: &mpsc::Sender<Result<RecordBatch>>,
    batch: RecordBatch,
) -> bool {
    debug_assert_listed(batch.columns(), []);
    let room = match place.account().bytes() >= HELD_BYTES_LARGE {
        true => BATCHES_AHEAD,
        false => 1,
    };
    let mut waiting = std::pin::pin!(batches.reserve_many(room));
    let reserved = match tokio::time::timeout(CLIENT_GRACE, &mut waiting).await {
        Ok(reserved) => reserved,
        Err(_) => {
            place.leave();
            waiting.await
        }
    };
    match reserved {
        Ok(mut permits) => {
            if let Some(permit) = permits.next() {
                permit.send(Ok(batch));
            }
            true
        }
        Err(_) => false,
    }
}

/// A plan, and what to run it with.
pub(crate) struct Ready {
    pub plan: Arc<dyn ExecutionPlan>,
    pub task: Arc<TaskContext>,
}

/// The plan to run.
pub(crate) async fn plan_of(run: &ExecutionContext, source: Source) -> Result<Ready> {
    let told = |error| from_datafusion(&error);
    match source {
        // Runs of one plan know each other apart by their context.
        Source::Physical(plan, _) => Ok(Ready {
            plan,
            task: execution::task(&run.state),
        }),
        Source::Logical(plan) => physical(run, *plan).await,
        Source::Kept { plan, values, keeper } => {
            let ready = physical(run, *plan).await?;
            if !values.is_empty() {
                keeper.slot.note_custom(keeper.basis.tables(), cost(&ready.plan));
            }
            // With long constants it runs by short batches.
            if Arc::ptr_eq(&ready.task, &run.task) {
                run.engine.plans.keep(keeper, &ready.plan, Serves::These(values));
            }
            Ok(ready)
        }
        Source::Open {
            plan,
            values,
            keeper,
            mode,
        } => {
            // What cannot be planned without its values may well be with them.
            let open = open(run, &plan, &values).await.unwrap_or(None);
            let open = open.filter(|(open, _)| !shares_state(open));
            if let Some((open, limits)) = &open {
                // Its scans choose their indexes by the values: what it costs is told only with some.
                let plan = fresh(open, Some(&values)).map_err(told)?;
                if keeper.slot.note_generic(Some(cost(&plan)), mode) {
                    run.engine.plans.keep(keeper, open, Serves::Any(limits.clone()));
                    let task = execution::task(&run.state);
                    return Ok(Ready { plan, task });
                }
            }
            let bound = with_values(*plan, &values).map_err(told)?;
            let ready = physical(run, bound).await?;
            if open.is_none() {
                keeper.slot.note_generic(None, mode);
            }
            let tables = keeper.basis.tables();
            // What it is expected to cost without its values may differ where nothing else does.
            let alike = open.as_ref().is_some_and(|(open, _)| are_alike(open, &ready.plan));
            let generic = keeper.slot.note_custom_beside(tables, cost(&ready.plan), alike, mode);
            match open.filter(|_| generic) {
                Some((open, limits)) => run.engine.plans.keep(keeper, &open, Serves::Any(limits)),
                None => run.engine.plans.keep(keeper, &ready.plan, Serves::These(values)),
            }
            Ok(ready)
        }
    }
}

/// Whether plans have the same nodes over the same tables. Limits aside, which are those of sorts and scans below them, too; and what
/// spreads rows over partitions and gathers them, which depends on how many are expected.
fn are_alike(one: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    fn bare(mut plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
        let is_limit = |plan: &Arc<dyn ExecutionPlan>| {
            plan.is::<LimitByValueExec>() || plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>()
        };
        while is_limit(plan) || few::hands_rows_on(plan) {
            plan = plan.children()[0];
        }
        plan
    }
    let (one, other) = (bare(one), bare(other));
    let table = |plan: &Arc<dyn ExecutionPlan>| plan.downcast_ref::<ScanExec>().map(|scan| scan.table().oid());
    let (below, below_other) = (one.children(), other.children());
    one.name() == other.name()
        && table(one) == table(other)
        && below.len() == below_other.len()
        && below.iter().zip(below_other).all(|(one, other)| are_alike(one, other))
}

/// A plan's cost as EXPLAIN shows it.
fn cost(plan: &Arc<dyn ExecutionPlan>) -> f64 {
    explain::describe(plan, false).estimate.total_cost
}

/// The physical plan of a logical one that leaves its parameters open, with limits for values like these; None where there is none.
pub(crate) async fn open(
    run: &ExecutionContext,
    plan: &LogicalPlan,
    values: &[ScalarValue],
) -> DataFusionResult<Option<(Arc<dyn ExecutionPlan>, OpenLimits)>> {
    let Some((plan, limits)) = open_limits::opened(plan.clone(), values)? else {
        return Ok(None);
    };
    let plan = bounds::planning(|| optimizer::prepared(passes::optimized(&run.state, plan)?))?;
    let Some(plan) = opened(by_rows(plan)?)? else {
        return Ok(None);
    };
    let plan = optimizer::physical(&plan, run.state.as_ref()).await?;
    Ok(is_fillable(&plan)?.then_some((plan, limits)))
}

/// The physical plan of a logical one.
pub(crate) async fn physical(run: &ExecutionContext, plan: LogicalPlan) -> Result<Ready> {
    ready(run, plan).await.map_err(|error| from_datafusion(&error))
}

async fn ready(run: &ExecutionContext, plan: LogicalPlan) -> DataFusionResult<Ready> {
    let noted = Noted::of(&run.state, &plan)?;
    let is_known = |known: &&Arc<Analyzed>| Arc::ptr_eq(&known.state, &run.state) && known.hash == passes::hash(&plan);
    let known = run.analyzed.as_ref().filter(is_known).map(|known| known.plan.clone());
    let plan = bounds::planning(|| {
        let analyzed = known.map_or_else(|| passes::analyzed(&run.state, plan), Ok)?;
        passes::optimized_whole(&run.state, analyzed)
    })?;
    let rows = run.state.config().batch_size();
    let fitting = bounds::batch_rows(bounds::longest_constant(&plan)?, rows);
    let (state, task) = if fitting == rows {
        (run.state.clone(), run.task.clone())
    } else {
        let mut state = (*run.state).clone();
        let config = state.config_mut();
        *config = config.clone().with_batch_size(fitting);
        let task = execution::task(&state);
        (Arc::new(state), task)
    };
    // What the query planner does, without a copy of the plan.
    let plan = optimizer::physical(&optimizer::prepared(plan)?, state.as_ref()).await?;
    noted.end();
    Ok(Ready { plan, task })
}

/// The columns that a plan gives, and the plan analyzed where that tells them. Before analysis a UNION has the types of its first
/// input, and a CASE those of its first result, whatever the others make of them.
pub(crate) fn columns(
    state: &Arc<SessionState>,
    statement: &planning::Statement,
    plan: &LogicalPlan,
) -> Result<(DFSchemaRef, Option<Arc<Analyzed>>)> {
    let mixes = |expr: &Expr| match expr {
        Expr::Case(_) | Expr::ScalarFunction(_) | Expr::ScalarSubquery(_) => true,
        // An array keeps the dimensions that it has.
        expr => is_array_cast(expr),
    };
    let coerces = plan.exists(|node| {
        // A set operation's networks may become addresses, and its left side what the right one is.
        let mut found = match node {
            LogicalPlan::Union(_) => true,
            LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull => {
                let (left, right) = (join.left.schema().fields(), join.right.schema().fields());
                let mut pairs = left.iter().zip(right.iter());
                pairs.any(|(left, right)| *left.data_type() == CIDR || left.data_type() != right.data_type())
            }
            _ => false,
        };
        // Conditions and keys of orders are no columns, and no column has its type of them.
        let chooses_rows = matches!(
            node,
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_)
        );
        if !chooses_rows {
            node.apply_expressions(|expr| {
                found = found || expr.exists(|expr| Ok(mixes(expr)))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(found)
    });
    if !coerces.unwrap_or(false) {
        return Ok((plan.schema().clone(), None));
    }
    planning::under_here(statement, || {
        let analyzed = passes::analyzed(state, plan.clone());
        planning::check()?;
        Ok(match analyzed {
            Ok(analyzed) => {
                let known = Analyzed {
                    state: state.clone(),
                    hash: passes::hash(plan),
                    plan: analyzed,
                };
                (known.plan.schema().clone(), Some(Arc::new(known)))
            }
            // What is wrong with the plan is told when it runs.
            Err(_) => (plan.schema().clone(), None),
        })
    })
}

/// Runs a plan to its end, giving each batch to `take` on the query threads.
pub(crate) async fn drain<T: Send + 'static>(
    run: &ExecutionContext,
    plan: LogicalPlan,
    sink: T,
    take: impl FnMut(&mut T, RecordBatch) -> Result<()> + Send + 'static,
) -> Result<T> {
    drain_source(run, Source::Logical(Box::new(plan)), sink, take).await
}

/// The same for any plan.
pub(crate) async fn drain_source<T: Send + 'static>(
    run: &ExecutionContext,
    source: Source,
    mut sink: T,
    mut take: impl FnMut(&mut T, RecordBatch) -> Result<()> + Send + 'static,
) -> Result<T> {
    let own = run.clone();
    aside(&run.engine, async move {
        let mut stream = start_source(&own, source).await?;
        while let Some(batch) = stream.next().await {
            take(&mut sink, batch?)?;
        }
        Ok(sink)
    })
    .await
}

/// The rows of a stream that has come to its end without an error. What a statement has changed is committed before its rows go
/// to the client: none of them may fail after that.
pub(crate) async fn whole(run: &ExecutionContext, mut stream: BatchStream) -> Result<BatchStream> {
    let task = own_pool::limited(run.task.clone(), &run.account);
    let memory = MemoryConsumer::new("rows of a change").register(task.memory_pool());
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let bytes = batch_bytes(&batch);
        memory.try_grow(bytes).map_err(|error| from_datafusion(&error))?;
        batches.push((batch, bytes));
    }
    let rows = batches.into_iter().map(move |(batch, bytes)| {
        memory.shrink(bytes);
        Ok(batch)
    });
    Ok(futures::stream::iter(rows).boxed())
}

/// Runs work on the query threads that reads a whole table. A panic becomes an error of this statement.
pub(crate) async fn background<T: Send + 'static>(
    engine: &Engine,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    on(engine.handle()?, work).await
}

/// The same for work that may well be short, until its statement is known to be long.
pub(crate) async fn aside<T: Send + 'static>(
    engine: &Engine,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    on(engine.beginning()?, work).await
}

/// The same for work over so many rows, which this thread does itself where they are few.
pub(crate) async fn aside_over<T: Send + 'static>(
    engine: &Engine,
    rows: usize,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    if rows > ROWS_FEW {
        return aside(engine, work).await;
    }
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => Err(panicked(&*panic)),
    }
}

async fn on<T: Send + 'static>(threads: &Handle, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let work = tasks::task(heap::current(), false, AssertUnwindSafe(work).catch_unwind());
    match threads.spawn(work).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(panicked(&*panic)),
        Err(error) => Err(SqlError::internal(error)),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> SqlError {
    let told = panic
        .downcast_ref::<&str>()
        .map(|text| text.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown panic".into());
    tracing::error!("a query panicked: {told}");
    SqlError::internal("the query failed by an internal error").detail(told)
}
