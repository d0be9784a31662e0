//! Accounting of the memory that tables use, against one limit.

use crate::arena::RegionObserver;
use crate::error::{Result, StorageError};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The memory limit of a server and how much of it is in use. Reservations give back what they hold when dropped.
pub struct MemoryBudget {
    limit_bytes: usize,
    in_use_bytes: AtomicUsize,
    observers: RwLock<Vec<Arc<dyn RegionObserver>>>,
    /// Asked in turn where memory is short.
    spare: RwLock<Vec<Weak<dyn Reclaim>>>,
}

/// Holds memory that others need more: what can be made again.
pub trait Reclaim: Send + Sync {
    /// Gives back what is not in use. Must not wait for whoever reserves.
    fn reclaim(&self);
}

impl MemoryBudget {
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            limit_bytes,
            in_use_bytes: AtomicUsize::new(0),
            observers: RwLock::default(),
            spare: RwLock::default(),
        })
    }

    /// A budget that only counts.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    pub fn in_use_bytes(&self) -> usize {
        self.in_use_bytes.load(Ordering::Relaxed)
    }

    /// From now on tells `observer` of each large region of table memory.
    pub fn observe(&self, observer: Arc<dyn RegionObserver>) {
        self.observers.write().push(observer);
    }

    pub(crate) fn observers(&self) -> Vec<Arc<dyn RegionObserver>> {
        self.observers.read().clone()
    }

    /// From now on asks `holder` for its memory before a reservation fails.
    pub fn may_reclaim(&self, holder: Weak<dyn Reclaim>) {
        self.spare.write().push(holder);
    }

    fn reclaim(&self) {
        let holders: Vec<Arc<dyn Reclaim>> = {
            let mut spare = self.spare.write();
            spare.retain(|holder| holder.strong_count() > 0);
            spare.iter().filter_map(Weak::upgrade).collect()
        };
        holders.iter().for_each(|holder| holder.reclaim());
    }

    /// Reserves, or fails with `OutOfMemory` (53200) and reserves nothing.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation> {
        let mut reservation = self.nothing();
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// The same for memory that its owner can do without: it takes none from other such owners.
    pub fn reserve_spare(self: &Arc<Self>, bytes: usize) -> Result<Reservation> {
        let mut reservation = self.nothing();
        reservation.grow_spare(bytes)?;
        Ok(reservation)
    }

    fn nothing(self: &Arc<Self>) -> Reservation {
        Reservation {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

impl std::fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryBudget({} of {} bytes)", self.in_use_bytes(), self.limit_bytes)
    }
}

/// A part of a budget, given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl Reservation {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.grow_spare(bytes).or_else(|_| {
            self.budget.reclaim();
            self.grow_spare(bytes)
        })
    }

    /// Like `grow`, of a reservation that `reserve_spare` gave.
    pub fn grow_spare(&mut self, bytes: usize) -> Result<()> {
        let budget = &self.budget;
        budget
            .in_use_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |in_use| {
                in_use.checked_add(bytes).filter(|total| *total <= budget.limit_bytes)
            })
            .map_err(|in_use| StorageError::out_of_memory(bytes, in_use, budget.limit_bytes))?;
        self.bytes += bytes;
        Ok(())
    }

    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.in_use_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    struct Cache(parking_lot::Mutex<Option<Reservation>>);

    impl Reclaim for Cache {
        fn reclaim(&self) {
            drop(self.0.lock().take());
        }
    }

    #[test]
    fn what_can_be_made_again_gives_way() {
        let budget = MemoryBudget::new(100);
        let cache = Arc::new(Cache(parking_lot::Mutex::new(Some(budget.reserve_spare(60).unwrap()))));
        let holder: Arc<dyn Reclaim> = cache.clone();
        budget.may_reclaim(Arc::downgrade(&holder));
        assert_eq!(budget.reserve_spare(50).unwrap_err().kind, ErrorKind::OutOfMemory);
        assert!(cache.0.lock().is_some());
        let rows = budget.reserve(50).unwrap();
        assert!(cache.0.lock().is_none());
        assert_eq!(budget.reserve(51).unwrap_err().kind, ErrorKind::OutOfMemory);
        drop((rows, cache, holder));
        assert_eq!(budget.reserve(101).unwrap_err().kind, ErrorKind::OutOfMemory);
    }

    #[test]
    fn reservations_balance_and_refuse() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.reserve(60).unwrap();
        assert_eq!(budget.reserve(41).unwrap_err().kind, ErrorKind::OutOfMemory);
        assert_eq!(budget.reserve(usize::MAX).unwrap_err().kind, ErrorKind::OutOfMemory);
        first.grow(40).unwrap();
        first.shrink(70);
        assert_eq!(budget.in_use_bytes(), 30);
        drop(first);
        assert_eq!(budget.in_use_bytes(), 0);
    }
}
