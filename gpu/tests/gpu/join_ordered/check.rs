//! What every kind of join over a matcher's pairs must give.

use std::ops::ControlFlow;

use rand::{Rng, rngs::StdRng};
use tenon_gpu::Stream;
use tenon_gpu::join::{JoinKind, JoinOutput, JoinRun, Matcher, RunLimits};

/// Output of a join: pairs, and rows that come alone, in order; marks.
#[derive(Default, PartialEq, Debug)]
struct Rows {
    pairs: Vec<(u32, u32)>,
    build: Vec<u32>,
    probe: Vec<u32>,
    marks: Vec<u8>,
}

/// Runs kinds of joins over the matcher, in steps of several sizes, and compares with what follows from `pairs`, all
/// pairs in order.
pub fn check(
    stream: &Stream,
    matcher: &dyn Matcher,
    pairs: &[(u32, u32)],
    build_rows: u64,
    probe_rows: u64,
    rng: &mut StdRng,
    what: &str,
) {
    let positions = matcher.positions();
    let some = |rng: &mut StdRng, most: u64| rng.random_range(1..=most.max(1));
    let limits = [
        RunLimits::default(),
        // Windows of pairs, over one step and over several.
        RunLimits {
            pairs_max: some(rng, pairs.len() as u64 / 2),
            positions_max: u64::MAX / 2,
        },
        RunLimits {
            pairs_max: some(rng, pairs.len() as u64 / 3 + 1).max(pairs.len() as u64 / 20),
            positions_max: some(rng, positions).max(positions / 20),
        },
    ];
    let one = JoinKind::ALL[rng.random_range(0..JoinKind::ALL.len())];
    for (limits, kinds) in limits.into_iter().zip([&JoinKind::ALL[..], &[JoinKind::Full], &[one]]) {
        for &kind in kinds {
            let found = run(stream, matcher, kind, build_rows, probe_rows, limits);
            let expected = expected(kind, pairs, build_rows, probe_rows);
            assert!(
                found == expected,
                "{what}: {kind:?} of {build_rows} and {probe_rows} rows, {limits:?}: {} of {} pairs, alone {} {} of {} {}",
                found.pairs.len(),
                expected.pairs.len(),
                found.build.len(),
                found.probe.len(),
                expected.build.len(),
                expected.probe.len(),
            );
        }
    }
}

fn run(stream: &Stream, matcher: &dyn Matcher, kind: JoinKind, build: u64, probe: u64, limits: RunLimits) -> Rows {
    let mut rows = Rows::default();
    let mut run = JoinRun::new(stream, matcher, kind, build, probe, limits).unwrap();
    while let Some(output) = run.next_output().unwrap() {
        match output {
            JoinOutput::Pairs(pairs) => {
                assert!(pairs.build_rows.len() <= limits.pairs_max);
                let build = stream.download(pairs.build_rows.view()).unwrap();
                rows.pairs
                    .extend(build.into_iter().zip(stream.download(pairs.probe_rows.view()).unwrap()));
            }
            JoinOutput::BuildRows(alone) => rows.build.extend(stream.download(alone.view()).unwrap()),
            JoinOutput::ProbeRows(alone) => rows.probe.extend(stream.download(alone.view()).unwrap()),
            JoinOutput::Marks(marks) => rows.marks.extend(stream.download(marks.view()).unwrap()),
        }
    }
    rows.pairs.sort_unstable();
    rows
}

fn expected(kind: JoinKind, pairs: &[(u32, u32)], build_rows: u64, probe_rows: u64) -> Rows {
    use JoinKind::*;
    let mut build = vec![0u8; build_rows as usize];
    let mut probe = vec![0u8; probe_rows as usize];
    for &(b, p) in pairs {
        build[b as usize] = 1;
        probe[p as usize] = 1;
    }
    let rows_where = |flags: &[u8], flag: u8| (0..flags.len() as u32).filter(|&i| flags[i as usize] == flag).collect();
    let mut rows = Rows::default();
    if kind.has_pairs() {
        rows.pairs = pairs.to_vec();
    }
    match kind {
        BuildOuter | Full | BuildAnti => rows.build = rows_where(&build, 0),
        BuildSemi => rows.build = rows_where(&build, 1),
        _ => {}
    }
    match kind {
        ProbeOuter | Full | ProbeAnti => rows.probe = rows_where(&probe, 0),
        ProbeSemi => rows.probe = rows_where(&probe, 1),
        _ => {}
    }
    match kind {
        BuildMark => rows.marks = build,
        ProbeMark => rows.marks = probe,
        _ => {}
    }
    rows
}

/// Takes the pairs of a CPU matcher range by range, and once stops early. `holds`: what the caller tests on each pair.
pub fn check_cpu(
    matcher: &dyn tenon_cpu::join::Matcher,
    pairs: &[(u32, u32)],
    holds: impl Fn(u32, u32) -> bool,
    rng: &mut StdRng,
    what: &str,
) {
    let cut = rng.random_range(0..=matcher.positions());
    let mut found = Vec::new();
    for positions in [0..cut, cut..matcher.positions()] {
        let flow = matcher.pairs(positions, &mut |build, probe| {
            assert!(!build.is_empty() && build.len() == probe.len() && build.len() <= tenon_cpu::join::PAIRS_MAX);
            found.extend(
                build
                    .iter()
                    .copied()
                    .zip(probe.iter().copied())
                    .filter(|&(b, p)| holds(b, p)),
            );
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
    }
    found.sort_unstable();
    assert!(
        found == pairs,
        "{what} on the CPU: {} of {} pairs",
        found.len(),
        pairs.len()
    );
    if !pairs.is_empty() {
        let mut calls = 0;
        let flow = matcher.pairs(0..matcher.positions(), &mut |_, _| {
            calls += 1;
            ControlFlow::Break(())
        });
        assert!(
            flow.is_break() && calls == 1,
            "{what} on the CPU: goes on when told to stop"
        );
    }
}
