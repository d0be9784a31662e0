//! The sum over all accounts, its limit, and the thread that stops statements where it is passed.

use super::{Account, allocator, pages, rest};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Until statements that were stopped have given back what they hold.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// So long a stopped statement may take to give back what it holds. From then on that is missed, and others are stopped too.
const GIVES_BACK: Duration = Duration::from_millis(200);

/// Then those that hold more than such a part of the limit are.
const LATE_PART: usize = 16;

/// Past the limit, whoever takes more waits so long each time: the watcher comes first, and so do those that give back.
const HELD_BACK: Duration = Duration::from_millis(1);

/// So long after a large statement what is kept of its memory goes.
const PURGES_AFTER: Duration = Duration::from_millis(20);

/// Where statements may hold less, nothing is kept for the next: whoever gives so little wants it back.
const KEEPS_FROM: usize = 1 << 30;

/// Between two looks at what is kept and not taken.
const SWEEP: Duration = Duration::from_secs(1);

static HELD_BYTES: AtomicIsize = AtomicIsize::new(0);
/// What statements have asked for and not taken yet.
static ASKED_BYTES: AtomicUsize = AtomicUsize::new(0);
static LIMIT_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
static ALARM: AtomicBool = AtomicBool::new(false);
/// A statement holds more than it may itself.
static ONE_IS_PAST: AtomicBool = AtomicBool::new(false);
/// The watcher waits until it is told of something.
static RESTS: AtomicBool = AtomicBool::new(false);
static WATCHER: OnceLock<Thread> = OnceLock::new();
/// By their addresses.
static ACCOUNTS: LazyLock<Mutex<HashMap<usize, Weak<Account>>>> = LazyLock::new(Mutex::default);

/// From now on statements may hold so much together.
pub fn limit(bytes: usize) {
    LIMIT_BYTES.store(bytes, Ordering::Relaxed);
    allocator::limited(bytes);
    pages::keep(if bytes < KEEPS_FROM { 0 } else { bytes / 4 });
    start();
}

/// From now on there is a watcher.
pub(super) fn start() {
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

/// What statements hold now.
pub fn held_bytes() -> usize {
    HELD_BYTES.load(Ordering::Relaxed).max(0) as usize
}

/// What statements hold, and what is kept for them.
fn used_bytes() -> usize {
    held_bytes().saturating_add(pages::kept_bytes())
}

/// Reserves so many bytes, where statements may hold them.
pub(super) fn reserve(bytes: usize) -> bool {
    let asked = ASKED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    let fits = held_bytes().saturating_add(asked).saturating_add(bytes) <= limit_bytes();
    if !fits {
        give_back(bytes);
    }
    fits
}

/// Of what was reserved: it is taken now, or not wanted any more.
pub(super) fn give_back(bytes: usize) {
    ASKED_BYTES.fetch_sub(bytes, Ordering::Relaxed);
}

/// Whether so many bytes more have room beside what statements hold and what is kept for them.
pub(super) fn has_room(bytes: usize) -> bool {
    used_bytes().saturating_add(bytes) <= limit_bytes()
}

/// A statement that held much has ended.
pub(super) fn ended_large() {
    if limit_bytes() < KEEPS_FROM {
        rest::ended();
        wake();
    }
}

/// There is something to give back, in time.
pub(super) fn wake() {
    if RESTS.swap(false, Ordering::Relaxed)
        && let Some(watcher) = WATCHER.get()
    {
        watcher.unpark();
    }
}

/// Says whether more is taken where statements hold too much. Called by the allocator: must not allocate.
pub(super) fn add(bytes: isize) -> bool {
    let held = (HELD_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes).max(0) as usize;
    if bytes > 0
        && held.saturating_add(pages::kept_bytes()) > limit_bytes()
        && !ALARM.swap(true, Ordering::Relaxed)
        && let Some(watcher) = WATCHER.get()
    {
        watcher.unpark();
    }
    bytes > 0 && held > limit_bytes()
}

/// A statement holds more than it may itself. Called by the allocator: must not allocate.
pub(super) fn one_is_past() {
    if !ONE_IS_PAST.swap(true, Ordering::Relaxed)
        && let Some(watcher) = WATCHER.get()
    {
        watcher.unpark();
    }
}

/// Makes this thread wait, if there is somebody to wait for.
pub(super) fn hold_back() {
    if WATCHER.get().is_some() {
        std::thread::sleep(HELD_BACK);
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
        stop_those_past();
        while used_bytes() > limit_bytes() {
            stop_those_past();
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
        if rest::is_due() {
            // Its tasks end too, and somebody may need the watcher meanwhile.
            std::thread::park_timeout(PURGES_AFTER);
            if !ALARM.load(Ordering::Relaxed) && !ONE_IS_PAST.load(Ordering::Relaxed) {
                rest::rest();
            }
        } else if pages::kept_bytes() == 0 {
            RESTS.store(true, Ordering::SeqCst);
            if pages::kept_bytes() == 0 && !rest::is_due() {
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

/// Stops the statements that hold more than they may themselves, and of a group that does its largest.
fn stop_those_past() {
    if !ONE_IS_PAST.swap(false, Ordering::Relaxed) {
        return;
    }
    let mut going: Vec<Arc<Account>> = ACCOUNTS.lock().values().filter_map(Weak::upgrade).collect();
    going.retain(|account| !account.is_over());
    going.sort_by_key(|account| Reverse(account.bytes()));
    let group_of = |account: &Account| account.limits().group().map(Arc::as_ptr);
    let mut held: HashMap<_, usize> = HashMap::new();
    for account in &going {
        *held.entry(group_of(account)).or_default() += account.bytes();
    }
    for account in &going {
        let bytes = account.bytes();
        let of_group = held.entry(group_of(account)).or_default();
        let is_past = !account.has_room(0);
        let group_is_past = account.limits().group().is_some() && *of_group > account.limits().group_held();
        if is_past || group_is_past {
            let whose = if is_past { "it" } else { "its role" };
            tracing::warn!(
                "a statement that held {} MiB was stopped: {whose} may hold less",
                bytes >> 20
            );
            account.stop();
            *of_group = of_group.saturating_sub(bytes);
        }
    }
}

/// Stops the largest statements, until what the others hold fits, and with it what was not given back in time.
fn relieve() {
    let all: Vec<Arc<Account>> = ACCOUNTS.lock().values().filter_map(Weak::upgrade).collect();
    let (mut going, mut held, mut late) = (vec![], 0, 0);
    for account in all {
        let bytes = account.bytes();
        match account.stopped_for() {
            None => {
                held += bytes;
                going.push((bytes, account));
            }
            Some(time) if time > GIVES_BACK => late += bytes,
            Some(_) => {}
        }
    }
    going.sort_by_key(|(bytes, _)| *bytes);
    while let Some((bytes, largest)) = going.pop() {
        // The end of a small one would make no room for what is late.
        let missed = if bytes > limit_bytes() / LATE_PART { late } else { 0 };
        if held + missed <= limit_bytes() {
            break;
        }
        tracing::warn!(
            "a statement that held {} MiB was stopped: queries have too little memory",
            bytes >> 20
        );
        largest.stop();
        held -= bytes;
    }
}
