//! The memory of queries gives nothing to a statement that is to end: operators that ask for it before each batch end there.
//!
//! The first step of an aggregation in two hands its groups on where it has no memory for more of them, and has them twice
//! meanwhile: sets of distinct values, and the lists that these become. So it has none where half of the memory is taken.

use crate::pg::bounds;
use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use std::fmt;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct StoppedPool(pub Arc<dyn MemoryPool>);

/// With less a first step always goes on, bytes.
const FIRST_STEP_BYTES_MIN: usize = 1 << 20;

/// The first step of an aggregation in two.
fn is_first_step(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("PartialHashAggregateStream[")
}

impl StoppedPool {
    /// Whether a first step that holds so much is to hand its groups on.
    fn is_half_full(&self, wanted: usize, additional: usize) -> bool {
        let MemoryLimit::Finite(bytes) = self.memory_limit() else {
            return false;
        };
        wanted > FIRST_STEP_BYTES_MIN && self.reserved().saturating_add(additional) > bytes / 2
    }
}

impl fmt::Display for StoppedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl MemoryPool for StoppedPool {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.0.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.0.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.0.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        bounds::look()?;
        let consumer = reservation.consumer();
        if is_first_step(consumer) && self.is_half_full(reservation.size().saturating_add(additional), additional) {
            let name = consumer.name();
            return Err(resources_datafusion_err!(
                "{name} hands its groups on: half of the memory is taken."
            ));
        }
        self.0.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.0.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    #[test]
    fn first_steps_have_half() {
        const MIB: usize = 1 << 20;
        let pool: Arc<dyn MemoryPool> = Arc::new(StoppedPool(Arc::new(GreedyMemoryPool::new(100 * MIB))));
        let of = |name: &str| MemoryConsumer::new(name).register(&pool);
        let [first, other] = ["PartialHashAggregateStream[0]", "FinalHashAggregateStream[0]"].map(of);
        assert!(first.try_grow(50 * MIB).is_ok() && first.try_grow(1).is_err());
        assert!(other.try_grow(50 * MIB).is_ok() && other.try_grow(1).is_err());
        first.free();
        other.free();
        assert!(other.try_grow(90 * MIB).is_ok());
        assert!(first.try_grow(MIB).is_ok() && first.try_grow(1).is_err());
    }
}
