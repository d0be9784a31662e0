//! What comes out of a join, by the hash table of the CPU, and in a form that is quickly compared.

use std::sync::atomic::{AtomicU8, Ordering};

use rayon::prelude::*;
use tenon_cpu::join::hash::{HashKey, HashTable};
use tenon_gpu::join::JoinKind;

use super::case::{Case, Side, mix};

/// Pairs as their number and sums over them; rows and flags as they are.
#[derive(Default, PartialEq)]
pub struct Outcome {
    pub pairs: u64,
    /// Of mixed bits of both row numbers: pairs in any order.
    pub checksum: u64,
    /// Of the products of both row numbers.
    pub products: u64,
    pub build_rows: Vec<u32>,
    pub probe_rows: Vec<u32>,
    pub marks: Vec<u8>,
}

impl Outcome {
    /// Adds pairs.
    pub fn add(&mut self, build_rows: &[u32], probe_rows: &[u32]) {
        let sums = build_rows
            .par_iter()
            .zip(probe_rows)
            .map(|(&build, &probe)| sums_of(build, probe));
        self.add_sums(sums.reduce(|| (0, 0, 0), add));
    }

    fn add_sums(&mut self, sums: (u64, u64, u64)) {
        (self.pairs, self.checksum, self.products) = add((self.pairs, self.checksum, self.products), sums);
    }

    pub fn counts(&self) -> (u64, usize, usize, usize) {
        (
            self.pairs,
            self.build_rows.len(),
            self.probe_rows.len(),
            self.marks.len(),
        )
    }
}

fn sums_of(build: u32, probe: u32) -> (u64, u64, u64) {
    let (build, probe) = (build as u64, probe as u64);
    (1, mix(build << 32 | probe), build * probe)
}

fn add(a: (u64, u64, u64), b: (u64, u64, u64)) -> (u64, u64, u64) {
    (a.0 + b.0, a.1.wrapping_add(b.1), a.2.wrapping_add(b.2))
}

/// The outcome, by the CPU's hash table.
pub fn expected(case: &Case) -> Outcome {
    match case.wide {
        true => by_table(case, &case.build.wide, &case.probe.wide),
        false => by_table(case, &case.build.narrow, &case.probe.narrow),
    }
}

fn rows_of_keys(side: &Side, keys: usize) -> Vec<u32> {
    side.rows.clone().unwrap_or_else(|| (0..keys as u32).collect())
}

fn by_table<K: HashKey>(case: &Case, build: &[K], probe: &[K]) -> Outcome {
    let (build_of, probe_of) = (
        rows_of_keys(&case.build, build.len()),
        rows_of_keys(&case.probe, probe.len()),
    );
    let table = HashTable::new(build, &build_of);
    let zeros = |rows: u64| (0..rows).into_par_iter().map(|_| AtomicU8::new(0)).collect::<Vec<_>>();
    let flags = (zeros(case.build.row_count), zeros(case.probe.row_count));
    let set = |flags: &[AtomicU8], row: u32| flags[row as usize].store(1, Ordering::Relaxed);
    let mut outcome = Outcome::default();
    if case.kind.has_pairs() || case.has_residual {
        let of_probe = |(key, &probe): (&K, &u32)| {
            let partners = table.rows_of(*key).iter().filter(|&&build| case.holds(build, probe));
            partners.fold((0, 0, 0), |sums, &build| {
                set(&flags.0, build);
                set(&flags.1, probe);
                add(sums, sums_of(build, probe))
            })
        };
        outcome.add_sums(probe.par_iter().zip(&probe_of).map(of_probe).reduce(|| (0, 0, 0), add));
    } else {
        // Keys are enough: pairs may be too many to be looked at.
        let probe_table = HashTable::new(probe, &probe_of);
        let mark = |keys: &[K], rows: &[u32], other: &HashTable<K>, flags: &[AtomicU8]| {
            let met = keys
                .par_iter()
                .zip(rows)
                .filter(|(key, _)| !other.rows_of(**key).is_empty());
            met.for_each(|(_, &row)| set(flags, row));
        };
        mark(build, &build_of, &probe_table, &flags.0);
        mark(probe, &probe_of, &table, &flags.1);
    }
    let bytes = |flags: Vec<AtomicU8>| flags.into_par_iter().map(AtomicU8::into_inner).collect::<Vec<u8>>();
    finish(case.kind, outcome, bytes(flags.0), bytes(flags.1))
}

/// What the kind gives of pairs and flags.
fn finish(kind: JoinKind, pairs: Outcome, build: Vec<u8>, probe: Vec<u8>) -> Outcome {
    use JoinKind::*;
    let where_is = |flags: &[u8], flag: u8| -> Vec<u32> {
        (0..flags.len() as u32)
            .into_par_iter()
            .filter(|&row| flags[row as usize] == flag)
            .collect()
    };
    let none = Outcome::default;
    match kind {
        Inner => pairs,
        BuildOuter => Outcome {
            build_rows: where_is(&build, 0),
            ..pairs
        },
        ProbeOuter => Outcome {
            probe_rows: where_is(&probe, 0),
            ..pairs
        },
        Full => Outcome {
            build_rows: where_is(&build, 0),
            probe_rows: where_is(&probe, 0),
            ..pairs
        },
        BuildSemi | BuildAnti => Outcome {
            build_rows: where_is(&build, u8::from(kind == BuildSemi)),
            ..none()
        },
        ProbeSemi | ProbeAnti => Outcome {
            probe_rows: where_is(&probe, u8::from(kind == ProbeSemi)),
            ..none()
        },
        BuildMark => Outcome { marks: build, ..none() },
        ProbeMark => Outcome { marks: probe, ..none() },
    }
}
