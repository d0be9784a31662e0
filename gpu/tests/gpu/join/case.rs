//! Inputs of a join drawn at random, and what a nested loop makes of them.

use rand::rngs::StdRng;
use rand::{Rng, seq::IndexedRandom};
use tenon_gpu::join::{JoinKind, RunLimits};

/// Sizes to draw from.
pub struct Limits {
    sizes: &'static [usize],
    /// Pairs at most; the number of keys is chosen accordingly.
    pairs_max: usize,
}

impl Limits {
    /// Around warps, and tiles and tables of the shapes that the operators are given.
    pub const SMALL: Limits = Limits {
        sizes: &[
            0, 1, 2, 31, 32, 33, 99, 100, 101, 127, 128, 129, 255, 257, 1000, 1023, 1024, 1025,
        ],
        pairs_max: 20_000,
    };
    pub const LARGE: Limits = Limits {
        sizes: &[5_000, 12_345],
        pairs_max: 100_000,
    };
}

/// A join.
pub struct Case {
    pub kind: JoinKind,
    /// Keys of 64 bits instead of 32.
    pub wide: bool,
    pub build: Vec<Option<u64>>,
    pub probe: Vec<Option<u64>>,
    /// Condition beyond the keys: `build value <= probe value`. Values are by row.
    pub has_residual: bool,
    pub build_values: Vec<u32>,
    pub probe_values: Vec<u32>,
    pub limits: RunLimits,
    pub equal_hashes: bool,
    what: String,
}

/// What comes out, sorted.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    pub pairs: Vec<(u32, u32)>,
    pub build_rows: Vec<u32>,
    pub probe_rows: Vec<u32>,
    pub marks: Vec<u8>,
}

/// Numbers of keys: uniform, Zipf's law, or one.
fn number(rng: &mut StdRng, skew: u32, distinct: u64) -> u64 {
    match skew {
        0 => rng.random_range(0..distinct),
        1 => (rng.random_range(f64::MIN_POSITIVE..1.0).powf(-4.0) as u64 - 1) % distinct,
        _ => distinct / 2,
    }
}

impl Case {
    pub fn draw(rng: &mut StdRng, limits: Limits) -> Case {
        let kind = *JoinKind::ALL.choose(rng).unwrap();
        let wide = rng.random();
        let (build_rows, probe_rows) = (*limits.sizes.choose(rng).unwrap(), *limits.sizes.choose(rng).unwrap());
        let skew = if build_rows.max(probe_rows) < 2000 {
            rng.random_range(0..3)
        } else {
            0
        };
        let least = (build_rows * probe_rows).div_ceil(limits.pairs_max).max(1) as u64;
        let distinct = least * [1, 2, 20, 1000].choose(rng).unwrap();
        // Keys of all bits, of a dense range, and those at the ends of the type.
        let spread = rng.random_range(0..3);
        let factor = rng.random::<u64>() | 1;
        let key_of = |number: u64| {
            let key = match spread {
                0 => number.wrapping_mul(factor),
                1 => number + 7,
                _ => u64::MAX - number,
            };
            if wide { key } else { key as u32 as u64 }
        };
        let nulls = *[0.0, 0.0, 0.2, 1.0].choose(rng).unwrap();
        let unique_build = rng.random_bool(0.3);
        let mut keys = |rows: usize, is_unique: bool| -> Vec<Option<u64>> {
            let draw = |row| {
                let number = if is_unique {
                    row as u64
                } else {
                    number(rng, skew, distinct)
                };
                (!rng.random_bool(nulls)).then(|| key_of(number))
            };
            (0..rows).map(draw).collect()
        };
        let (build, probe) = (keys(build_rows, unique_build), keys(probe_rows, false));
        let has_residual = rng.random_bool(0.4);
        let value = |_| rng.random_range(0..100);
        let build_values: Vec<u32> = (0..build_rows).map(value).collect();
        let value = |_| rng.random_range(0..100);
        let probe_values = (0..probe_rows).map(value).collect();
        // Equal hashes make tables as slow as lists.
        let equal_hashes = build_rows < 300 && rng.random_bool(0.2);
        let limits = *[
            RunLimits::default(),
            RunLimits {
                pairs_max: 1000,
                positions_max: 100,
            },
            RunLimits {
                pairs_max: 37,
                positions_max: 1 << 20,
            },
        ]
        .choose(rng)
        .unwrap();
        // Windows of few pairs and many pairs take a launch each.
        let limits = if build_rows.max(probe_rows) > 300 && limits.pairs_max < 1000 {
            RunLimits {
                pairs_max: 2000,
                positions_max: 777,
            }
        } else {
            limits
        };
        Case {
            kind,
            wide,
            what: format!(
                "{kind:?} of {build_rows} and {probe_rows} rows, {distinct} keys of {} bits, skew {skew}, spread \
                 {spread}, nulls {nulls}, unique build {unique_build}, residual {has_residual}, {limits:?}, equal \
                 hashes {equal_hashes}",
                if wide { 64 } else { 32 }
            ),
            build,
            probe,
            has_residual,
            build_values,
            probe_values,
            limits,
            equal_hashes,
        }
    }

