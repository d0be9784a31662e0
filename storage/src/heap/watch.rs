//! The sum over all accounts, its limit, and the thread that stops statements where it is passed.

use super::{Account, pages};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Until statements that were stopped have given back what they hold.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Where statements may hold less, nothing is kept for the next: whoever gives so little wants it back.
const KEEPS_FROM: usize = 1 << 30;

/// Between two looks at what is kept and not taken.
const SWEEP: Duration = Duration::from_secs(1);

static HELD_BYTES: AtomicIsize = AtomicIsize::new(0);
static LIMIT_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
static ALARM: AtomicBool = AtomicBool::new(false);
/// The watcher waits until it is told of something.
static RESTS: AtomicBool = AtomicBool::new(false);
static WATCHER: OnceLock<Thread> = OnceLock::new();
/// By their addresses.
static ACCOUNTS: LazyLock<Mutex<HashMap<usize, Weak<Account>>>> = LazyLock::new(Mutex::default);

/// From now on statements may hold so much together.
pub fn limit(bytes: usize) {
    LIMIT_BYTES.store(bytes, Ordering::Relaxed);
    pages::keep(if bytes < KEEPS_FROM { 0 } else { bytes / 4 });
    WATCHER.get_or_init(|| {
        let thread = std::thread::Builder::new().name("tenon-memory".into());
        match thread.spawn(watch) {
            Ok(handle) => handle.thread().clone(),
            Err(error) => {
                tracing::error!("nobody watches the memory of queries: {error}");
                std::thread::current()
            }
        }
    });
}

pub fn limit_bytes() -> usize {
    LIMIT_BYTES.load(Ordering::Relaxed)
}

fn held_bytes() -> usize {
    HELD_BYTES.load(Ordering::Relaxed).max(0) as usize
}

/// What statements hold, and what is kept for them.
fn used_bytes() -> usize {
    held_bytes().saturating_add(pages::kept_bytes())
}

/// Whether statements may hold so many bytes more.
pub(super) fn fits(bytes: usize) -> bool {
    held_bytes().saturating_add(bytes) <= limit_bytes()
}

/// The same, with what is kept for them.
pub(super) fn has_room(bytes: usize) -> bool {
    used_bytes().saturating_add(bytes) <= limit_bytes()
}

/// Something is kept.
pub(super) fn wake() {
    if RESTS.swap(false, Ordering::Relaxed)
        && let Some(watcher) = WATCHER.get()
    {
        watcher.unpark();
    }
}

/// Called by the allocator: must not allocate.
pub(super) fn add(bytes: isize) {
    let held = HELD_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if bytes > 0
        && (held.max(0) as usize).saturating_add(pages::kept_bytes()) > limit_bytes()
        && !ALARM.swap(true, Ordering::Relaxed)
        && let Some(watcher) = WATCHER.get()
    {
        watcher.unpark();
    }
}

pub(super) fn open(account: &Arc<Account>) {
    let address = Arc::as_ptr(account) as usize;
    ACCOUNTS.lock().insert(address, Arc::downgrade(account));
}

pub(super) fn close(account: &Account) {
    ACCOUNTS.lock().remove(&(std::ptr::from_ref(account) as usize));
}

fn watch() {
    let mut sweep_at = Instant::now();
    loop {
        while used_bytes() > limit_bytes() {
            pages::release();
            if held_bytes() > limit_bytes() {
                relieve();
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        ALARM.store(false, Ordering::Relaxed);
        if used_bytes() > limit_bytes() {
            continue;
        }
        let now = Instant::now();
        if pages::kept_bytes() == 0 {
            RESTS.store(true, Ordering::SeqCst);
            if pages::kept_bytes() == 0 {
                std::thread::park();
            }
            RESTS.store(false, Ordering::Relaxed);
            sweep_at = Instant::now() + SWEEP;
        } else if now < sweep_at {
            std::thread::park_timeout(sweep_at - now);
        } else {
            pages::sweep();
            sweep_at = now + SWEEP;
        }
    }
}

/// Stops the largest statements, until what the others hold fits.
fn relieve() {
    let all: Vec<Arc<Account>> = ACCOUNTS.lock().values().filter_map(Weak::upgrade).collect();
    let mut going: Vec<(usize, Arc<Account>)> = all
        .into_iter()
        .filter(|account| !account.is_over())
        .map(|account| (account.bytes(), account))
        .collect();
    going.sort_by_key(|(bytes, _)| *bytes);
    let mut held: usize = going.iter().map(|(bytes, _)| bytes).sum();
    while held > limit_bytes()
        && let Some((bytes, largest)) = going.pop()
    {
        tracing::warn!(
            "a statement that held {} MiB was stopped: queries have too little memory",
            bytes >> 20
        );
        largest.stop();
        held -= bytes;
    }
}
