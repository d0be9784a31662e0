//! The grid: tables `b` and `p`, made by SQL with keys `k` and a number `w` a row, and a query that joins them.

use std::ops::RangeInclusive;

const K: usize = 1 << 10;
const M: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Predicate {
    Equality,
    /// `b.k` within so much of `p.k`.
    Band(usize),
    /// `b.k` above nearly all of `p.k`.
    Inequality,
    /// Neither.
    Other,
}

/// The keys of both sides. Those of `b` are all different, but for `Repeated`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Numbers side by side, in no order; four bytes.
    Dense,
    /// Far apart, in no order; eight bytes.
    Sparse,
    /// Far apart, ascending in both tables.
    Sorted,
    /// Side by side, ascending in both tables.
    SortedDense,
    /// Far apart, each eight times in `b`.
    Repeated,
    /// Far apart; half of `p` has one of a few keys.
    Skewed,
    /// Text.
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub predicate: Predicate,
    pub keys: Keys,
    pub build_rows: usize,
    pub probe_rows: usize,
    /// One row in so many of `p` has a partner.
    pub one_in: usize,
    /// Whether `p (k)` has an index.
    pub index: bool,
}

/// Cases with so many rows on the larger side, the small ones first.
pub fn grid(rows: &RangeInclusive<usize>) -> Vec<Case> {
    use Keys::*;
    let case = |predicate, keys, (build_rows, probe_rows)| Case {
        predicate,
        keys,
        build_rows,
        probe_rows,
        one_in: 1,
        index: false,
    };
    let mut all = vec![];
    let sizes = [
        (K, K),
        (K, M),
        (64 * K, 64 * K),
        (64 * K, M),
        (M, M),
        (M, 16 * M),
        (16 * M, 16 * M),
        (128 * M, 128 * M),
    ];
    for size in sizes {
        let large = size.1 > 16 * M;
        for keys in [Dense, Sparse, Sorted, SortedDense, Repeated, Skewed] {
            if !large || matches!(keys, Dense | Sparse) {
                all.push(case(Predicate::Equality, keys, size));
            }
        }
        if size.1 <= 16 * M {
            all.push(Case {
                one_in: 100,
                ..case(Predicate::Equality, Sparse, size)
            });
        }
        if size.1 <= M {
            all.push(case(Predicate::Equality, Text, size));
        }
    }
    for size in [(K, K), (64 * K, 64 * K), (K, M), (M, K), (M, M), (16 * M, 16 * M)] {
        all.push(case(Predicate::Band(2), Dense, size));
        all.push(case(Predicate::Inequality, Dense, size));
    }
    for size in [(10, K), (K, K), (10, M), (100, M), (K, M)] {
        all.push(case(Predicate::Other, Dense, size));
    }
    for build_rows in [10, K, 16 * K, 256 * K] {
        for (predicate, keys) in [(Predicate::Equality, Sparse), (Predicate::Band(2), Dense)] {
            for probe_rows in [M, 16 * M] {
                all.push(Case {
                    index: true,
                    // Each row of the table with the index has a key of its own.
                    one_in: probe_rows / build_rows,
                    ..case(predicate, keys, (build_rows, probe_rows))
                });
            }
        }
    }
    all.retain(|case| rows.contains(&case.build_rows.max(case.probe_rows)));
    all.sort_by_key(|case| case.build_rows.max(case.probe_rows));
    all
}

impl Case {
    pub fn pairs(&self) -> f64 {
        self.build_rows as f64 * self.probe_rows as f64
    }

    /// Repeats of a case that takes long are fewer.
    pub fn repeats(&self, runs: usize) -> usize {
        match self.probe_rows.max(self.build_rows) {
            0..=0x2_0000 => 2 * runs,
            0x2_0001..=0x20_0000 => runs,
            _ => runs.div_ceil(2),
        }
    }

