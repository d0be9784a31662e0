//! Inputs of a join drawn at random, millions of rows of them, by all cores.

use rayon::prelude::*;
use tenon_gpu::join::{JoinKind, RunLimits};

/// Splitmix64: well mixed bits of a number.
pub fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Draws, one after the other.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % limit
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// How key numbers spread.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Skew {
    Uniform,
    /// Zipf's law with this exponent, above 1.
    Zipf(f64),
    OneKey,
    /// Each number once: the row's.
    Unique,
}

/// Keys in either width, and the rows that have one.
pub struct Side {
    pub narrow: Vec<u32>,
    pub wide: Vec<u64>,
    /// `None`: key `i` is row `i`'s. Rows with a null key are left out.
    pub rows: Option<Vec<u32>>,
    pub row_count: u64,
    /// By row, for the condition.
    pub values: Vec<u32>,
}

/// A join.
pub struct Case {
    pub kind: JoinKind,
    /// Keys of 64 bits instead of 32.
    pub wide: bool,
    /// Condition beyond the keys: `build value <= probe value`.
    pub has_residual: bool,
    pub build: Side,
    pub probe: Side,
    pub limits: RunLimits,
    /// Device memory of a join whose state may be larger.
    pub memory_bytes: u64,
    pub what: String,
}

/// What is not drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed {
    pub kind: Option<JoinKind>,
    pub wide: Option<bool>,
    pub has_residual: Option<bool>,
}

impl Case {
    /// Of at most `rows_max` rows a side, and some times as many pairs.
    pub fn draw(seed: u64, rows_max: u64, fixed: Fixed) -> Case {
        let mut draws = Draws(seed);
        let kind = draws.of(&JoinKind::ALL);
        let kind = fixed.kind.unwrap_or(kind);
        let wide = draws.below(2) == 1;
        let wide = fixed.wide.unwrap_or(wide);
        let has_residual = draws.below(3) == 0;
        let has_residual = fixed.has_residual.unwrap_or(has_residual);
        let share = |draws: &mut Draws| (rows_max / draws.of(&[1, 1, 1, 3, 32, 5000])).max(1);
        let (build_rows, probe_rows) = (share(&mut draws), share(&mut draws));
        // As many keys as make at most four pairs a row, while one side is uniform.
        let most = build_rows.max(probe_rows);
        let distinct = (build_rows * probe_rows / (4 * most)).max(1) * draws.of(&[1, 2, 4, 40]);
        let skews = [Skew::Uniform, Skew::Zipf(1.25), Skew::Zipf(2.0), Skew::OneKey];
        let mut skewed = [Skew::Uniform, Skew::Uniform];
        let side = draws.below(2) as usize;
        skewed[side] = draws.of(&skews);
        if side == 1 && draws.below(2) == 0 {
            skewed[0] = Skew::Unique;
        }
        // No pairs come out, and none need be looked at: then skew may meet skew.
        if !kind.has_pairs() && !has_residual && draws.below(3) == 0 {
            skewed = [draws.of(&skews), draws.of(&skews)];
        }
        // Some probe keys beyond those of the build side.
        let beyond = draws.of(&[1, 1, 3, 10]);
        let spread = draws.below(3);
        let factor = mix(seed) | 1;
        let nulls = draws.of(&[0, 0, 5]);
        let mut side = |rows: u64, skew: Skew, range: u64| {
            let salt = draws.below(u64::MAX);
            draw_side(rows, skew, range, nulls, salt, wide, |number| match spread {
                0 => number.wrapping_mul(factor),
                1 => number + 7,
                _ => u64::MAX - number,
            })
        };
        let build = side(build_rows, skewed[0], distinct);
        let probe = side(probe_rows, skewed[1], distinct * beyond);
        let limits = draws.of(&[
            RunLimits::default(),
            RunLimits {
                pairs_max: rows_max / 3 + 1,
                positions_max: rows_max / 5 + 1,
            },
        ]);
        let state_bytes = build_rows * 32 + (1 << 20);
        Case {
            what: format!(
                "seed {seed}: {kind:?} of {build_rows} and {probe_rows} rows, {distinct} keys of {} bits (x {beyond}), \
                 {skewed:?}, spread {spread}, one null in {nulls}, residual {has_residual}, {limits:?}",
                if wide { 64 } else { 32 }
            ),
            kind,
            wide,
            has_residual,
            build,
            probe,
            limits,
            memory_bytes: state_bytes / draws.of(&[1, 3]) + (2 << 20),
        }
    }

    /// Whether the condition beyond the keys holds.
    pub fn holds(&self, build: u32, probe: u32) -> bool {
        !self.has_residual || self.build.values[build as usize] <= self.probe.values[probe as usize]
    }
}

fn draw_side(
    rows: u64,
    skew: Skew,
    range: u64,
    nulls: u64,
    salt: u64,
    wide: bool,
    key_of: impl Fn(u64) -> u64 + Sync,
) -> Side {
    let is_null = |row: u64| nulls > 0 && mix(salt ^ 1 ^ row << 8).is_multiple_of(nulls);
    let number = |row: u64| {
        let random = mix(salt.wrapping_add(row << 8));
        match skew {
            Skew::Uniform => random % range,
            Skew::Zipf(exponent) => {
                let uniform = ((random >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
                (uniform.powf(-1.0 / (exponent - 1.0)) - 1.0).min(1e18) as u64 % range
            }
            Skew::OneKey => range / 2,
            Skew::Unique => row,
        }
    };
    let with_key: Vec<u32> = (0..rows as u32)
        .into_par_iter()
        .filter(|&row| !is_null(row as u64))
        .collect();
    let key = |&row: &u32| key_of(number(row as u64));
    Side {
        narrow: if wide {
            Vec::new()
        } else {
            with_key.par_iter().map(|row| key(row) as u32).collect()
        },
        wide: if wide {
            with_key.par_iter().map(key).collect()
        } else {
            Vec::new()
        },
        values: (0..rows)
            .into_par_iter()
            .map(|row| (mix(salt ^ 2 ^ row << 8) % 100) as u32)
            .collect(),
        rows: (with_key.len() as u64 != rows).then_some(with_key),
        row_count: rows,
    }
}
