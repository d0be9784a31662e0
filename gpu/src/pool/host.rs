//! Host memory that the copy engines reach: mapped as huge pages, touched by all cores, then registered.
//!
//! That takes a tenth of the time of the driver's own pinned allocation. What was taken is kept and used again, so a
//! warm query neither maps nor registers. On the simulator it is plain memory.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use rayon::prelude::*;

use crate::backend::Backend;
use crate::element::Element;
use crate::error::{GpuError, Result};

const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4 << 10;
/// Mappings are multiples of this, so that few sizes serve all requests.
const GRAIN_BYTES: usize = 8 << 20;
/// What one core touches at a time.
const TOUCH_BYTES: usize = 32 << 20;

/// A mapping of whole huge pages, registered with a device.
struct HostMemory {
    address: *mut u8,
    bytes: usize,
    backend: Arc<dyn Backend>,
}

// SAFETY: plain memory, owned.
unsafe impl Send for HostMemory {}
// SAFETY: shared access only reads.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    fn new(backend: &Arc<dyn Backend>, bytes: usize) -> Result<HostMemory> {
        let address = map_huge(bytes).map_err(|e| GpuError::io(format!("mapping {bytes} bytes of host memory"), e))?;
        let memory = Unregistered { address, bytes };
        touch(address, bytes);
        // SAFETY: the mapping was just made and stays until after `host_unregister`.
        unsafe { backend.host_register(address, bytes) }?;
        std::mem::forget(memory);
        Ok(HostMemory {
            address,
            bytes,
            backend: backend.clone(),
        })
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: registered in `new`; copies are waited for before the memory is given back to the pool.
        if let Err(error) = unsafe { self.backend.host_unregister(self.address) } {
            tracing::warn!(%error, "unregistering host memory");
        }
        drop(Unregistered {
            address: self.address,
            bytes: self.bytes,
        });
    }
}

/// A mapping, unmapped when dropped.
struct Unregistered {
    address: *mut u8,
    bytes: usize,
}

