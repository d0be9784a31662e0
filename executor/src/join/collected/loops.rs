//! Nested loops without an index on the CPU (He 2008, section 4.2): every build key against every probe key, in tiles
//! of the build side that stay in the first-level cache; and the cross product, where there are no keys.

use std::ops::{ControlFlow, Range};

use tenon_gpu::cpu::join::{Emit, Matcher, PAIRS_MAX};

/// Build keys of a tile: 16 KiB of 64-bit keys.
const TILE: usize = 2048;
/// Build keys compared before the hits are looked at: one bit each.
const LANES: usize = 64;

/// The rows of one side that take part.
pub enum RowNumbers {
    /// Row `i` is row `i`; their number.
    All(usize),
    Picked(Vec<u32>),
}

impl RowNumbers {
    pub fn len(&self) -> usize {
        match self {
            RowNumbers::All(count) => *count,
            RowNumbers::Picked(rows) => rows.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row of item `at`.
    #[inline]
    pub fn row(&self, at: usize) -> u32 {
        match self {
            RowNumbers::All(_) => at as u32,
            RowNumbers::Picked(rows) => rows[at],
        }
    }
}

/// Equality by comparing all pairs.
pub struct NestedLoop<K> {
    build: (Vec<K>, RowNumbers),
    probe: (Vec<K>, RowNumbers),
}

impl<K> NestedLoop<K> {
    /// Keys with their rows. Panics if a side's lengths differ.
    pub fn new(build: (Vec<K>, RowNumbers), probe: (Vec<K>, RowNumbers)) -> Self {
        assert_eq!(build.0.len(), build.1.len(), "nested loop: build rows");
        assert_eq!(probe.0.len(), probe.1.len(), "nested loop: probe rows");
        Self { build, probe }
    }
}

impl<K: Copy + Eq + Send + Sync> Matcher for NestedLoop<K> {
    fn positions(&self) -> usize {
        self.probe.0.len()
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let mut found = Found::new(emit);
        for (number, tile) in self.build.0.chunks(TILE).enumerate() {
            for position in positions.clone() {
                let key = self.probe.0[position];
                for (part, lanes) in tile.chunks(LANES).enumerate() {
                    let mut hits = 0u64;
                    for (lane, &other) in lanes.iter().enumerate() {
                        hits |= u64::from(other == key) << lane;
                    }
                    while hits != 0 {
                        let at = number * TILE + part * LANES + hits.trailing_zeros() as usize;
                        hits &= hits - 1;
                        found.push(self.build.1.row(at), self.probe.1.row(position))?;
                    }
                }
            }
        }
        found.flush()
    }
}

/// Every pair.
pub struct CrossProduct {
    pub build: RowNumbers,
    pub probe: RowNumbers,
}

impl Matcher for CrossProduct {
    fn positions(&self) -> usize {
        self.probe.len()
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let mut found = Found::new(emit);
        for position in positions {
            let probe = self.probe.row(position);
            for at in 0..self.build.len() {
                found.push(self.build.row(at), probe)?;
            }
        }
        found.flush()
    }
}

/// Pairs on their way to the caller.
struct Found<'a, 'b> {
    build_rows: Vec<u32>,
    probe_rows: Vec<u32>,
    emit: &'a mut Emit<'b>,
}

impl<'a, 'b> Found<'a, 'b> {
    pub fn new(emit: &'a mut Emit<'b>) -> Self {
        Self {
            build_rows: Vec::with_capacity(PAIRS_MAX),
            probe_rows: Vec::with_capacity(PAIRS_MAX),
            emit,
        }
    }

    #[inline]
    pub fn push(&mut self, build_row: u32, probe_row: u32) -> ControlFlow<()> {
        self.build_rows.push(build_row);
        self.probe_rows.push(probe_row);
        if self.build_rows.len() == PAIRS_MAX {
            return self.flush();
        }
        ControlFlow::Continue(())
    }

    pub fn flush(&mut self) -> ControlFlow<()> {
        if self.build_rows.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = (self.emit)(&self.build_rows, &self.probe_rows);
        self.build_rows.clear();
        self.probe_rows.clear();
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    fn all_pairs(matcher: &dyn Matcher, step: usize) -> Vec<(u32, u32)> {
        let mut pairs = vec![];
        for from in (0..matcher.positions()).step_by(step) {
            let to = matcher.positions().min(from + step);
            let flow = matcher.pairs(from..to, &mut |build, probe| {
                assert!(build.len() == probe.len() && build.len() <= PAIRS_MAX);
                pairs.extend(build.iter().copied().zip(probe.iter().copied()));
                ControlFlow::Continue(())
            });
            assert!(flow.is_continue());
        }
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn finds_what_two_loops_find() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for (builds, probes) in [(0, 5), (5, 0), (1, 1), (63, 64), (65, 3), (2049, 40), (300, 5000)] {
            let mut draw = |count: usize| (0..count).map(|_| rng.random_range(0..50u64)).collect::<Vec<_>>();
            let (build, probe) = (draw(builds), draw(probes));
            let rows: Vec<u32> = (0..builds as u32).map(|row| row * 3).collect();
            let mut expected = vec![];
            for (b, key) in build.iter().enumerate() {
                for (p, other) in probe.iter().enumerate() {
                    if key == other {
                        expected.push((rows[b], p as u32));
                    }
                }
            }
            expected.sort_unstable();
            let matcher = NestedLoop::new(
                (build, RowNumbers::Picked(rows.clone())),
                (probe, RowNumbers::All(probes)),
            );
            assert_eq!(all_pairs(&matcher, 7), expected, "seed {seed}");
            let cross = CrossProduct {
                build: RowNumbers::Picked(rows.clone()),
                probe: RowNumbers::All(probes),
            };
            let expected: Vec<_> = rows
                .iter()
                .flat_map(|&row| (0..probes as u32).map(move |p| (row, p)))
                .collect();
            assert_eq!(all_pairs(&cross, 1000), expected, "seed {seed}");
        }
    }

    #[test]
    fn stops_when_told() {
        let cross = CrossProduct {
            build: RowNumbers::All(PAIRS_MAX),
            probe: RowNumbers::All(10),
        };
        let mut calls = 0;
        let flow = cross.pairs(0..10, &mut |_, _| {
            calls += 1;
            if calls == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!(flow.is_break());
        assert_eq!(calls, 3);
    }
}
