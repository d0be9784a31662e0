//! Memory from the kernel, in pages, some of which is kept for whoever needs the like next.
//!
//! A page that is touched for the first time costs ten times what writing it costs, and more where many threads fault pages in at
//! once (one NVIDIA H200's host, 16 threads: 1.3 ms a MiB beside 0.1). So what is given back stays mapped for some seconds, as
//! long as it and what statements hold are within their limit.

use super::watch;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What mappings are aligned to, bytes.
pub const ALIGNMENT: usize = 4096;

/// The smallest mapping, bytes.
pub const BYTES_MIN: usize = 1 << 20;

const PROTECTION: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Mappings from this size on are of huge pages, where the kernel has any: hash tables are read at random, and each page
/// has to be faulted in. In smaller ones much of a huge page would be of no use.
const HUGE_BYTES_MIN: usize = 4 << 20;

/// Sizes of mappings between one power of two and the next.
const STEPS: usize = 8;
/// Powers of two that mappings which are kept come in, from [`BYTES_MIN`] on.
const POWERS: usize = 18;
/// Sweeps that a mapping stays which nobody takes.
const SWEEPS: usize = 3;

/// What a kept mapping begins with.
struct Kept {
    next: *mut Kept,
    /// When it was given back, in sweeps.
    since: usize,
}

/// Kept mappings by their size, those given back last first.
struct Lists([*mut Kept; STEPS * POWERS]);

// SAFETY: the mappings belong to the lists alone.
unsafe impl Send for Lists {}

/// A lock of the standard library: it allocates nothing.
static LISTS: Mutex<Lists> = Mutex::new(Lists([ptr::null_mut(); STEPS * POWERS]));
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);
static KEPT_BYTES_MAX: AtomicUsize = AtomicUsize::new(0);
static SWEEP: AtomicUsize = AtomicUsize::new(0);

/// What is mapped for so many bytes, and the list of such mappings.
fn class(bytes: usize) -> (usize, usize) {
    let bytes = bytes.max(BYTES_MIN);
    let power = bytes.ilog2();
    let step = (1 << power) / STEPS;
    let mapped = bytes.next_multiple_of(step);
    let list = (power - BYTES_MIN.ilog2()) as usize * STEPS + (mapped - (1 << power)) / step;
    (mapped, list)
}

/// From now on mappings of so many bytes at most are kept. Somebody must call [`sweep`] from time to time.
pub fn keep(bytes: usize) {
    KEPT_BYTES_MAX.store(bytes, Ordering::Relaxed);
}

/// Bytes of the mappings that nobody uses.
pub fn kept_bytes() -> usize {
    KEPT_BYTES.load(Ordering::Relaxed)
}

fn take(list: usize, mapped: usize) -> Option<*mut u8> {
    if list >= STEPS * POWERS || kept_bytes() == 0 {
        return None;
    }
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    let first = lists.0[list];
    if first.is_null() {
        return None;
    }
    // SAFETY: a mapping in a list begins with a `Kept`, and nobody else uses it.
    lists.0[list] = unsafe { (*first).next };
    KEPT_BYTES.fetch_sub(mapped, Ordering::Relaxed);
    Some(first.cast())
}

/// Pages for so many bytes, with anything in them; null where there are none.
pub fn map(bytes: usize) -> *mut u8 {
    let (mapped, list) = class(bytes);
    take(list, mapped).unwrap_or_else(|| new(mapped))
}

/// Zeroed pages for so many bytes; null where there are none.
pub fn map_zeroed(bytes: usize) -> *mut u8 {
    let (mapped, list) = class(bytes);
    match take(list, mapped) {
        Some(start) => {
            // SAFETY: the mapping has these bytes, and is nobody else's.
            unsafe { start.write_bytes(0, bytes) };
            start
        }
        None => new(mapped),
    }
}

fn new(mapped: usize) -> *mut u8 {
    if kept_bytes() > 0 && !watch::has_room(mapped) {
        release();
    }
    let map = || {
        // SAFETY: a new private anonymous mapping touches no other memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), mapped, PROTECTION, FLAGS, -1, 0) };
        (start != libc::MAP_FAILED).then_some(start)
    };
    let Some(start) = map().or_else(|| {
        release();
        map()
    }) else {
        return ptr::null_mut();
    };
    #[cfg(target_os = "linux")]
    if mapped >= HUGE_BYTES_MIN {
        // SAFETY: advice about the mapping just made; it may be refused.
        unsafe { libc::madvise(start, mapped, libc::MADV_HUGEPAGE) };
    }
    start.cast()
}

/// Gives pages back.
///
/// # Safety
/// They were mapped for this size, and nobody uses them any more.
pub unsafe fn unmap(start: *mut u8, bytes: usize) {
    let (mapped, list) = class(bytes);
    let kept = kept_bytes();
    if list < STEPS * POWERS && kept + mapped <= KEPT_BYTES_MAX.load(Ordering::Relaxed) && watch::has_room(mapped) {
        let first = start.cast::<Kept>();
        let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the mapping is larger than a `Kept`, aligned to pages, and nobody's any more.
        unsafe {
            first.write(Kept {
                next: lists.0[list],
                since: SWEEP.load(Ordering::Relaxed),
            });
        }
        lists.0[list] = first;
        if KEPT_BYTES.fetch_add(mapped, Ordering::SeqCst) == 0 {
            drop(lists);
            watch::wake();
        }
        return;
    }
    // SAFETY: as the caller promises; `map` has mapped whole classes.
    unsafe { libc::munmap(start.cast(), mapped) };
}

