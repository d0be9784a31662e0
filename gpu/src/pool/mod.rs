//! Memory: the pool of the device (one budget, and books that balance), pinned memory of the host (`host`) and memory
//! of others that is registered with the device (`registered`).
//!
//! Every byte of device memory is taken here. `in_use + reserved` never exceeds the budget; running out is
//! [`GpuError::OutOfMemory`], with numbers, and leaves nothing behind.
//!
//! Memory comes from the driver in slabs, each as large as all before it together, and stays: a warm query makes no
//! allocation call to the driver. Blocks are reused in the order of streams: the stream that gave a block back may
//! take it at once, another stream first waits for an event that marks the giving back.

mod host;
mod registered;
mod slabs;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub(crate) use host::HostPool;
pub use host::PinnedBuffer;
pub(crate) use registered::Registered;
use slabs::{Slabs, Standing};

use crate::backend::Backend;
use crate::error::{GpuError, Result};
use crate::event_pool::{EventPool, PooledEvent};
use crate::queue::Queue;

/// Allocations are multiples of this, as from the driver.
pub const ALIGN_BYTES: u64 = 256;
/// The first slab; later ones double what there is.
const SLAB_BYTES_MIN: u64 = 256 << 20;
/// The driver maps memory in pages of this size.
const SLAB_ALIGN_BYTES: u64 = 2 << 20;

/// A device's memory, budgeted. Cheap to clone.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<PoolInner>,
}

struct PoolInner {
    backend: Arc<dyn Backend>,
    events: Arc<EventPool>,
    budget_bytes: u64,
    driver_allocations: AtomicU64,
    books: Mutex<Books>,
    /// Marks of last uses so far. Held while one is made, so that their numbers are in the order of each stream.
    marks: Mutex<u64>,
}

#[derive(Default)]
struct Books {
    in_use_bytes: u64,
    reserved_bytes: u64,
    peak_bytes: u64,
    allocations: u64,
    slabs: Slabs<LastUse>,
}

/// A stream that may still use a free block, until the event.
#[derive(Clone)]
struct LastUse {
    stream: u64,
    /// Ascending within a stream.
    number: u64,
    event: Arc<PooledEvent>,
}

impl slabs::LastUse for LastUse {
    fn covers(&self, other: &LastUse) -> bool {
        self.stream == other.stream && self.number >= other.number
    }
}

impl Pool {
    pub(crate) fn new(backend: Arc<dyn Backend>, events: Arc<EventPool>, budget_bytes: u64) -> Pool {
        Pool {
            inner: Arc::new(PoolInner {
                backend,
                events,
                budget_bytes,
                driver_allocations: AtomicU64::new(0),
                books: Mutex::default(),
                marks: Mutex::default(),
            }),
        }
    }

    /// Bytes that the pool may take in all.
    pub fn budget_bytes(&self) -> u64 {
        self.inner.budget_bytes
    }

    /// Bytes in live allocations; 0 when everything was given back.
    pub fn in_use(&self) -> u64 {
        self.inner.books.lock().in_use_bytes
    }

    /// Bytes promised to reservations.
    pub fn reserved(&self) -> u64 {
        self.inner.books.lock().reserved_bytes
    }

    /// The most that was in use at once.
    pub fn peak(&self) -> u64 {
        self.inner.books.lock().peak_bytes
    }

    /// Allocations made so far.
    pub fn allocations(&self) -> u64 {
        self.inner.books.lock().allocations
    }

    /// Allocation calls to the driver so far: a warm query adds none.
    pub fn driver_allocations(&self) -> u64 {
        self.inner.driver_allocations.load(Ordering::Relaxed)
    }

    /// Bytes taken from the driver, in use or not.
    pub fn driver_bytes(&self) -> u64 {
        let books = self.inner.books.lock();
        if self.inner.backend.separate_buffers() {
            books.in_use_bytes
        } else {
            books.slabs.slab_bytes()
        }
    }

    /// Bytes that an allocation could still take.
    pub fn available(&self) -> u64 {
        self.inner.free_bytes(&self.inner.books.lock())
    }

    /// Gives slabs without live allocations back to the driver. Waits for the work that may still use them.
    pub fn trim(&self) {
        self.inner.release_free_slabs(&mut self.inner.books.lock());
    }

    /// Sets bytes aside for a query before it runs.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation> {
        let mut books = self.inner.books.lock();
        self.inner.admit(&books, bytes)?;
        books.reserved_bytes += bytes;
        Ok(Reservation {
            pool: self.clone(),
            bytes,
        })
    }

    /// Memory for use in the order of `queue`. Zero bytes are allowed and take nothing.
    pub(crate) fn alloc(&self, queue: &Arc<Queue>, bytes: u64) -> Result<Allocation> {
        let charged = bytes.checked_next_multiple_of(ALIGN_BYTES).unwrap_or(u64::MAX);
        let inner = &self.inner;
        let (address, wait_for) = {
            let mut books = inner.books.lock();
            inner.admit(&books, charged)?;
            let taken = if bytes == 0 {
                (0, Vec::new())
            } else if inner.backend.separate_buffers() {
                inner.driver_allocations.fetch_add(1, Ordering::Relaxed);
                (inner.backend.alloc(bytes)?, Vec::new())
            } else {
                inner.take_block(&mut books, queue.id, charged)?
            };
            books.in_use_bytes += charged;
            books.peak_bytes = books.peak_bytes.max(books.in_use_bytes);
            books.allocations += 1;
            taken
        };
        // From here on the drop of the allocation balances the books.
        let allocation = Allocation {
            pool: self.clone(),
            queue: queue.clone(),
            address,
            bytes,
            charged,
        };
        for last in wait_for.iter().filter(|last| last.stream != queue.id) {
            inner.backend.stream_wait(queue.handle, last.event.handle)?;
        }
        Ok(allocation)
    }
}

