//! What one statement may hold and reserve, by itself and with its group.

use super::{Group, Reserved};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Limits of one statement, bytes; `usize::MAX`: there is none.
#[derive(Debug)]
pub struct Limits {
    held: AtomicUsize,
    reserved_bytes: AtomicUsize,
    reserved: Reserved,
    group: OnceLock<Arc<Group>>,
    group_held: AtomicUsize,
    group_reserved_bytes: AtomicUsize,
}

impl Default for Limits {
    fn default() -> Self {
        let none = || AtomicUsize::new(usize::MAX);
        Self {
            held: none(),
            reserved_bytes: none(),
            reserved: Reserved::default(),
            group: OnceLock::new(),
            group_held: none(),
            group_reserved_bytes: none(),
        }
    }
}

impl Limits {
    /// From now on the statement may have reserved so much, and hold so much.
    pub fn set(&self, reserved: usize, held: usize) {
        self.reserved_bytes.store(reserved, Ordering::Relaxed);
        self.held.store(held, Ordering::Relaxed);
    }

    /// The same of all statements of its group.
    pub fn set_for_group(&self, reserved: usize, held: usize) {
        self.group_reserved_bytes.store(reserved, Ordering::Relaxed);
        self.group_held.store(held, Ordering::Relaxed);
    }

    /// Whether there is any.
    pub fn are_set(&self) -> bool {
        self.held() < usize::MAX || self.group_held() < usize::MAX
    }

    /// What it may hold itself.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// What its group may hold.
    pub fn group_held(&self) -> usize {
        self.group_held.load(Ordering::Relaxed)
    }

    pub fn group(&self) -> Option<&Arc<Group>> {
        self.group.get()
    }

    /// Says whether it was in no group before.
    pub(super) fn join(&self, group: &Arc<Group>) -> bool {
        self.group.set(group.clone()).is_ok()
    }

    /// What it has reserved.
    pub fn reserved(&self) -> usize {
        self.reserved.bytes()
    }

    /// What it may reserve.
    pub fn reserved_limit(&self) -> usize {
        let limit = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        limit(&self.reserved_bytes).min(limit(&self.group_reserved_bytes))
    }

    /// What it may reserve still.
    pub fn free(&self) -> usize {
        let left = |limit: &AtomicUsize, of: &Reserved| limit.load(Ordering::Relaxed).saturating_sub(of.bytes());
        let own = left(&self.reserved_bytes, &self.reserved);
        let group = self.group.get();
        own.min(group.map_or(usize::MAX, |group| left(&self.group_reserved_bytes, group.reserved())))
    }

    /// Whether there was room for so much more; then it is reserved.
    pub fn try_grow(&self, bytes: usize) -> bool {
        if !self
            .reserved
            .try_grow(bytes, self.reserved_bytes.load(Ordering::Relaxed))
        {
            return false;
        }
        let limit = self.group_reserved_bytes.load(Ordering::Relaxed);
        let fits = self
            .group
            .get()
            .is_none_or(|group| group.reserved().try_grow(bytes, limit));
        if !fits {
            self.reserved.shrink(bytes);
        }
        fits
    }

    /// The same, room or not.
    pub fn grow(&self, bytes: usize) {
        self.reserved.grow(bytes);
        if let Some(group) = self.group.get() {
            group.reserved().grow(bytes);
        }
    }

    pub fn shrink(&self, bytes: usize) {
        self.reserved.shrink(bytes);
        if let Some(group) = self.group.get() {
            group.reserved().shrink(bytes);
        }
    }
}
