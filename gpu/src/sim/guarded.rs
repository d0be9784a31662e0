//! Memory between guard pages: a read or write past its end faults at once.
//!
//! The memory ends at the guard page, rounded up to 16 bytes so that vector accesses stay aligned as on the device.
//! The few bytes of rounding and the slack before the start hold a pattern that `check` verifies.

use std::io;
use std::ptr::null_mut;

const PAGE: usize = 4096;
/// Inaccessible address space before and after the memory: wide, so that a wild index does not land in a neighbour.
const GUARD_BYTES: usize = 16 << 20;
const SLACK: u8 = 0xa5;
/// Fresh memory holds this, so that reading what was never written shows.
pub const POISON: u8 = 0xcd;
/// Poison at most this much at each end of a large allocation: touching all of it costs time and memory.
const POISON_BYTES_MAX: usize = 32 << 20;

/// One guarded allocation; zero bytes are allowed.
pub struct GuardedMemory {
    mapping: *mut u8,
    mapping_bytes: usize,
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping is owned; access to it is through raw pointers whose users order themselves.
unsafe impl Send for GuardedMemory {}
// SAFETY: as above.
unsafe impl Sync for GuardedMemory {}

impl GuardedMemory {
    /// Maps `bytes` bytes, poisoned.
    pub fn new(bytes: usize) -> io::Result<GuardedMemory> {
        let body = bytes.next_multiple_of(PAGE);
        let mapping_bytes = body + 2 * GUARD_BYTES;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice, no access at first.
        let mapping = unsafe {
            libc::mmap(
                null_mut(),
                mapping_bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = mapping.cast::<u8>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the body lies inside the mapping just made, away from its ends.
        if body > 0 && unsafe { libc::mprotect(mapping.add(GUARD_BYTES).cast(), body, access) } != 0 {
            let error = io::Error::last_os_error();
            // SAFETY: the mapping just made, not used elsewhere.
            unsafe { libc::munmap(mapping.cast(), mapping_bytes) };
            return Err(error);
        }
        // SAFETY: the offset is at most the body's end.
        let start = unsafe { mapping.add(GUARD_BYTES + body - bytes.next_multiple_of(16)) };
        let memory = GuardedMemory {
            mapping,
            mapping_bytes,
            start,
            bytes,
        };
        memory.restore_marks();
        memory.fill(POISON);
        Ok(memory)
    }

    /// Writes the pattern that `check` looks for next to the memory.
    pub fn restore_marks(&self) {
        let (front, back) = self.slacks();
        for (address, len) in [front, back] {
            // SAFETY: both slacks lie inside the accessible body.
            unsafe { address.write_bytes(SLACK, len) };
        }
    }

    /// First byte: a multiple of 16.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Bytes asked for.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Where the whole mapping lies, guard pages included.
    pub fn mapping(&self) -> std::ops::Range<usize> {
        self.mapping as usize..self.mapping as usize + self.mapping_bytes
    }

    /// Sets every byte, of large memory those near its ends.
    pub fn fill(&self, byte: u8) {
        let edge = self.bytes.min(POISON_BYTES_MAX);
        // SAFETY: both ranges lie inside this memory.
        unsafe {
            self.start.write_bytes(byte, edge);
            if self.bytes > edge {
                let tail = edge.min(self.bytes - edge);
                self.start.add(self.bytes - tail).write_bytes(byte, tail);
            }
        }
    }

    /// What was written next to this memory, if anything.
    pub fn check(&self) -> Result<(), String> {
        let (front, back) = self.slacks();
        // SAFETY: both slacks lie inside the accessible body and are written only by stray kernels.
        let (front, back) = unsafe {
            (
                std::slice::from_raw_parts(front.0, front.1),
                std::slice::from_raw_parts(back.0, back.1),
            )
        };
        if let Some(at) = back.iter().position(|&b| b != SLACK) {
            return Err(format!("write {at} bytes past the end of {} bytes", self.bytes));
        }
        if let Some(at) = front.iter().rposition(|&b| b != SLACK) {
            return Err(format!(
                "write {} bytes before the start of {} bytes",
                front.len() - at,
                self.bytes
            ));
        }
        Ok(())
    }

    fn slacks(&self) -> ((*mut u8, usize), (*mut u8, usize)) {
        let body = self.mapping as usize + GUARD_BYTES;
        let end = self.mapping as usize + self.mapping_bytes - GUARD_BYTES;
        let after = self.start as usize + self.bytes;
        (
            (body as *mut u8, self.start as usize - body),
            (after as *mut u8, end - after),
        )
    }
}

impl Drop for GuardedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by this value.
        unsafe { libc::munmap(self.mapping.cast(), self.mapping_bytes) };
    }
}
