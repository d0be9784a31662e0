//! What one statement holds, and its end where that is too much.

use super::{Entered, Gate, Interrupt, allocator, watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use tokio_util::sync::CancellationToken;

/// The memory of one statement, or of one cursor.
pub struct Account {
    /// Taken less given back. Below zero where it gives back what others took.
    bytes: AtomicIsize,
    /// It was stopped for its memory.
    over: AtomicBool,
    token: CancellationToken,
    /// Holds back the tasks that the statement has started.
    pub gate: Gate,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Account({} bytes)", self.bytes())
    }
}

impl Account {
    /// Cancels `token` where the statement holds too much.
    pub fn new(token: CancellationToken) -> Arc<Self> {
        let account = Arc::new(Self {
            bytes: AtomicIsize::new(0),
            over: AtomicBool::new(false),
            token,
            gate: Gate::default(),
        });
        watch::open(&account);
        account
    }

    /// What it holds now, but for what its threads have not booked yet.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed).max(0) as usize
    }

    /// Whether it was stopped for its memory.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn interrupt(&self) -> Option<Interrupt> {
        match (self.is_over(), self.token.is_cancelled()) {
            (true, _) => Some(Interrupt::Memory),
            (false, true) => Some(Interrupt::Cancelled),
            (false, false) => None,
        }
    }

    /// Makes this thread work for the account, until the guard is dropped.
    pub fn enter(self: &Arc<Self>) -> Entered<'_> {
        allocator::enter(self)
    }

    /// Ends the statement.
    pub(super) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.token.cancel();
    }

    /// Called by the allocator: must not allocate.
    #[cold]
    pub(super) fn book(&self, bytes: isize) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        watch::add((before + bytes).max(0) - before.max(0));
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        watch::add(-(self.bytes() as isize));
        watch::close(self);
    }
}
