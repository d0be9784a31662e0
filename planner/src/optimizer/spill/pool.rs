//! The memory of a query that goes through files.

use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Operators that can go through files share a fifth alike, repartitions an eighth. The others have what these leave.
/// The merges of sorts would take all of that for reading many files at a time: they share three eighths, and read fewer
/// files in more steps. Where much is free they get more, as a sort merges what it held when it was the only one.
/// A batch of a sort and a batch of each file in a merge are taken in any case: neither can go on without.
/// Aggregations take some megabytes for each column of texts however few groups they hold. Those of sorted rows, and those that
/// read back what they wrote, need them while the sorts and merges below have all that is there, and cannot go on without.
#[derive(Debug)]
pub(crate) struct SharePool {
    bytes: usize,
    spillable: FairSpillPool,
    repartitions: FairSpillPool,
    aggregations: GreedyMemoryPool,
    others: GreedyMemoryPool,
    merges: AtomicUsize,
}

/// What a merge may have at the least, bytes: two files are read at a time.
const MERGE_BYTES_MIN: usize = 6 << 20;

/// What a sort or a merge may have past the query's memory, bytes, while all are past it by one part in so many at most.
const SORT_OWN_BYTES: usize = 1 << 20;
const PAST_LIMIT: usize = 8;

/// An aggregation may have one part in so many.
const AGGREGATIONS: usize = 6;

/// An aggregation has one part in so many whatever others have, and no less than the two blocks of 2 MiB that DataFusion makes
/// for each column of texts, of two columns.
const AGGREGATION_OWN: usize = 10;
const AGGREGATION_BYTES_MIN: usize = 10 << 20;

/// What blocks of aggregations may take beside the query's memory: a quarter of what was free was left, and most of a block is
/// not written where groups are few. Above and below an exchange of two partitions they are some 18 MiB.
const BLOCKS_BYTES_MIN: usize = 20 << 20;

/// DataFusion tells the merges of its sorts by their names only.
fn is_merge(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("ExternalSorterMerge")
}

/// A sort, or the merge of what it has sorted.
fn is_sort(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("ExternalSorter")
}

/// An aggregation: of groups, or of sorted rows, where it holds the group at hand.
fn is_aggregation(consumer: &MemoryConsumer) -> bool {
    consumer.name().contains("AggregateStream[")
}

/// An aggregation of groups that can go through files.
fn is_spilling_aggregation(consumer: &MemoryConsumer) -> bool {
    is_aggregation(consumer) && consumer.can_spill()
}

/// A repartition hands most of its batches on at once; the others go to files.
fn is_repartition(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("RepartitionExec[") && consumer.can_spill()
}

