//! What is kept for threads goes back to the kernel where memory is short: an allocator keeps for each thread some of what that has
//! given back, and of many threads little is much.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static PURGE: OnceLock<fn()> = OnceLock::new();
/// Statements that held much and have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Of these, how many there were when the thread last gave back what is kept for it.
    static SEEN: Cell<usize> = const { Cell::new(0) };
}

/// From now on this is called where memory is short. It gives the kernel what the allocator keeps for the thread that calls it,
/// and what it keeps for nobody.
pub fn purge_by(purge: fn()) {
    // Set already where the process has had another server.
    let _ = PURGE.set(purge);
}

pub(super) fn ended() {
    ENDED.fetch_add(1, Ordering::Relaxed);
}

/// Whether the thread has something to give back.
pub(super) fn is_due() -> bool {
    SEEN.get() != ENDED.load(Ordering::Relaxed)
}

/// The thread has nothing to do.
pub fn rest() {
    let ended = ENDED.load(Ordering::Relaxed);
    if SEEN.replace(ended) != ended
        && let Some(purge) = PURGE.get()
    {
        purge();
    }
}
