//! Pairs that the partitions took before the device failed: whoever finds the join's pairs again leaves them out, so
//! that nothing is emitted twice. Every operator finds a pair of rows once, so that row numbers tell pairs apart.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryReservation;
use rayon::prelude::*;

/// Pairs of a bucket, about: so many are searched for one pair.
const BUCKET_PAIRS: usize = 16;

pub struct EmittedPairs {
    /// `probe << 32 | build`, ascending.
    pairs: Vec<u64>,
    /// Where the pairs begin whose `probe` is of the bucket `probe >> shift`; and the end of the last.
    starts: Vec<usize>,
    shift: u32,
    /// Of attempts before.
    earlier: Option<Arc<EmittedPairs>>,
    _memory: Vec<MemoryReservation>,
}

/// Pairs that were taken together.
pub struct Taken<'a> {
    pub build: &'a [u32],
    pub probe: &'a [u32],
    /// Reserved for another copy of them.
    pub room_to_sort: MemoryReservation,
}

impl EmittedPairs {
    pub fn of(taken: Vec<Taken<'_>>, earlier: Option<Arc<EmittedPairs>>) -> Self {
        let total = taken.iter().map(|taken| taken.build.len()).sum();
        let (mut pairs, mut memory) = (Vec::with_capacity(total), vec![]);
        for taken in taken {
            memory.push(taken.room_to_sort);
            let rows = taken.build.iter().zip(taken.probe);
            pairs.extend(rows.map(|(&build, &probe)| packed(build, probe)));
        }
        pairs.par_sort_unstable();
        let probes = pairs.last().map_or(0, |last| last >> 32) + 1;
        let buckets = (total / BUCKET_PAIRS).max(1) as u64;
        let shift = probes.div_ceil(buckets).next_power_of_two().trailing_zeros();
        let starts = (0..=((probes - 1) >> shift) + 1)
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

    pub fn has(&self, build: u32, probe: u32) -> bool {
        let bucket = (u64::from(probe) >> self.shift) as usize;
        let found = match self.starts.get(bucket..bucket + 2) {
            Some(ends) => self.pairs[ends[0]..ends[1]]
                .binary_search(&packed(build, probe))
                .is_ok(),
            None => false,
        };
        found || self.earlier.as_ref().is_some_and(|earlier| earlier.has(build, probe))
    }

    /// The pairs that were not emitted.
    pub fn without(&self, build: &[u32], probe: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let pairs = build.iter().copied().zip(probe.iter().copied());
        pairs.filter(|&(build, probe)| !self.has(build, probe)).unzip()
    }
}

fn packed(build: u32, probe: u32) -> u64 {
    u64::from(probe) << 32 | u64::from(build)
}
