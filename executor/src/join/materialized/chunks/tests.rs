//! What has been emitted when the device fails.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

/// Pairs of two attempts that fail when some have been taken: those, and no others, have been emitted.
#[test]
fn what_was_taken_has_been_sent() {
    let mut rng = StdRng::seed_from_u64(tenon_gpu::testing::seed("emitted"));
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    for below in [1, 40, 3000, u32::MAX] {
        let chunks = PairChunks::new(ChunkLimits {
            chunk_pairs: rng.random_range(1..50_000),
            waiting_pairs: usize::MAX,
            ..ChunkLimits::default()
        });
        let out = PairSender {
            chunks: &chunks,
            checks: Arc::default(),
            memory: &MemoryConsumer::new("pairs").register(&pool),
            cancelled: &AtomicBool::new(false),
        };
        let (mut emitted, mut all, mut taken) = (None, HashSet::new(), HashSet::new());
        for _ in 0..2 {
            let row = |rng: &mut StdRng| rng.random_range(0..below);
            let drawn: HashSet<_> = (0..60_000).map(|_| (row(&mut rng), row(&mut rng))).collect();
            all.extend(drawn.iter().copied());
            let (build, probe): (Vec<_>, Vec<_>) = drawn.into_iter().unzip();
            let room = out.reserve(build.len()).unwrap();
            out.push(build, probe, room).unwrap();
            for _ in 0..rng.random_range(0..4) {
                if let Next::Pairs(chunk, range) = chunks.next().unwrap() {
                    taken.extend(range.map(|at| (chunk.build[at], chunk.probe[at])));
                }
            }
            emitted = chunks.roll_back(emitted);
        }
        let has = |build, probe| emitted.as_ref().is_some_and(|emitted| emitted.has(build, probe));
        let (build, probe): (Vec<_>, Vec<_>) = all.iter().copied().unzip();
        for pair in all {
            assert_eq!(has(pair.0, pair.1), taken.contains(&pair), "{pair:?} below {below}");
        }
        let left = emitted
            .as_ref()
            .map_or(build.len(), |emitted| emitted.without(&build, &probe).0.len());
        assert_eq!(left, build.len() - taken.len());
        assert!(!has(below, below), "a row that no side has");
    }
    assert_eq!(pool.reserved(), 0);
}