    /// The operators that compute it, as the setting calls them.
    pub fn operators(&self, device: &str) -> Vec<&'static str> {
        let on_gpu = device == "gpu";
        let mut operators = match self.predicate {
            Predicate::Equality if on_gpu => vec!["hj", "smj", "inlj", "triton", "ninlj"],
            Predicate::Equality => vec!["streamed", "hj", "smj", "inlj", "ninlj"],
            Predicate::Band(_) | Predicate::Inequality if self.index && !on_gpu => vec!["smj", "inlj", "ninlj"],
            Predicate::Band(_) | Predicate::Inequality => vec!["smj", "ninlj"],
            Predicate::Other => vec!["ninlj"],
        };
        if !on_gpu && self.predicate == Predicate::Other {
            // For a build side of a few rows; refused for others.
            operators.push("streamed");
        }
        operators
    }

    pub fn setup(&self) -> Vec<String> {
        let (build, probe) = (self.build_rows, self.probe_rows);
        let (of_build, of_probe) = match self.keys {
            Keys::Dense => (shuffled(build), shuffled(build * self.one_in)),
            Keys::Sparse | Keys::Text => (shuffled(build), shuffled(build * self.one_in)),
            Keys::Sorted | Keys::SortedDense => ("v - 1".into(), format!("(v - 1) * {build} / {probe}")),
            Keys::Repeated => (shuffled((build / 8).max(1)), shuffled((build / 8).max(1))),
            Keys::Skewed => (
                shuffled(build),
                format!("CASE WHEN v % 2 = 0 THEN v % 7 ELSE {} END", shuffled(build)),
            ),
        };
        let form = |key: String| match self.keys {
            Keys::Dense | Keys::SortedDense => format!("({key})::int"),
            Keys::Text => format!("'key ' || ({key})"),
            _ => format!("({key}) * 1000003"),
        };
        let table = |name: &str, key: String, rows: usize| {
            let key = form(key);
            // Several cores write a table's rows in the order in which they come.
            let order = match self.keys {
                Keys::Sorted | Keys::SortedDense => " ORDER BY v",
                _ => "",
            };
            format!(
                "CREATE TABLE {name} AS SELECT {key} AS k, v AS w FROM generate_series(1::bigint, {rows}) AS g(v){order}"
            )
        };
        let mut statements = vec![table("b", of_build, build), table("p", of_probe, probe)];
        if self.index {
            statements.push("CREATE INDEX p_k ON p (k)".into());
        }
        statements
    }

    pub fn teardown(&self) -> Vec<String> {
        vec!["DROP TABLE b".into(), "DROP TABLE p".into()]
    }

    pub fn query(&self) -> String {
        let condition = match self.predicate {
            Predicate::Equality => "b.k = p.k".into(),
            // The bounded side is the one with the index, if there is one.
            Predicate::Band(width) if self.index => format!("p.k BETWEEN b.k - {width} AND b.k + {width}"),
            Predicate::Band(width) => format!("b.k BETWEEN p.k - {width} AND p.k + {width}"),
            Predicate::Inequality => format!("b.k > p.k + {}", self.build_rows.saturating_sub(4)),
            Predicate::Other => "(b.k + p.k) % 1009 = 7".into(),
        };
        format!("SELECT count(*), sum(b.w), sum(p.w) FROM p JOIN b ON {condition}")
    }
}

/// An expression of `v`, 1, 2, 3, ..., that gives each number below `below` once in as many rows, in no order: multiples of
/// a prime number alone would make hashes that are as regular.
fn shuffled(below: usize) -> String {
    let multiple = format!("(v * 7919 % {below})");
    if !below.is_power_of_two() || below < K {
        return multiple;
    }
    // Each step has an inverse.
    let (shift, mask) = (below.trailing_zeros() / 2, below - 1);
    let mix = |x: String, factor: usize| format!("((({x} # ({x} >> {shift})) * {factor}) & {mask})");
    mix(mix(multiple, 48271), 69621)
}
