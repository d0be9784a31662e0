//! The memory of statements that may use less than all queries have together: `tenon.query_memory_limit` for one of them,
//! `tenon.role_memory_limit` for those of a role.
//!
//! As for all of them, what operators reserve is held against the limit, and what the statement takes from the heap against one
//! a little higher.

use crate::pg::settings::Limits;
use crate::session::engine::margin;
use crate::session::stopped_pool::StoppedPool;
use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use tenon_storage::heap::{Account, Group};

/// What statements of roles hold that share a limit, by the roles' oids.
#[derive(Default)]
pub(crate) struct RoleMemory(Mutex<HashMap<u32, Weak<Group>>>);

impl RoleMemory {
    /// Of a role, while one of its sessions lives.
    pub fn of(&self, role: u32) -> Arc<Group> {
        let mut groups = self.0.lock();
        groups.retain(|_, group| group.strong_count() > 0);
        let known = groups.get(&role).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let group = Arc::<Group>::default();
            groups.insert(role, Arc::downgrade(&group));
            group
        })
    }
}

/// From now on the account's statement has these limits, and no others.
pub(super) fn limit(account: &Account, limits: Limits, role: &Arc<Group>) {
    let of_role = limits.role_bytes.map(|_| role);
    if limits.statement_bytes.is_none() && of_role.is_none() && !account.limits().are_set() {
        return;
    }
    let heap = |bytes: usize| bytes.saturating_add(margin(bytes));
    let bytes = limits.statement_bytes.unwrap_or(usize::MAX);
    account.limits().set(bytes, heap(bytes));
    let bytes = limits.role_bytes.unwrap_or(usize::MAX);
    account.limits().set_for_group(bytes, heap(bytes));
    account.is_limited(of_role);
}

/// The context of a plan of the account's statement, under its limit.
pub(super) fn limited(task: Arc<TaskContext>, account: &Arc<Account>) -> Arc<TaskContext> {
    if !account.limits().are_set() {
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
        self.account.limits().grow(additional);
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.account.limits().shrink(shrink);
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let limits = self.account.limits();
        if !limits.try_grow(additional) {
            let (name, limit) = (reservation.consumer().name(), limits.reserved_limit());
            return Err(resources_datafusion_err!(
                "{name} wants {additional} bytes more of the {limit} that its statement may use"
            ));
        }
        self.pool
            .try_grow(reservation, additional)
            .inspect_err(|_| limits.shrink(additional))
    }

    fn reserved(&self) -> usize {
        self.account.limits().reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.account.limits().reserved_limit())
    }
}
