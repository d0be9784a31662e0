//! The device memory pool: one budget, and books that balance.
//!
//! Every byte of device memory is taken here. `in_use + reserved` never exceeds the budget; running out is
//! [`GpuError::OutOfMemory`], with numbers, and leaves nothing behind.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::Backend;
use crate::error::{GpuError, Result};
use crate::stream::Stream;

/// Allocations are multiples of this, as from the driver.
pub const ALIGN_BYTES: u64 = 256;

/// A device's memory, budgeted. Cheap to clone.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<PoolInner>,
}

struct PoolInner {
    backend: Arc<dyn Backend>,
    budget_bytes: u64,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    in_use_bytes: u64,
    reserved_bytes: u64,
    peak_bytes: u64,
    allocations: u64,
}

impl Pool {
    pub(crate) fn new(backend: Arc<dyn Backend>, budget_bytes: u64) -> Pool {
        Pool {
            inner: Arc::new(PoolInner {
                backend,
                budget_bytes,
                books: Mutex::default(),
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

    /// Bytes that an allocation could still take.
    pub fn available(&self) -> u64 {
        let books = self.inner.books.lock();
        self.inner.budget_bytes - books.in_use_bytes - books.reserved_bytes
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

    /// Memory for use in the order of `stream`. Zero bytes are allowed and take nothing.
    pub fn alloc(&self, _stream: &Stream, bytes: u64) -> Result<Allocation> {
        let charged = charged_bytes(bytes);
        {
            let mut books = self.inner.books.lock();
            self.inner.admit(&books, charged)?;
            books.in_use_bytes += charged;
            books.peak_bytes = books.peak_bytes.max(books.in_use_bytes);
            books.allocations += 1;
        }
        let address = if bytes == 0 {
            Ok(0)
        } else {
            self.inner.backend.alloc(bytes)
        };
        match address {
            Ok(address) => Ok(Allocation {
                pool: self.clone(),
                address,
                bytes,
                charged,
            }),
            Err(error) => {
                self.inner.books.lock().in_use_bytes -= charged;
                Err(error)
            }
        }
    }
}

fn charged_bytes(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGN_BYTES).unwrap_or(u64::MAX)
}

impl PoolInner {
    fn admit(&self, books: &Books, bytes: u64) -> Result<()> {
        let free = self.budget_bytes - books.in_use_bytes - books.reserved_bytes;
        if bytes <= free {
            return Ok(());
        }
        Err(GpuError::OutOfMemory {
            requested_bytes: bytes,
            in_use_bytes: books.in_use_bytes,
            reserved_bytes: books.reserved_bytes,
            budget_bytes: self.budget_bytes,
            detail: String::new(),
        })
    }
}

/// Device memory, given back when dropped.
pub struct Allocation {
    pool: Pool,
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
        if self.bytes > 0
            && let Err(error) = self.pool.inner.backend.free(self.address)
        {
            tracing::error!(%error, "freeing device memory");
        }
        self.pool.inner.books.lock().in_use_bytes -= self.charged;
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
