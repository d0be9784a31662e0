//! The process's allocator.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long, c_void};
use tenon_storage::heap::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting<Words> = Counting(Words);

/// mimalloc, asked for blocks aligned to words, as most are, without an alignment: it would look for one that has it, and all have.
struct Words;

/// Whether any block of mimalloc for so many bytes is aligned so.
const fn is_of_words(bytes: usize, align: usize) -> bool {
    align <= size_of::<usize>() && align <= bytes
}

// SAFETY: all is mimalloc's, which gives back a block however it was taken; blocks of a word and more are aligned to words.
unsafe impl GlobalAlloc for Words {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_of_words(layout.size(), layout.align()) {
            // SAFETY: it may be asked for any size.
            true => unsafe { mi_malloc(layout.size()) }.cast(),
            // SAFETY: the caller's promises are those of this function.
            false => unsafe { MiMalloc.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(start, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_of_words(layout.size(), layout.align()) {
            // SAFETY: as above.
            true => unsafe { mi_zalloc(layout.size()) }.cast(),
            // SAFETY: as above.
            false => unsafe { MiMalloc.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        match is_of_words(bytes, layout.align()) {
            // SAFETY: the block is mimalloc's.
            true => unsafe { mi_realloc(start.cast(), bytes) }.cast(),
            // SAFETY: as above.
            false => unsafe { MiMalloc.realloc(start, layout, bytes) },
        }
    }
}

/// mimalloc's `mi_option_purge_delay`, ms, and what it is unless somebody has set it.
const PURGE_DELAY: c_int = 15;
const PURGE_DELAY_DEFAULT_MS: c_long = 1000;

/// Long enough for what a running query gives back and takes again.
const PURGE_DELAY_MS: c_long = 10;

/// Whether it asks for huge pages, `mi_option_allow_thp`.
const ALLOW_HUGE: c_int = 43;

unsafe extern "C" {
    fn mi_malloc(bytes: usize) -> *mut c_void;
    fn mi_zalloc(bytes: usize) -> *mut c_void;
    fn mi_realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// Gives free pages back to the kernel soon: the memory of one query would be resident still while the next one takes its
/// own. And takes small pages: a huge one is resident while any of what lies in it is used, and blocks of several threads
/// and queries lie side by side. What is large is mapped apart, in huge pages.
pub fn tune() {
    // SAFETY: these read and write one number in a table, whatever its index; no other thread runs yet.
    unsafe {
        if mi_option_get(PURGE_DELAY) == PURGE_DELAY_DEFAULT_MS {
            mi_option_set(PURGE_DELAY, PURGE_DELAY_MS);
        }
        mi_option_set(ALLOW_HUGE, 0);
    }
    heap::purge_by(purge);
    #[cfg(target_os = "linux")]
    take_small_pages();
}

/// Gives free pages back to the kernel now, also those that are kept for this thread: by itself mimalloc does so when somebody gives
/// back more, and all may rest.
pub fn purge() {
    // SAFETY: it may be called at any time, by any thread.
    unsafe { mi_collect(true) };
}

/// Small pages also for what mimalloc had mapped before anybody could tell it.
#[cfg(target_os = "linux")]
fn take_small_pages() {
    let block = Box::new(0u8);
    let at = std::ptr::from_ref::<u8>(&block).addr();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some(range) = maps.lines().filter_map(range).find(|range| range.contains(&at)) {
        let start = std::ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: advice about a mapping of this process; it changes nothing that is read or written there.
        unsafe { libc::madvise(start, range.len(), libc::MADV_NOHUGEPAGE) };
    }
}

/// The addresses of a line of `/proc/self/maps`.
#[cfg(target_os = "linux")]
fn range(line: &str) -> Option<std::ops::Range<usize>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    Some(number(start)?..number(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned() {
        for bytes in 1..2000 {
            for align in [1, 2, 4, 8, 16, 64] {
                let layout = Layout::from_size_align(bytes, align).expect("a power of two");
                // SAFETY: the layouts have bytes, and are given back as they were taken.
                unsafe {
                    for block in [Words.alloc(layout), Words.alloc_zeroed(layout)] {
                        assert!(block.addr().is_multiple_of(align), "{bytes} {align}");
                        let grown = Words.realloc(block, layout, 2 * bytes);
                        assert!(grown.addr().is_multiple_of(align), "{bytes} {align}, grown");
                        Words.dealloc(grown, Layout::from_size_align(2 * bytes, align).expect("as before"));
                    }
                }
            }
        }
    }

    /// Another version of mimalloc may number its options otherwise.
    #[test]
    fn the_option_is_the_one_meant() {
        tune();
        // SAFETY: as above.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, PURGE_DELAY_MS);
        // SAFETY: as above.
        assert_eq!(unsafe { mi_option_get(ALLOW_HUGE) }, 0);
    }
}
