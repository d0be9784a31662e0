//! The memory of a query that goes through files.

use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Operators that can go through files share one half alike, repartitions an eighth. The others have what these leave, the other half at least. The
/// merges of sorts would take all of that for reading many files at a time: they share a quarter, and merge in more steps.
#[derive(Debug)]
pub(super) struct SharePool {
    bytes: usize,
    spillable: FairSpillPool,
    repartitions: FairSpillPool,
    others: GreedyMemoryPool,
    merges: AtomicUsize,
}

/// What a merge may have at the least, bytes: two files are read at a time.
const MERGE_BYTES_MIN: usize = 6 << 20;

/// DataFusion tells the merges of its sorts by their names only.
fn is_merge(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("ExternalSorterMerge")
}

/// A repartition hands most of its batches on at once; the others go to files.
fn is_repartition(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("RepartitionExec[") && consumer.can_spill()
}

impl SharePool {
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            spillable: FairSpillPool::new(bytes / 2),
            repartitions: FairSpillPool::new(bytes / 8),
            others: GreedyMemoryPool::new(bytes),
            merges: AtomicUsize::new(0),
        }
    }

    /// What a consumer may have.
    fn share(&self, consumer: &MemoryConsumer) -> usize {
        match is_merge(consumer) {
            true => (self.bytes / 4 / self.merges.load(Ordering::Relaxed).max(1)).max(MERGE_BYTES_MIN),
            false => self.bytes,
        }
    }

    fn of(&self, consumer: &MemoryConsumer) -> &dyn MemoryPool {
        match consumer.can_spill() {
            true if is_repartition(consumer) => &self.repartitions,
            true => &self.spillable,
            false => &self.others,
        }
    }
}

impl fmt::Display for SharePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({} bytes)", self.name(), self.bytes)
    }
}

impl MemoryPool for SharePool {
    fn name(&self) -> &str {
        "shares"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.merges
            .fetch_add(usize::from(is_merge(consumer)), Ordering::Relaxed);
        self.of(consumer).register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.merges
            .fetch_sub(usize::from(is_merge(consumer)), Ordering::Relaxed);
        self.of(consumer).unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.of(reservation.consumer()).grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.of(reservation.consumer()).shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (consumer, held) = (reservation.consumer(), reservation.size());
        let is_greedy = held.saturating_add(additional) > self.share(consumer);
        if is_greedy || self.reserved().saturating_add(additional) > self.bytes {
            let name = consumer.name();
            return Err(resources_datafusion_err!(
                "{name}, which has {held} bytes, wanted {additional} more of a query's {}.",
                self.bytes
            ));
        }
        self.of(reservation.consumer()).try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.spillable.reserved() + self.repartitions.reserved() + self.others.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_cannot_spill_keeps_a_half() {
        const MIB: usize = 1 << 20;
        let pool: Arc<dyn MemoryPool> = Arc::new(SharePool::new(64 * MIB));
        let sorts: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|name| MemoryConsumer::new(name).with_can_spill(true).register(&pool))
            .collect();
        for sort in &sorts {
            assert!(sort.try_grow(16 * MIB).is_ok() && sort.try_grow(1).is_err());
        }
        let merges: Vec<_> = (0..2)
            .map(|at| MemoryConsumer::new(format!("ExternalSorterMerge[{at}]")).register(&pool))
            .collect();
        assert!(merges[0].try_grow(8 * MIB).is_ok() && merges[0].try_grow(1).is_err());
        let join = MemoryConsumer::new("join").register(&pool);
        assert!(join.try_grow(24 * MIB).is_ok() && join.try_grow(1).is_err());
        sorts[0].free();
        assert!(join.try_grow(16 * MIB).is_ok());
        assert!(sorts[0].try_grow(16 * MIB).is_err());
        let repartition = MemoryConsumer::new("RepartitionExec[0]").with_can_spill(true);
        let repartition = repartition.register(&pool);
        assert!(repartition.try_grow(8 * MIB).is_ok() && repartition.try_grow(1).is_err());
        drop((sorts, merges, join, repartition));
        assert_eq!(pool.reserved(), 0);
    }
}
