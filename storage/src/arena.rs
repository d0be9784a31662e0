//! Memory of segments: one region each, of huge pages where it is large, carved into the buffers of its columns.
//!
//! A region lives until the last buffer made of it is dropped, and is accounted until then. It is zeroed when it is new,
//! and touched by the threads that fill it. Observers (a GPU that registers host memory) learn of each large region.

use crate::error::{Result, StorageError};
use crate::heap;
use crate::memory::{MemoryBudget, Reservation};
use arrow::buffer::Buffer;
use std::alloc::Layout;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

/// Buffers begin at multiples of this, so that vector loads and the device's copies are aligned.
const ALIGNMENT: usize = 128;
const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;
/// Smaller regions come from the heap: huge pages would be mostly empty.
const MAPPED_BYTES_MIN: usize = 1 << 20;

/// Is told of regions of mapped memory as they come and go, to register them with a device.
pub trait RegionObserver: Send + Sync {
    /// The region is filled and will not change.
    fn added(&self, start: NonNull<u8>, bytes: usize);
    /// The region is about to be unmapped. Called once for each `added`.
    fn removed(&self, start: NonNull<u8>, bytes: usize);
}

/// Zeroed memory of one segment.
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    mapped: bool,
    /// Those that were told of the region, once it was filled.
    told: std::sync::OnceLock<Vec<Arc<dyn RegionObserver>>>,
    _reservation: Reservation,
}

// SAFETY: a region's memory is written only through `Piece`s, which are disjoint, and read only through buffers made of
// whole pieces; nothing in it is bound to a thread.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    fn new(bytes: usize, budget: &Arc<MemoryBudget>) -> Result<Region> {
        let mapped = bytes >= MAPPED_BYTES_MIN;
        let rounded = if mapped {
            bytes.checked_next_multiple_of(PAGE_BYTES)
        } else {
            Some(bytes.max(1))
        };
        let refused = || StorageError::out_of_memory(bytes, budget.in_use_bytes(), budget.limit_bytes());
        let bytes = rounded.ok_or_else(refused)?;
        let reservation = budget.reserve(bytes)?;
        let start = if mapped {
            map(bytes)
        } else {
            heap::apart(|| allocate(bytes))
        }
        .ok_or_else(refused)?;
        Ok(Region {
            start,
            bytes,
            mapped,
            told: Default::default(),
            _reservation: reservation,
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        for observer in self.told.get().into_iter().flatten() {
            observer.removed(self.start, self.bytes);
        }
        if self.mapped {
            // SAFETY: exactly this range was mapped by `map` and kept, and no buffer refers to it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        } else if let Ok(layout) = Layout::from_size_align(self.bytes, ALIGNMENT) {
            // SAFETY: `allocate` got it with this layout.
            heap::apart(|| unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) });
        }
    }
}

fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// Maps pages aligned to huge pages and asks for these.
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let wide = bytes.checked_add(HUGE_PAGE_BYTES)?;
    // SAFETY: a new private anonymous mapping touches no other memory; the parts cut off are of this mapping.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let start = libc::mmap(
            std::ptr::null_mut(),
            wide,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        if start == libc::MAP_FAILED {
            return None;
        }
        let address = start as usize;
        let aligned = address.next_multiple_of(HUGE_PAGE_BYTES);
        if aligned > address {
            libc::munmap(start, aligned - address);
        }
        let end = aligned + bytes;
        if address + wide > end {
            libc::munmap(end as *mut libc::c_void, address + wide - end);
        }
        #[cfg(target_os = "linux")]
        libc::madvise(aligned as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE);
        NonNull::new(aligned as *mut u8)
    }
}

/// Hands out a new region part by part.
pub struct Carver {
    region: Arc<AssertUnwindSafe<Region>>,
    used: usize,
}

/// A part of a region that one owner fills.
pub struct Piece {
    region: Arc<AssertUnwindSafe<Region>>,
    start: usize,
    bytes: usize,
}

/// What a buffer of so many bytes takes of a region.
pub fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

