//! Joins of random inputs against the CPU's hash table: every operator, kind, width of keys and skew, at millions of rows.
//!
//! What a join of some thousand rows does not meet: several passes of partitioning, windows of output, pieces of
//! partitions, tables of many megabytes. The fuzzer of the crate's tests does the small ones.

mod case;
mod expected;
mod operators;

use std::time::{Duration, Instant};

use tenon_gpu::join::JoinKind;
use tenon_gpu::{Device, Result, Stream};

use case::{Case, Fixed, mix};
use expected::Outcome;

/// What to run, and for how long.
pub struct FuzzOptions {
    pub seconds: f64,
    pub rows: u64,
    /// The first case's; none: a fresh one.
    pub seed: Option<u64>,
}

/// Cases until the time is up, one at least. Panics at the first wrong answer, with the seed of its case.
pub fn run(device: &Device, options: &FuzzOptions) -> Result<()> {
    let stream = device.stream()?;
    let fresh = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64)
    };
    let first = options.seed.unwrap_or_else(fresh);
    println!("fuzz: up to {} rows a side, --seed {first}", options.rows);
    let (start, limit) = (Instant::now(), Duration::from_secs_f64(options.seconds));
    let (mut cases, mut joins) = (0, 0);
    while cases == 0 || start.elapsed() < limit {
        let seed = if cases == 0 {
            first
        } else {
            mix(first.wrapping_add(cases))
        };
        joins += one(&stream, &Case::draw(seed, options.rows, Fixed::default()))?;
        cases += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("fuzz: {cases} cases, {joins} joins, all right, {seconds:.1} s");
    Ok(())
}

/// A fixed list of small cases, for tools that make kernels slow: each kind of output, width and condition.
pub fn run_race(device: &Device) -> Result<()> {
    const ROWS: u64 = 20_000;
    let stream = device.stream()?;
    for kind in [
        JoinKind::Inner,
        JoinKind::Full,
        JoinKind::ProbeSemi,
        JoinKind::BuildMark,
    ] {
        for wide in [false, true] {
            for has_residual in [false, true] {
                let fixed = Fixed {
                    kind: Some(kind),
                    wide: Some(wide),
                    has_residual: Some(has_residual),
                };
                let seed = mix(kind as u64 * 4 + u64::from(wide) * 2 + u64::from(has_residual));
                one(&stream, &Case::draw(seed, ROWS, fixed))?;
            }
        }
    }
    Ok(())
}

/// All operators on one case; how many there were.
fn one(stream: &Stream, case: &Case) -> Result<u64> {
    let start = Instant::now();
    let expected = expected::expected(case);
    let comparisons_max = match stream.device().info().multiprocessors {
        // The simulator's time goes by comparisons, too.
        0..8 => 1 << 24,
        _ => 1 << 38,
    };
    let mut joins = 0;
    operators::run(stream, case, comparisons_max, &mut |operator, found| {
        joins += 1;
        let is_right = match operator {
            "hash.sum" => (found.pairs, found.products) == (expected.pairs, expected.products),
            _ => found == expected,
        };
        assert!(
            is_right,
            "{operator}: {}\nexpected {:?} pairs, build rows, probe rows, marks; found {:?}",
            case.what,
            expected.counts(),
            Outcome::counts(&found)
        );
    })?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{joins} joins of {} pairs, {seconds:.2} s: {}",
        expected.pairs, case.what
    );
    Ok(joins)
}