impl PoolInner {
    fn free_bytes(&self, books: &Books) -> u64 {
        self.budget_bytes - books.in_use_bytes - books.reserved_bytes
    }

    fn admit(&self, books: &Books, bytes: u64) -> Result<()> {
        if bytes <= self.free_bytes(books) {
            return Ok(());
        }
        Err(self.out_of_memory(books, bytes, String::new()))
    }

    fn out_of_memory(&self, books: &Books, bytes: u64, detail: String) -> GpuError {
        GpuError::OutOfMemory {
            requested_bytes: bytes,
            in_use_bytes: books.in_use_bytes,
            reserved_bytes: books.reserved_bytes,
            budget_bytes: self.budget_bytes,
            detail,
        }
    }

    fn is_done(&self, last: &LastUse) -> bool {
        self.backend.event_is_done(last.event.handle).unwrap_or(false)
    }

    /// A block of a slab, with what the taker must wait for; grows the slabs if no block is large enough.
    fn take_block(&self, books: &mut Books, stream: u64, bytes: u64) -> Result<(u64, Vec<LastUse>)> {
        let standing = |last: &LastUse| match last.stream == stream {
            true => Standing::Ordered,
            false if self.is_done(last) => Standing::Done,
            false => Standing::Pending,
        };
        if let Some(taken) = books.slabs.take(bytes, standing) {
            return Ok(taken);
        }
        books.slabs.forget_done(|last| self.is_done(last));
        self.grow(books, bytes)?;
        books
            .slabs
            .take(bytes, standing)
            .ok_or_else(|| GpuError::Invalid("a new slab does not hold the block that it was made for".into()))
    }

    /// Takes a slab from the driver that holds `bytes`.
    fn grow(&self, books: &mut Books, bytes: u64) -> Result<()> {
        let room = |books: &Books| self.budget_bytes - books.slabs.slab_bytes();
        if room(books) < bytes {
            self.release_free_slabs(books);
        }
        if room(books) < bytes {
            let largest = books.slabs.largest_free();
            let detail = format!("; free memory is scattered, the largest range has {largest} bytes");
            return Err(self.out_of_memory(books, bytes, detail));
        }
        let needed = bytes.next_multiple_of(SLAB_ALIGN_BYTES).min(room(books));
        let wanted = books
            .slabs
            .slab_bytes()
            .max(SLAB_BYTES_MIN)
            .clamp(needed, room(books).max(needed));
        let (address, slab_bytes) = match self.driver_alloc(wanted) {
            Ok(address) => (address, wanted),
            Err(error) if error.is_out_of_memory() => {
                self.release_free_slabs(books);
                match self.driver_alloc(needed) {
                    Ok(address) => (address, needed),
                    Err(error) if error.is_out_of_memory() => {
                        let detail = format!("; the driver has no more: {error}");
                        return Err(self.out_of_memory(books, bytes, detail));
                    }
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        books.slabs.add(address, slab_bytes);
        Ok(())
    }

    fn driver_alloc(&self, bytes: u64) -> Result<u64> {
        self.driver_allocations.fetch_add(1, Ordering::Relaxed);
        self.backend.alloc(bytes)
    }

    fn release_free_slabs(&self, books: &mut Books) {
        for (address, uses) in books.slabs.remove_free_slabs() {
            for last in &uses {
                if let Err(error) = self.backend.event_synchronize(last.event.handle) {
                    tracing::error!(%error, "waiting for the last use of device memory");
                }
            }
            self.driver_free(address);
        }
    }

    fn driver_free(&self, address: u64) {
        if let Err(error) = self.backend.free(address) {
            tracing::error!(%error, "freeing device memory");
        }
    }

    /// Marks what the stream has been given so far; none if that fails, which a fault of the device makes it do.
    fn last_use(&self, queue: &Queue) -> Option<LastUse> {
        let mark = || {
            let event = self.events.take()?;
            let mut marks = self.marks.lock();
            *marks += 1;
            self.backend.event_record(event.handle, queue.handle)?;
            Ok::<_, GpuError>((*marks, event))
        };
        match mark() {
            Ok((number, event)) => Some(LastUse {
                stream: queue.id,
                number,
                event: Arc::new(event),
            }),
            Err(error) => {
                tracing::error!(%error, "marking the last use of device memory");
                None
            }
        }
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        let mut books = std::mem::take(self.books.get_mut());
        self.release_free_slabs(&mut books);
    }
}

/// Device memory, given back when dropped: work put into its stream before that may still use it.
pub struct Allocation {
    pool: Pool,
    queue: Arc<Queue>,
    address: u64,
    bytes: u64,
    charged: u64,
}

impl Allocation {
    /// Device address; 0 if there are no bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let inner = &self.pool.inner;
        if self.bytes > 0 && inner.backend.separate_buffers() {
            inner.driver_free(self.address);
        } else if self.bytes > 0 {
            let last = inner.last_use(&self.queue);
            let is_done = |last: &LastUse| inner.is_done(last);
            inner
                .books
                .lock()
                .slabs
                .give(self.address, last.into_iter().collect(), is_done);
        }
        inner.books.lock().in_use_bytes -= self.charged;
    }
}

/// Bytes set aside; given back when dropped.
pub struct Reservation {
    pool: Pool,
    bytes: u64,
}

impl Reservation {
    /// Bytes still set aside.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back all but `bytes`, so that allocations may take the rest.
    pub fn shrink_to(&mut self, bytes: u64) {
        let released = self.bytes.saturating_sub(bytes);
        self.bytes -= released;
        self.pool.inner.books.lock().reserved_bytes -= released;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
