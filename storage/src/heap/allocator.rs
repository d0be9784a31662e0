//! The allocator that counts, and the account that each thread works for.

use super::{Account, pages, watch};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A thread books what it took or gave back once it comes to this, bytes: shared counters would cost more than the
/// allocation itself. Where statements may hold much it is more than a batch's column, which comes and goes.
static BATCH_BYTES: AtomicUsize = AtomicUsize::new(BATCH_BYTES_MIN);
const BATCH_BYTES_MIN: usize = 64 << 10;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Of what statements may hold, the part that a thread may have without having booked it.
const BATCH_PART: usize = 4096;

/// Statements may hold so much together.
pub(super) fn limited(bytes: usize) {
    let batch = (bytes / BATCH_PART).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
    BATCH_BYTES.store(batch, Ordering::Relaxed);
}

struct Local {
    /// Kept alive by whoever entered it.
    account: Cell<*const Account>,
    pending: Cell<isize>,
    /// What was asked for and not taken yet, bytes.
    asked: Cell<usize>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            account: Cell::new(ptr::null()),
            pending: Cell::new(0),
            asked: Cell::new(0),
        }
    };
}

/// An allocator whose users are counted. What is large comes from the kernel ([`pages`]): an allocator keeps some of what it was
/// given back without a bound, and of this little would be much.
#[derive(Debug, Default)]
pub struct Counting<A>(pub A);

fn is_mapped(layout: Layout) -> bool {
    layout.size() >= pages::BYTES_MIN && layout.align() <= pages::ALIGNMENT
}

// SAFETY: every call is passed on as it is; counting neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        if is_mapped(layout) {
            return pages::map(layout.size());
        }
        // SAFETY: the caller's promises are those of this function.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        if is_mapped(layout) {
            // SAFETY: what has this layout was mapped with this size.
            return unsafe { pages::unmap(start, layout.size()) };
        }
        // SAFETY: as above.
        unsafe { self.0.dealloc(start, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        if is_mapped(layout) {
            return pages::map_zeroed(layout.size());
        }
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size is that of a layout.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        match (is_mapped(layout), is_mapped(new)) {
            (false, false) => {
                count(bytes as isize - layout.size() as isize);
                // SAFETY: as above.
                unsafe { self.0.realloc(start, layout, bytes) }
            }
            (true, true) => {
                count(bytes as isize - layout.size() as isize);
                // SAFETY: what has this layout was mapped with this size.
                unsafe { pages::resize(start, layout.size(), bytes) }
            }
            _ => {
                // SAFETY: the new block is apart from the old one, both hold what is copied, and the old one is not used
                // any more.
                unsafe {
                    let moved = self.alloc(new);
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(start, moved, layout.size().min(bytes));
                        self.dealloc(start, layout);
                    }
                    moved
                }
            }
        }
    }
}

#[inline]
fn count(bytes: isize) {
    LOCAL.with(|local| {
        let account = local.account.get();
        if account.is_null() {
            return;
        }
        let pending = local.pending.get() + bytes;
        if pending.unsigned_abs() < BATCH_BYTES.load(Ordering::Relaxed) {
            local.pending.set(pending);
            return;
        }
        local.pending.set(0);
        // SAFETY: an account outlives the guard of whoever entered it, and its guard takes it out of `LOCAL`.
        unsafe { &*account }.book(pending);
        let taken = local.asked.get().min(pending.max(0) as usize);
        if taken > 0 {
            local.asked.set(local.asked.get() - taken);
            watch::give_back(taken);
        }
    });
}

/// The thread is to take so much.
pub(super) fn asked(bytes: usize) {
    LOCAL.with(|local| {
        // Nobody would ever give back what is asked for outside of all statements.
        match local.account.get().is_null() {
            true => watch::give_back(bytes),
            false => local.asked.set(bytes),
        }
    });
}

/// The thread takes no more of what it has asked for.
pub(super) fn unask() {
    LOCAL.with(|local| match local.asked.take() {
        0 => {}
        bytes => watch::give_back(bytes),
    });
}

/// Makes the thread work for another account, and gives the one before.
fn switch(to: *const Account) -> *const Account {
    LOCAL.with(|local| {
        let from = local.account.get();
        if from != to {
            unask();
            let pending = local.pending.take();
            local.account.set(to);
            if pending != 0 && !from.is_null() {
                // SAFETY: as in `count`.
                unsafe { &*from }.book(pending);
            }
        }
        from
    })
}

/// While this lives, its thread works for an account.
#[must_use]
pub struct Entered<'a> {
    before: *const Account,
    account: PhantomData<&'a Account>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        switch(self.before);
    }
}

pub(super) fn enter(account: &Arc<Account>) -> Entered<'_> {
    Entered {
        before: switch(Arc::as_ptr(account)),
        account: PhantomData,
    }
}

/// The account that this thread works for.
pub fn current() -> Option<Arc<Account>> {
    let account = LOCAL.with(|local| local.account.get());
    (!account.is_null()).then(|| {
        // SAFETY: the pointer is an `Arc`'s, whose owner outlives the guard that put it here; the count that the new
        // one gives back is taken first.
        unsafe {
            Arc::increment_strong_count(account);
            Arc::from_raw(account)
        }
    })
}

pub(super) fn with_current<T>(look: impl FnOnce(&Account) -> T) -> Option<T> {
    let account = LOCAL.with(|local| local.account.get());
    // SAFETY: as in `count`; the guard that put it here cannot be dropped before `look` returns.
    (!account.is_null()).then(|| look(unsafe { &*account }))
}

/// Runs work whose memory is counted elsewhere, or outlives the statement.
pub fn apart<T>(work: impl FnOnce() -> T) -> T {
    let _outside = Entered {
        before: switch(ptr::null()),
        account: PhantomData,
    };
    work()
}
