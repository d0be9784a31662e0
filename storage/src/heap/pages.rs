//! Memory from the kernel, in pages.

use std::ptr;

/// What mappings are aligned to, bytes.
pub const ALIGNMENT: usize = 4096;

const PROTECTION: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Mappings from this size on are of huge pages, where the kernel has any: hash tables are read at random, and each page
/// has to be faulted in. In smaller ones much of a huge page would be of no use.
const HUGE_BYTES_MIN: usize = 8 << 20;

/// Zeroed pages for so many bytes; null where there are none.
pub fn map(bytes: usize) -> *mut u8 {
    // SAFETY: a new private anonymous mapping touches no other memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, PROTECTION, FLAGS, -1, 0) };
    if start == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    #[cfg(target_os = "linux")]
    if bytes >= HUGE_BYTES_MIN {
        // SAFETY: advice about the mapping just made; it may be refused.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
    }
    start.cast()
}

/// Gives pages back.
///
/// # Safety
/// They were mapped with this size, and nobody uses them any more.
pub unsafe fn unmap(start: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { libc::munmap(start.cast(), bytes) };
}

/// Makes a mapping longer or shorter, in another place where need be; null, with nothing changed, where that cannot be.
///
/// # Safety
/// It was mapped with `bytes`, and nobody uses it by its old address any more.
pub unsafe fn resize(start: *mut u8, bytes: usize, new_bytes: usize) -> *mut u8 {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: as the caller promises.
        let moved = unsafe { libc::mremap(start.cast(), bytes, new_bytes, libc::MREMAP_MAYMOVE) };
        match moved == libc::MAP_FAILED {
            true => ptr::null_mut(),
            false => moved.cast(),
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let moved = map(new_bytes);
        if !moved.is_null() {
            // SAFETY: both hold what is copied, and a new mapping is apart from the old one.
            unsafe {
                ptr::copy_nonoverlapping(start, moved, bytes.min(new_bytes));
                unmap(start, bytes);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_keep_what_they_hold() {
        let bytes = 3 * ALIGNMENT + 5;
        let start = map(bytes);
        assert!(!start.is_null());
        // SAFETY: the last byte is in the mapping, as long as it has its size.
        unsafe {
            assert_eq!(*start.add(bytes - 1), 0);
            *start.add(bytes - 1) = 7;
            let longer = resize(start, bytes, 100 * ALIGNMENT);
            assert!(*longer.add(bytes - 1) == 7 && *longer.add(bytes) == 0);
            let shorter = resize(longer, 100 * ALIGNMENT, bytes);
            assert_eq!(*shorter.add(bytes - 1), 7);
            unmap(shorter, bytes);
        }
    }
}
