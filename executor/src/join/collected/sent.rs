//! Pairs that the partitions took before the device failed: whoever finds the join's pairs again leaves them out, so
//! that nothing is sent twice. Every operator finds a pair of rows once, so that row numbers tell pairs apart.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryReservation;
use rayon::prelude::*;

use super::pieces::Piece;

/// Pairs of a bucket, about: so many are searched for one pair.
const BUCKET_PAIRS: usize = 16;

pub struct Sent {
    /// `other << 32 | own`, ascending.
    pairs: Vec<u64>,
    /// Where the pairs begin whose `other` is of the bucket `other >> shift`; and the end of the last.
    starts: Vec<usize>,
    shift: u32,
    /// Of attempts before.
    earlier: Option<Arc<Sent>>,
    _memory: Vec<MemoryReservation>,
}

impl Sent {
    /// The first so many pairs of each piece.
    pub fn of(taken: Vec<(usize, Arc<Piece>)>, earlier: Option<Arc<Sent>>) -> Self {
        let total = taken.iter().map(|(count, _)| count).sum();
        let (mut pairs, mut memory) = (Vec::with_capacity(total), vec![]);
        for (count, piece) in taken {
            memory.push(piece.room_to_sort(count));
            pairs.extend((0..count).map(|at| packed(piece.own[at], piece.other[at])));
        }
        pairs.par_sort_unstable();
        let others = pairs.last().map_or(0, |last| last >> 32) + 1;
        let buckets = (total / BUCKET_PAIRS).max(1) as u64;
        let shift = others.div_ceil(buckets).next_power_of_two().trailing_zeros();
        let starts = (0..=((others - 1) >> shift) + 1)
            .map(|bucket| pairs.partition_point(|pair| (pair >> 32) >> shift < bucket))
            .collect();
        Self {
            pairs,
            starts,
            shift,
            earlier,
            _memory: memory,
        }
    }

    pub fn has(&self, own: u32, other: u32) -> bool {
        let bucket = (u64::from(other) >> self.shift) as usize;
        let found = match self.starts.get(bucket..bucket + 2) {
            Some(ends) => self.pairs[ends[0]..ends[1]].binary_search(&packed(own, other)).is_ok(),
            None => false,
        };
        found || self.earlier.as_ref().is_some_and(|earlier| earlier.has(own, other))
    }

    /// The pairs that were not sent.
    pub fn without(&self, own: &[u32], other: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let pairs = own.iter().copied().zip(other.iter().copied());
        pairs.filter(|&(own, other)| !self.has(own, other)).unzip()
    }
}

fn packed(own: u32, other: u32) -> u64 {
    u64::from(other) << 32 | u64::from(own)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;

    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::join::collected::pieces::{Next, Outlet, Pieces, Streaming};

    /// Pairs of two attempts that fail when some have been taken: those, and no others, have been sent.
    #[test]
    fn what_was_taken_has_been_sent() {
        let mut rng = StdRng::seed_from_u64(tenon_gpu::testing::seed("sent"));
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        for below in [1, 40, 3000, u32::MAX] {
            let pieces = Pieces::new(Streaming {
                piece_pairs: rng.random_range(1..50_000),
                waiting_pairs: usize::MAX,
                ..Streaming::default()
            });
            let out = Outlet {
                pieces: &pieces,
                checks: Arc::default(),
                memory: &MemoryConsumer::new("pairs").register(&pool),
                cancelled: &AtomicBool::new(false),
            };
            let (mut sent, mut all, mut taken) = (None, HashSet::new(), HashSet::new());
            for _ in 0..2 {
                let row = |rng: &mut StdRng| rng.random_range(0..below);
                let drawn: HashSet<_> = (0..60_000).map(|_| (row(&mut rng), row(&mut rng))).collect();
                all.extend(drawn.iter().copied());
                let (own, other): (Vec<_>, Vec<_>) = drawn.into_iter().unzip();
                let room = out.reserve(own.len()).unwrap();
                out.push(own, other, room).unwrap();
                for _ in 0..rng.random_range(0..4) {
                    if let Next::Pairs(piece, range) = pieces.next().unwrap() {
                        taken.extend(range.map(|at| (piece.own[at], piece.other[at])));
                    }
                }
                sent = pieces.recall(sent);
            }
            let has = |own, other| sent.as_ref().is_some_and(|sent| sent.has(own, other));
            let (own, other): (Vec<_>, Vec<_>) = all.iter().copied().unzip();
            for pair in all {
                assert_eq!(has(pair.0, pair.1), taken.contains(&pair), "{pair:?} below {below}");
            }
            let left = sent
                .as_ref()
                .map_or(own.len(), |sent| sent.without(&own, &other).0.len());
            assert_eq!(left, own.len() - taken.len());
            assert!(!has(below, below), "a row that no side has");
        }
        assert_eq!(pool.reserved(), 0);
    }
}
