//! The process's allocator.

use std::ffi::{c_int, c_long};
use tenon_storage::heap::Counting;

#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

/// mimalloc's `mi_option_purge_delay`, ms, and what it is unless somebody has set it.
const PURGE_DELAY: c_int = 15;
const PURGE_DELAY_DEFAULT_MS: c_long = 1000;

/// Long enough for what a running query gives back and takes again.
const PURGE_DELAY_MS: c_long = 10;

unsafe extern "C" {
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
}

/// Gives free pages back to the kernel soon: the memory of one query would be resident still while the next one takes its
/// own.
pub fn tune() {
    // SAFETY: these read and write one number in a table, whatever its index; no other thread runs yet.
    unsafe {
        if mi_option_get(PURGE_DELAY) == PURGE_DELAY_DEFAULT_MS {
            mi_option_set(PURGE_DELAY, PURGE_DELAY_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of mimalloc may number its options otherwise.
    #[test]
    fn the_option_is_the_one_meant() {
        tune();
        // SAFETY: as above.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, PURGE_DELAY_MS);
    }
}