impl Carver {
    /// A region of so many bytes: the sum of what `padded` says of each buffer.
    pub fn new(bytes: usize, budget: &Arc<MemoryBudget>) -> Result<Carver> {
        Ok(Carver {
            region: Arc::new(AssertUnwindSafe(Region::new(bytes, budget)?)),
            used: 0,
        })
    }

    /// The next part, zeroed.
    pub fn carve(&mut self, bytes: usize) -> Result<Piece> {
        let start = self.used;
        let end = start.checked_add(bytes).filter(|end| *end <= self.region.bytes);
        let end = end.ok_or_else(|| StorageError::internal("a region is smaller than its parts"))?;
        self.used = padded(end);
        Ok(Piece {
            region: self.region.clone(),
            start,
            bytes,
        })
    }

    /// All parts are filled: tells the observers.
    pub fn finish(self, budget: &MemoryBudget) -> usize {
        if self.region.mapped {
            let observers = budget.observers();
            observers
                .iter()
                .for_each(|observer| observer.added(self.region.start, self.region.bytes));
            let _ = self.region.told.set(observers);
        }
        self.region.bytes
    }
}

impl Piece {
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the part lies within the region, is initialised (zeroed), disjoint from all other parts, and this
        // piece is the only way to it until `freeze` consumes the piece.
        unsafe { std::slice::from_raw_parts_mut(self.region.start.as_ptr().add(self.start), self.bytes) }
    }

    /// The part as a buffer that keeps the region alive.
    pub fn freeze(self) -> Buffer {
        // SAFETY: the part lies within the region, which the buffer owns a share of, and nobody writes to it any more.
        unsafe {
            let start = NonNull::new_unchecked(self.region.start.as_ptr().add(self.start));
            Buffer::from_custom_allocation(start, self.bytes, self.region)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[derive(Default)]
    struct Log(Mutex<Vec<(bool, usize, usize)>>);

    impl RegionObserver for Log {
        fn added(&self, start: NonNull<u8>, bytes: usize) {
            self.0.lock().push((true, start.as_ptr() as usize, bytes));
        }
        fn removed(&self, start: NonNull<u8>, bytes: usize) {
            self.0.lock().push((false, start.as_ptr() as usize, bytes));
        }
    }

    #[test]
    fn regions_are_aligned_accounted_and_observed() {
        let budget = MemoryBudget::new(64 << 20);
        let log = Arc::new(Log::default());
        budget.observe(log.clone());
        for bytes in [0, 1, 1000, 5 << 20, (5 << 20) + 1] {
            let mut carver = Carver::new(padded(bytes) + padded(7), &budget).unwrap();
            let mut first = carver.carve(bytes).unwrap();
            let mut second = carver.carve(7).unwrap();
            assert!(first.bytes_mut().iter().all(|byte| *byte == 0));
            first.bytes_mut().fill(1);
            second.bytes_mut().fill(2);
            assert!(carver.carve(1 << 30).is_err());
            let held = carver.finish(&budget);
            assert_eq!(budget.in_use_bytes(), held);
            let (first, second) = (first.freeze(), second.freeze());
            assert_eq!(
                first.as_ptr() as usize % if bytes > 1 << 20 { HUGE_PAGE_BYTES } else { ALIGNMENT },
                0
            );
            assert!(first.iter().all(|byte| *byte == 1) && second.iter().all(|byte| *byte == 2));
            drop(first);
            assert_eq!(budget.in_use_bytes(), held, "the other buffer keeps the region");
            drop(second);
            assert_eq!(budget.in_use_bytes(), 0);
        }
        let log = log.0.lock();
        assert_eq!(log.len(), 4);
        assert!(
            log.chunks(2)
                .all(|pair| pair[0].0 && !pair[1].0 && pair[0].1 == pair[1].1)
        );
        for huge in [65 << 20, usize::MAX / 2, usize::MAX - 5] {
            assert_eq!(
                Carver::new(huge, &budget).err().map(|error| error.sqlstate()),
                Some("53200")
            );
        }
        let unlimited = MemoryBudget::unlimited();
        assert_eq!(
            Carver::new(1 << 60, &unlimited).err().map(|error| error.sqlstate()),
            Some("53200")
        );
        assert_eq!(unlimited.in_use_bytes(), 0);
    }
}
