//! Queries that have too little memory run once more, with operators that go on through files.

use crate::optimizer::execution::task;
use crate::optimizer::spill::pool::SharePool;
use crate::pg::error::{Result, SqlError};
use crate::session::run::ExecutionContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use std::sync::Arc;
use tenon_executor::options::PlanOptions;

/// With less, a query cannot even go through files, bytes.
const MEMORY_BYTES_MIN: usize = 4 << 20;

/// Rows of a batch.
const BATCH_ROWS: usize = 1024;

/// Memory for which a query gets one more partition, bytes: sorts, merges and what lies between them.
const PARTITION_BYTES_MIN: usize = 24 << 20;

/// How a query is run that goes through files.
pub(crate) struct Spilling {
    pub run: ExecutionContext,
    /// The query's memory, of which its operators get equal shares: the first would take all of it otherwise.
    _memory: MemoryReservation,
}

impl Spilling {
    /// Takes three quarters of the memory that is free. `error` is that of the run in memory.
    pub fn of(run: &ExecutionContext, error: &SqlError) -> Result<Self> {
        let environment = run.state.runtime_env();
        let limit_bytes = run.engine.options().query_memory_limit_bytes;
        let free = limit_bytes.saturating_sub(environment.memory_pool.reserved());
        let free = free.min(run.account.limits().free());
        let bytes = free / 4 * 3;
        let memory = MemoryConsumer::new("a query that goes through files").register(&environment.memory_pool);
        if bytes < MEMORY_BYTES_MIN || memory.try_grow(bytes).is_err() {
            return Err(error.clone());
        }
        let pool: Arc<dyn MemoryPool> = Arc::new(SharePool::new(bytes));
        let environment = RuntimeEnv {
            memory_pool: pool,
            ..environment.as_ref().clone()
        };
        let mut state = SessionStateBuilder::new_from_existing((*run.state).clone())
            .with_runtime_env(Arc::new(environment))
            .build();
        // A sort takes a few of its batches at the least, and each input of a merge holds one.
        let rows = state.config().batch_size().min(BATCH_ROWS);
        let config = state.config_mut();
        // Each partition of each sort gets a share. Joins are by sorted inputs only where there is something to share out.
        let partitions = config.target_partitions().min(bytes / PARTITION_BYTES_MIN).max(2);
        *config = config.clone().with_batch_size(rows).with_target_partitions(partitions);
        let options = config.options_mut();
        options.optimizer.prefer_hash_join = false;
        // What each partition of a sort keeps back for its merge.
        let share = bytes / (32 * options.execution.target_partitions);
        // Batches are sorted one by one: to join them first takes them twice.
        options.execution.sort_in_place_threshold_bytes = 0;
        options.execution.sort_spill_reservation_bytes = options.execution.sort_spill_reservation_bytes.min(share);
        let mut plan = options.extensions.get::<PlanOptions>().cloned().unwrap_or_default();
        plan.spill = true;
        options.extensions.insert(plan);
        let run = ExecutionContext {
            task: task(&state),
            state: Arc::new(state),
            ..run.clone()
        };
        Ok(Self { run, _memory: memory })
    }
}