impl SharePool {
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            spillable: FairSpillPool::new(bytes / 5),
            repartitions: FairSpillPool::new(bytes / 8),
            aggregations: GreedyMemoryPool::new(usize::MAX),
            others: GreedyMemoryPool::new(bytes),
            merges: AtomicUsize::new(0),
        }
    }

    /// What a consumer may have.
    fn share(&self, consumer: &MemoryConsumer) -> usize {
        match is_merge(consumer) {
            true => (self.bytes / 8 * 3 / self.merges.load(Ordering::Relaxed).max(1)).max(MERGE_BYTES_MIN),
            false => self.bytes,
        }
    }

    /// Among whom it counts.
    fn shared(&self, consumer: &MemoryConsumer) -> &dyn MemoryPool {
        match is_spilling_aggregation(consumer) {
            true => &self.spillable,
            false => self.of(consumer),
        }
    }

    /// What aggregations have before it counts.
    fn blocks(&self) -> usize {
        let own = 2 * self.bytes / AGGREGATION_OWN;
        own.max(BLOCKS_BYTES_MIN).min(self.bytes / 2)
    }

    /// What counts of all that is reserved.
    fn counted(&self) -> usize {
        let past = self.aggregations.reserved().saturating_sub(self.blocks());
        self.spillable.reserved() + self.repartitions.reserved() + self.others.reserved() + past
    }

    fn of(&self, consumer: &MemoryConsumer) -> &dyn MemoryPool {
        match consumer.can_spill() {
            _ if is_aggregation(consumer) => &self.aggregations,
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
        self.shared(consumer).register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.merges
            .fetch_sub(usize::from(is_merge(consumer)), Ordering::Relaxed);
        self.shared(consumer).unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.of(reservation.consumer()).grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.of(reservation.consumer()).shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (consumer, held) = (reservation.consumer(), reservation.size());
        let wanted = held.saturating_add(additional);
        // Past its share, a merge leaves the others three eighths.
        let limit = match wanted > self.share(consumer) {
            true => self.bytes / 8 * 5,
            false if is_sort(consumer) && wanted <= SORT_OWN_BYTES => self.bytes + self.bytes / PAST_LIMIT,
            false => self.bytes,
        };
        let own = (self.bytes / AGGREGATION_OWN).max(AGGREGATION_BYTES_MIN);
        let blocks = self.aggregations.reserved().saturating_add(additional);
        if is_aggregation(consumer) && wanted <= own && blocks <= self.blocks() {
            self.of(consumer).grow(reservation, additional);
            return Ok(());
        }
        let too_much = is_spilling_aggregation(consumer) && wanted > self.bytes / AGGREGATIONS;
        if too_much || self.counted().saturating_add(additional) > limit {
            let name = consumer.name();
            return Err(resources_datafusion_err!(
                "{name}, which has {held} bytes, wanted {additional} more of a query's {}.",
                self.bytes
            ));
        }
        if limit > self.bytes {
            self.of(consumer).grow(reservation, additional);
            return Ok(());
        }
        self.of(consumer).try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        let shared = self.spillable.reserved() + self.repartitions.reserved();
        shared + self.aggregations.reserved() + self.others.reserved()
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
    fn each_kind_has_its_share() {
        const MIB: usize = 1 << 20;
        let pool: Arc<dyn MemoryPool> = Arc::new(SharePool::new(80 * MIB));
        let two = |name: &str, spills| {
            let consumer = |at| MemoryConsumer::new(format!("{name}[{at}]")).with_can_spill(spills);
            [0, 1].map(|at| consumer(at).register(&pool))
        };
        let fits = |of: &MemoryReservation, mib: usize| of.try_grow(mib * MIB).is_ok() && of.try_grow(1).is_err();
        let sorts = two("ExternalSorter", true);
        assert!(sorts.iter().all(|sort| fits(sort, 8)));
        let merges = two("ExternalSorterMerge", false);
        assert!(fits(&merges[0], 34) && fits(&merges[1], 15));
        merges[0].shrink(19 * MIB);
        let repartitions = two("RepartitionExec", true);
        assert!(repartitions.iter().all(|repartition| fits(repartition, 5)));
        let join = MemoryConsumer::new("join").register(&pool);
        assert!(fits(&join, 24));
        sorts[0].free();
        assert!(join.try_grow(8 * MIB).is_ok());
        assert!(sorts[0].try_grow(8 * MIB).is_err());
        join.free();
        let aggregations = two("FinalHashAggregateStream", true);
        assert!(aggregations[0].try_grow(13 * MIB).is_ok() && aggregations[0].try_grow(MIB).is_err());
        assert!(sorts[0].try_grow(5 * MIB).is_err());
        drop(aggregations);
        drop((sorts, merges, repartitions, join));
        let others = ["join", "OrderedPartialAggregateStream[0]"].map(|name| MemoryConsumer::new(name).register(&pool));
        assert!(others[0].try_grow(80 * MIB).is_ok() && others[0].try_grow(1).is_err());
        assert!(fits(&others[1], AGGREGATION_BYTES_MIN / MIB));
        let final_ones = two("FinalHashAggregateStream", false);
        assert!(fits(&final_ones[0], AGGREGATION_BYTES_MIN / MIB) && final_ones[1].try_grow(1).is_err());
        // Their blocks take nothing from the others.
        others[0].shrink(MIB);
        assert!(fits(&others[0], 1));
        // A batch of each sort and merge is taken in any case.
        let more = ["ExternalSorter", "ExternalSorterMerge"].map(|name| two(name, name == "ExternalSorter"));
        assert!(more.iter().flatten().all(|of| fits(of, SORT_OWN_BYTES / MIB)));
        drop(more);
        drop((others, final_ones));
        assert_eq!(pool.reserved(), 0);
    }
}