impl Drop for Unregistered {
    fn drop(&mut self) {
        // SAFETY: exactly this range was mapped by `map_huge`.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}

/// Maps `bytes` bytes, a multiple of the huge page, aligned to it.
fn map_huge(bytes: usize) -> std::io::Result<*mut u8> {
    let with_slack = bytes
        .checked_add(HUGE_PAGE_BYTES)
        .ok_or(std::io::ErrorKind::OutOfMemory)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous private mapping at an address of the kernel's choice.
    let base = unsafe { libc::mmap(null_mut(), with_slack, access, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    let before = (base as usize).next_multiple_of(HUGE_PAGE_BYTES) - base as usize;
    // SAFETY: the unaligned ends of the mapping just made are cut off; the advice is on what remains.
    unsafe {
        let address = base.cast::<u8>().add(before);
        if before > 0 {
            libc::munmap(base, before);
        }
        libc::munmap(address.add(bytes).cast(), HUGE_PAGE_BYTES - before);
        libc::madvise(address.cast(), bytes, libc::MADV_HUGEPAGE);
        Ok(address)
    }
}

/// Makes the kernel back every page now, on all cores: one core alone takes most of the time of registering.
fn touch(address: *mut u8, bytes: usize) {
    let start = address as usize;
    (0..bytes.div_ceil(TOUCH_BYTES)).into_par_iter().for_each(|i| {
        let from = start + i * TOUCH_BYTES;
        let len = TOUCH_BYTES.min(start + bytes - from);
        // SAFETY: the range lies within the mapping, which nobody else uses yet.
        unsafe {
            if libc::madvise(from as *mut _, len, libc::MADV_POPULATE_WRITE) != 0 {
                (0..len)
                    .step_by(PAGE_BYTES)
                    .for_each(|at| ((from + at) as *mut u8).write_volatile(0));
            }
        }
    });
}

/// Pinned memory that nobody holds, by device.
pub(crate) struct HostPool {
    backend: Arc<dyn Backend>,
    idle: Mutex<Vec<HostMemory>>,
    /// Ranges that somebody holds, by start.
    held: RwLock<BTreeMap<usize, usize>>,
    registrations: AtomicU64,
    /// Bytes mapped, held or idle, and how many there may be.
    mapped_bytes: Mutex<u64>,
    budget_bytes: u64,
}

impl HostPool {
    pub fn new(backend: Arc<dyn Backend>, budget_bytes: u64) -> Arc<HostPool> {
        Arc::new(HostPool {
            backend,
            idle: Mutex::default(),
            held: RwLock::default(),
            registrations: AtomicU64::new(0),
            mapped_bytes: Mutex::new(0),
            budget_bytes,
        })
    }

    /// Mappings made and registered so far: a warm query adds none.
    pub fn registrations(&self) -> u64 {
        self.registrations.load(Ordering::Relaxed)
    }

    /// Bytes that somebody holds.
    pub fn held_bytes(&self) -> u64 {
        self.held.read().values().map(|&bytes| bytes as u64).sum()
    }

    /// Whether the whole range lies in pinned memory of this pool that somebody holds.
    pub fn contains(&self, start: *const u8, bytes: usize) -> bool {
        let held = self.held.read();
        let candidate = held.range(..=start as usize).next_back();
        candidate.is_some_and(|(&from, &len)| start as usize + bytes <= from + len)
    }

    /// Unmaps what nobody holds.
    pub fn trim(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        let bytes: usize = idle.iter().map(|memory| memory.bytes).sum();
        drop(idle);
        *self.mapped_bytes.lock() -= bytes as u64;
    }

    /// Counts `bytes` more as mapped. What nobody holds makes room.
    fn reserve(&self, bytes: u64) -> Result<()> {
        if !self.try_reserve(bytes) {
            self.trim();
            if !self.try_reserve(bytes) {
                return Err(GpuError::OutOfPinnedMemory {
                    requested_bytes: bytes,
                    mapped_bytes: *self.mapped_bytes.lock(),
                    budget_bytes: self.budget_bytes,
                });
            }
        }
        Ok(())
    }

    fn try_reserve(&self, bytes: u64) -> bool {
        let mut mapped = self.mapped_bytes.lock();
        let fits = mapped.saturating_add(bytes) <= self.budget_bytes;
        *mapped += if fits { bytes } else { 0 };
        fits
    }

    /// Room for `len` elements; their bytes are arbitrary.
    pub fn take<T: Element>(self: &Arc<Self>, len: usize) -> Result<PinnedBuffer<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.max(1).checked_next_multiple_of(GRAIN_BYTES))
            .ok_or_else(|| GpuError::Invalid(format!("{len} elements of {} bytes overflow", size_of::<T>())))?;
        let memory = self.take_memory(bytes)?;
        self.held.write().insert(memory.address as usize, memory.bytes);
        Ok(PinnedBuffer {
            memory: Some(memory),
            len,
            pool: self.clone(),
            element: PhantomData,
        })
    }

    fn take_memory(&self, bytes: usize) -> Result<HostMemory> {
        {
            let mut idle = self.idle.lock();
            let fitting = idle
                .iter()
                .enumerate()
                .filter(|(_, m)| m.bytes >= bytes && m.bytes <= 2 * bytes);
            if let Some((best, _)) = fitting.min_by_key(|(_, m)| m.bytes) {
                return Ok(idle.swap_remove(best));
            }
        }
        self.reserve(bytes as u64)?;
        self.registrations.fetch_add(1, Ordering::Relaxed);
        HostMemory::new(&self.backend, bytes).inspect_err(|_| *self.mapped_bytes.lock() -= bytes as u64)
    }
}

/// A slice in pinned host memory: copies from and to it run at full speed beside kernels.
pub struct PinnedBuffer<T> {
    /// Taken only by the drop.
    memory: Option<HostMemory>,
    len: usize,
    pool: Arc<HostPool>,
    element: PhantomData<T>,
}

impl<T> PinnedBuffer<T> {
    pub(crate) fn address(&self) -> *mut u8 {
        self.memory.as_ref().map_or(null_mut(), |memory| memory.address)
    }
}

impl<T: Element> Deref for PinnedBuffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has room for the elements, is aligned to huge pages and written (by zeros at first);
        // any bytes are valid elements.
        unsafe { std::slice::from_raw_parts(self.address().cast(), self.len) }
    }
}

impl<T: Element> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address().cast(), self.len) }
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.held.write().remove(&(memory.address as usize));
            self.pool.idle.lock().push(memory);
        }
    }
}