    /// Whether the condition beyond the keys holds.
    pub fn holds(&self, build: u32, probe: u32) -> bool {
        !self.has_residual || self.build_values[build as usize] <= self.probe_values[probe as usize]
    }

    /// By a nested loop.
    pub fn expected(&self) -> Outcome {
        let mut pairs = Vec::new();
        for (b, build) in self.build.iter().enumerate() {
            for (p, probe) in self.probe.iter().enumerate() {
                if build.is_some() && build == probe && self.holds(b as u32, p as u32) {
                    pairs.push((b as u32, p as u32));
                }
            }
        }
        self.outcome(pairs)
    }

    /// What comes out of these pairs.
    pub fn outcome(&self, mut pairs: Vec<(u32, u32)>) -> Outcome {
        use JoinKind::*;
        let (mut build, mut probe) = (vec![0u8; self.build.len()], vec![0u8; self.probe.len()]);
        for &(b, p) in &pairs {
            build[b as usize] = 1;
            probe[p as usize] = 1;
        }
        let rows = |flags: &[u8], wanted: u8| -> Vec<u32> {
            (0..flags.len() as u32)
                .filter(|&row| flags[row as usize] == wanted)
                .collect()
        };
        pairs.sort_unstable();
        let none = Outcome::default;
        match self.kind {
            Inner => Outcome { pairs, ..none() },
            BuildOuter => Outcome {
                pairs,
                build_rows: rows(&build, 0),
                ..none()
            },
            ProbeOuter => Outcome {
                pairs,
                probe_rows: rows(&probe, 0),
                ..none()
            },
            Full => Outcome {
                pairs,
                build_rows: rows(&build, 0),
                probe_rows: rows(&probe, 0),
                ..none()
            },
            BuildSemi | BuildAnti => Outcome {
                build_rows: rows(&build, u8::from(self.kind == BuildSemi)),
                ..none()
            },
            ProbeSemi | ProbeAnti => Outcome {
                probe_rows: rows(&probe, u8::from(self.kind == ProbeSemi)),
                ..none()
            },
            BuildMark => Outcome { marks: build, ..none() },
            ProbeMark => Outcome { marks: probe, ..none() },
        }
    }
}

impl Outcome {
    /// Panics if the other differs.
    pub fn compare(&self, found: &Outcome, operator: &str, number: usize, case: &Case) {
        if self == found {
            return;
        }
        let counts = |o: &Outcome| (o.pairs.len(), o.build_rows.len(), o.probe_rows.len(), o.marks.len());
        panic!(
            "{operator}, case {number}: {}\nexpected {:?} pairs, build rows, probe rows, marks; found {:?}",
            case.what,
            counts(self),
            counts(found)
        );
    }
}
