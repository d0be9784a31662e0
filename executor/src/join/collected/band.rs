//! Range and band joins on the CPU: the build keys sorted once, and for each probe row the run of keys within its
//! bounds (the sort-merge family of He 2008, section 4.4, with band predicates as in Govindaraju 2005).

use std::ops::{ControlFlow, Range};

use tenon_gpu::Result;
use tenon_gpu::cpu::join::{Emit, Matcher, PAIRS_MAX};
use tenon_gpu::cpu::sort::sort_pairs;
use tenon_gpu::primitives::sort::{SortKey, SortOptions};

use super::loops::RowNumbers;

/// Build keys in order, and the bounds of each probe row, both ends included.
pub struct Band<K> {
    keys: Vec<K>,
    /// The row of each key.
    rows: Vec<u32>,
    bounds: Vec<Bounds<K>>,
}

/// The build keys that a probe row meets.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<K> {
    pub low: K,
    pub high: K,
    pub probe_row: u32,
}

impl<K: SortKey + Ord> Band<K> {
    /// Sorts the build keys, and the probe rows by their lower bound: neighbours then search the same places.
    pub fn build(keys: Vec<K>, rows: RowNumbers, mut bounds: Vec<Bounds<K>>) -> Result<Self> {
        let rows: Vec<u32> = match rows {
            RowNumbers::All(count) => (0..count as u32).collect(),
            RowNumbers::Picked(rows) => rows,
        };
        let (mut sorted, mut sorted_rows) = (keys.clone(), rows.clone());
        sort_pairs(&keys, &rows, &mut sorted, &mut sorted_rows, &SortOptions::default())?;
        bounds.sort_unstable_by_key(|bound| bound.low);
        Ok(Self {
            keys: sorted,
            rows: sorted_rows,
            bounds,
        })
    }
}

impl<K: Copy + Ord + Send + Sync> Matcher for Band<K> {
    fn positions(&self) -> usize {
        self.bounds.len()
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let mut probe_rows = Vec::with_capacity(PAIRS_MAX);
        let mut build_rows: Vec<u32> = Vec::with_capacity(PAIRS_MAX);
        let mut start = match self.bounds.get(positions.start) {
            Some(first) => self.keys.partition_point(|&key| key < first.low),
            None => return ControlFlow::Continue(()),
        };
        for bound in &self.bounds[positions] {
            // Lower bounds ascend.
            start += gallop(&self.keys[start..], |&key| key < bound.low);
            if bound.high < bound.low {
                continue;
            }
            let end = start + gallop(&self.keys[start..], |&key| key <= bound.high);
            let mut run = &self.rows[start..end];
            while !run.is_empty() {
                let (now, later) = run.split_at(run.len().min(PAIRS_MAX - build_rows.len()));
                build_rows.extend_from_slice(now);
                probe_rows.resize(build_rows.len(), bound.probe_row);
                run = later;
                if build_rows.len() == PAIRS_MAX {
                    emit(&build_rows, &probe_rows)?;
                    build_rows.clear();
                    probe_rows.clear();
                }
            }
        }
        if build_rows.is_empty() {
            return ControlFlow::Continue(());
        }
        emit(&build_rows, &probe_rows)
    }
}

/// How many leading items hold, found in steps that double: near places cost little.
fn gallop<T>(items: &[T], holds: impl Fn(&T) -> bool) -> usize {
    let mut step = 1;
    while step <= items.len() && holds(&items[step - 1]) {
        step *= 2;
    }
    let (from, to) = (step / 2, items.len().min(step));
    from + items[from..to].partition_point(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    #[test]
    fn finds_what_two_loops_find() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for (builds, probes, width) in [(0, 5, 1), (5, 0, 1), (1, 1, 0), (1000, 700, 3), (300, 200, 900)] {
            let keys: Vec<u64> = (0..builds).map(|_| rng.random_range(0..1000)).collect();
            let bounds: Vec<Bounds<u64>> = (0..probes)
                .map(|probe_row| {
                    let low = rng.random_range(0..1000);
                    let high = (low + rng.random_range(0..=width)).saturating_sub(1);
                    Bounds { low, high, probe_row }
                })
                .collect();
            let mut expected = vec![];
            for (row, key) in keys.iter().enumerate() {
                for bound in &bounds {
                    if bound.low <= *key && *key <= bound.high {
                        expected.push((row as u32, bound.probe_row));
                    }
                }
            }
            expected.sort_unstable();
            let band = Band::build(keys, RowNumbers::All(builds), bounds).unwrap();
            let mut pairs = vec![];
            for from in (0..band.positions()).step_by(17) {
                let flow = band.pairs(from..band.positions().min(from + 17), &mut |build, probe| {
                    assert!(build.len() == probe.len() && build.len() <= PAIRS_MAX);
                    pairs.extend(build.iter().copied().zip(probe.iter().copied()));
                    ControlFlow::Continue(())
                });
                assert!(flow.is_continue());
            }
            pairs.sort_unstable();
            assert_eq!(pairs, expected, "seed {seed}");
        }
    }
}