/// Gives the kernel all that is kept.
pub fn release() {
    remove(|_| true);
}

/// Gives the kernel what nobody has taken for [`SWEEPS`] sweeps.
pub fn sweep() {
    let now = SWEEP.fetch_add(1, Ordering::Relaxed) + 1;
    remove(|since| now - since > SWEEPS);
}

fn remove(goes: impl Fn(usize) -> bool) {
    for list in 0..STEPS * POWERS {
        let (power, step) = (list / STEPS + BYTES_MIN.ilog2() as usize, list % STEPS);
        let mapped = (1 << power) / STEPS * (STEPS + step);
        let mut gone: *mut Kept = ptr::null_mut();
        {
            let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
            let mut at: *mut *mut Kept = &raw mut lists.0[list];
            // SAFETY: mappings in a list begin with a `Kept` and are nobody else's; `at` points into the lists, or into one
            // that stays.
            unsafe {
                while !(*at).is_null() {
                    let kept = *at;
                    if goes((*kept).since) {
                        *at = (*kept).next;
                        (*kept).next = gone;
                        gone = kept;
                        KEPT_BYTES.fetch_sub(mapped, Ordering::Relaxed);
                    } else {
                        at = &raw mut (*kept).next;
                    }
                }
            }
        }
        while !gone.is_null() {
            // SAFETY: it is in no list any more, and was mapped with the size of its list.
            unsafe {
                let next = (*gone).next;
                libc::munmap(gone.cast(), mapped);
                gone = next;
            }
        }
    }
}

/// Makes a mapping longer or shorter, in another place where need be; null, with nothing changed, where that cannot be.
///
/// # Safety
/// It was mapped for `bytes`, and nobody uses it by its old address any more.
pub unsafe fn resize(start: *mut u8, bytes: usize, new_bytes: usize) -> *mut u8 {
    let ((mapped, _), (new_mapped, list)) = (class(bytes), class(new_bytes));
    if mapped == new_mapped {
        return start;
    }
    #[cfg(target_os = "linux")]
    let moved = match take(list, new_mapped) {
        Some(moved) => moved,
        None => {
            // SAFETY: as the caller promises.
            let moved = unsafe { libc::mremap(start.cast(), mapped, new_mapped, libc::MREMAP_MAYMOVE) };
            return match moved == libc::MAP_FAILED {
                true => ptr::null_mut(),
                false => moved.cast(),
            };
        }
    };
    #[cfg(not(target_os = "linux"))]
    let moved = take(list, new_mapped).unwrap_or_else(|| new(new_mapped));
    if !moved.is_null() {
        // SAFETY: both hold what is copied, and are apart.
        unsafe {
            ptr::copy_nonoverlapping(start, moved, bytes.min(new_bytes));
            unmap(start, bytes);
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_keep_what_they_hold() {
        let bytes = 300 * ALIGNMENT + 5;
        let start = map_zeroed(bytes);
        assert!(!start.is_null());
        // SAFETY: the last byte is in the mapping, as long as it has its size.
        unsafe {
            assert_eq!(*start.add(bytes - 1), 0);
            *start.add(bytes - 1) = 7;
            let longer = resize(start, bytes, 1000 * ALIGNMENT);
            assert!(*longer.add(bytes - 1) == 7);
            let shorter = resize(longer, 1000 * ALIGNMENT, bytes);
            assert_eq!(*shorter.add(bytes - 1), 7);
            unmap(shorter, bytes);
        }
    }

    #[test]
    fn classes_hold_their_bytes() {
        let mut before = (0, 0);
        for bytes in (0..1000).map(|at| BYTES_MIN + at * 77_777) {
            let (mapped, list) = class(bytes);
            assert!(mapped >= bytes && mapped <= bytes + bytes / STEPS + 1 && mapped.is_multiple_of(ALIGNMENT));
            assert!(class(mapped) == (mapped, list) && (mapped, list) >= before);
            assert!(list - before.1 <= 1 || before == (0, 0));
            before = (mapped, list);
        }
        assert_eq!(class(2 * BYTES_MIN), (2 * BYTES_MIN, STEPS));
    }

    #[test]
    fn what_is_kept_is_taken_again_and_goes() {
        let _alone = crate::heap::ALONE.lock();
        // Of sizes that no other test maps.
        let sizes = [33 * BYTES_MIN, 40 * BYTES_MIN];
        keep(usize::MAX / 2);
        let starts = sizes.map(map);
        // SAFETY: they are mapped with these sizes, and not used after they were given back.
        unsafe {
            starts[0].write_bytes(9, sizes[0]);
            unmap(starts[0], sizes[0]);
            unmap(starts[1], sizes[1]);
            assert!(kept_bytes() >= sizes[0] + sizes[1]);
            let again = map_zeroed(sizes[0] - 1);
            assert_eq!(again, starts[0]);
            assert!((0..sizes[0] - 1).step_by(997).all(|at| *again.add(at) == 0));
            unmap(again, sizes[0] - 1);
            (0..SWEEPS).for_each(|_| sweep());
            assert!(kept_bytes() >= sizes[0] + sizes[1]);
            sweep();
            assert!(take(class(sizes[0]).1, class(sizes[0]).0).is_none());
        }
        keep(0);
        release();
    }
}
