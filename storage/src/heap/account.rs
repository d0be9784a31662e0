//! What one statement holds, and its end where that is too much.

use super::{Entered, Gate, Group, Interrupt, Limits, allocator, watch};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What allocators keep of less is not worth looking for.
const LARGE_BYTES: isize = 16 << 20;

/// The memory of one statement, or of one cursor.
pub struct Account {
    /// Taken less given back. Below zero where it gives back what others took.
    bytes: AtomicIsize,
    limits: Limits,
    /// It was stopped for its memory.
    over: AtomicBool,
    token: CancellationToken,
    ending: Mutex<Ending>,
    /// Holds back the tasks that the statement has started.
    pub gate: Gate,
    /// It has held much.
    large: AtomicBool,
    /// Its tasks belong among those that may take minutes.
    long: AtomicBool,
}

#[derive(Default)]
struct Ending {
    /// Cancelled in place of the statement, which can begin anew.
    attempt: Option<CancellationToken>,
    /// When it was stopped for its memory.
    since: Option<Instant>,
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
            limits: Limits::default(),
            over: AtomicBool::new(false),
            token,
            ending: Mutex::default(),
            gate: Gate::default(),
            large: AtomicBool::new(false),
            long: AtomicBool::new(false),
        });
        watch::open(&account);
        account
    }

    /// What it holds now, but for what its threads have not booked yet.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed).max(0) as usize
    }

    /// What it may hold and reserve, beside what all statements may.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// From now on somebody looks after its limits. `group`: those that share one with it.
    pub fn is_limited(&self, group: Option<&Arc<Group>>) {
        watch::start();
        if let Some(group) = group
            && self.limits.join(group)
        {
            group.add(self.bytes() as isize);
        }
    }

    /// Whether its own limit leaves room for so many bytes more.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes().saturating_add(bytes) <= self.limits.held()
    }

    /// The same of its group's limit.
    pub(super) fn group_has_room(&self, bytes: usize) -> bool {
        let group = self.limits.group();
        group.is_none_or(|group| group.bytes().saturating_add(bytes) <= self.limits.group_held())
    }

    /// Whether it holds next to nothing, and has given back next to nothing that others took.
    pub fn is_settled(&self, bytes: usize) -> bool {
        self.bytes.load(Ordering::Relaxed).unsigned_abs() < bytes
    }

    /// Whether it was stopped for its memory.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Its work is not short: its tasks are to leave the threads of short work.
    pub fn set_long(&self) {
        self.long.store(true, Ordering::Relaxed);
    }

    pub fn is_long(&self) -> bool {
        self.long.load(Ordering::Relaxed)
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

    /// While the guard lives, `token` is cancelled in place of the statement where that holds too much. None where part of
    /// the statement has such a token already.
    pub fn attempt(&self, token: CancellationToken) -> Option<Attempt<'_>> {
        let mut ending = self.ending.lock();
        if ending.attempt.is_some() || self.is_over() {
            return None;
        }
        ending.attempt = Some(token);
        Some(Attempt(self))
    }

    /// Ends the statement, or its attempt.
    pub(super) fn stop(&self) {
        let mut ending = self.ending.lock();
        ending.since = Some(Instant::now());
        self.over.store(true, Ordering::Relaxed);
        ending.attempt.as_ref().unwrap_or(&self.token).cancel();
    }

    /// For how long it has been stopped.
    pub(super) fn stopped_for(&self) -> Option<Duration> {
        let since = self.ending.lock().since?;
        self.is_over().then(|| since.elapsed())
    }

    /// Called by the allocator: must not allocate.
    #[cold]
    pub(super) fn book(&self, bytes: isize) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > LARGE_BYTES && !self.large.load(Ordering::Relaxed) {
            self.large.store(true, Ordering::Relaxed);
        }
        let change = (before + bytes).max(0) - before.max(0);
        if let Some(group) = self.limits.group() {
            group.add(change);
        }
        let is_past = watch::add(change);
        let is_past_own = bytes > 0 && !(self.has_room(0) && self.group_has_room(0));
        if (is_past || is_past_own) && !self.is_over() {
            if is_past_own {
                watch::one_is_past();
            }
            // The sooner it ends the better, where it is stopped.
            watch::hold_back();
        }
    }
}

/// Part of a statement that can begin anew.
#[must_use]
pub struct Attempt<'a>(&'a Account);

impl Attempt<'_> {
    /// The attempt was stopped and has given back what it held: the statement goes on without it.
    pub fn give_up(self) {
        let attempt = self.0.ending.lock().attempt.take();
        if attempt.is_some_and(|token| token.is_cancelled()) {
            self.0.over.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.ending.lock().attempt = None;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        watch::add(-(self.bytes() as isize));
        if let Some(group) = self.limits.group() {
            group.add(-(self.bytes() as isize));
        }
        watch::close(self);
        if self.large.load(Ordering::Relaxed) {
            watch::ended_large();
        }
    }
}
