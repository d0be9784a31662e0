//! The memory of one statement that may use less than all that queries have together (`tenon.query_memory_limit`).
//!
//! As for all of them, what operators reserve is held against the limit, and what the statement takes from the heap against one
//! a little higher.

use crate::session::engine::margin;
use crate::session::stopped_pool::StoppedPool;
use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use std::fmt;
use std::sync::Arc;
use tenon_storage::heap::Account;

/// From now on the account's statement may reserve so much.
pub(super) fn limit(account: &Account, bytes: usize) {
    account.limit_reserved(bytes);
    account.limit(bytes.saturating_add(margin(bytes)));
}

/// What it may reserve still, bytes.
pub(super) fn free(account: &Account) -> usize {
    account.reserved().free()
}

/// The context of a plan of the account's statement, under its limit.
pub(super) fn limited(task: Arc<TaskContext>, account: &Arc<Account>) -> Arc<TaskContext> {
    if account.reserved().limit_bytes() == usize::MAX {
        return task;
    }
    let environment = task.runtime_env();
    let own = OwnPool {
        pool: environment.memory_pool.clone(),
        account: account.clone(),
    };
    let environment = RuntimeEnv {
        memory_pool: Arc::new(StoppedPool(Arc::new(own))),
        ..environment.as_ref().clone()
    };
    Arc::new(TaskContext::new(
        task.task_id(),
        task.session_id(),
        task.session_config().clone(),
        task.scalar_functions().clone(),
        task.higher_order_functions().clone(),
        task.aggregate_functions().clone(),
        task.window_functions().clone(),
        Arc::new(environment),
    ))
}

#[derive(Debug)]
struct OwnPool {
    /// Of all statements.
    pool: Arc<dyn MemoryPool>,
    account: Arc<Account>,
}

impl fmt::Display for OwnPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl MemoryPool for OwnPool {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.account.reserved().grow(additional);
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.account.reserved().shrink(shrink);
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let reserved = self.account.reserved();
        if !reserved.try_grow(additional) {
            let (name, limit) = (reservation.consumer().name(), reserved.limit_bytes());
            return Err(resources_datafusion_err!(
                "{name} wants {additional} bytes more of the {limit} that its statement may use"
            ));
        }
        self.pool
            .try_grow(reservation, additional)
            .inspect_err(|_| reserved.shrink(additional))
    }

    fn reserved(&self) -> usize {
        self.account.reserved().bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.account.reserved().limit_bytes())
    }
}
