//! Nested loops on the device against nested loops over the host's vectors.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_cpu::join as cpu;
use tenon_gpu::join::nested_loop::{NestedLoopMatcher, UnkeyedSide};
use tenon_gpu::testing;

use super::check::{check, check_cpu};
use super::input::{Input, Key, holds, reference, residual};

/// Build and probe rows: around warps, blocks and tiles, one side small.
const SHAPES: [(usize, usize); 11] = [
    (0, 0),
    (0, 33),
    (33, 0),
    (1, 1),
    (31, 257),
    (1023, 32),
    (1024, 256),
    (1025, 300),
    (5000, 3),
    (3, 5000),
    (700, 1100),
];

fn run<K: Key>(stream: &tenon_gpu::Stream, rng: &mut StdRng) {
    for (builds, probes) in SHAPES {
        for limit in [1, 20, 3000] {
            let leave_out = rng.random();
            let build = Input::<K>::random(rng, builds, limit, leave_out);
            let probe = Input::<K>::random(rng, probes, limit, leave_out);
            let modulus = [None, Some(2), Some(97)][rng.random_range(0..3)];
            let (device_build, device_probe) = (build.upload(stream), probe.upload(stream));
            let condition = residual(modulus, &device_build, &device_probe);
            let (b, p) = (device_build.side(), device_probe.side());
            let mut checked = |matcher: &NestedLoopMatcher<'_>, keys: bool| {
                let pairs = reference(&build, &probe, modulus, |b, p| !keys || build.keys[b] == probe.keys[p]);
                let what = format!("nested loop of {limit} keys {modulus:?}, by keys {keys}");
                check(
                    stream,
                    matcher,
                    &pairs,
                    build.row_count(),
                    probe.row_count(),
                    rng,
                    &what,
                );
                let holds = holds(modulus, &build, &probe);
                let by_keys = cpu::NestedLoopMatcher::new(build.cpu_side(), probe.cpu_side());
                let (build_rows, probe_rows) = (build.rows.as_deref(), probe.rows.as_deref());
                let cross = cpu::CrossMatcher::new(build_rows, builds, probe_rows, probes).unwrap();
                let matcher: &dyn cpu::Matcher = if keys { &by_keys } else { &cross };
                check_cpu(matcher, &pairs, holds, rng, &what);
            };
            checked(&NestedLoopMatcher::equal(b, p, condition.clone()).unwrap(), true);
            if limit == 20 && builds * probes < 1 << 19 {
                checked(
                    &NestedLoopMatcher::condition(b.into(), p.into(), condition).unwrap(),
                    false,
                );
            }
        }
    }
}

#[test]
fn nested_loops_with_any_condition() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut rng = StdRng::seed_from_u64(testing::seed("nested loop"));
        run::<u32>(&stream, &mut rng);
        run::<u64>(&stream, &mut rng);
        let row = stream.upload(&[1u32]).unwrap();
        let wrong = UnkeyedSide {
            rows: Some(row.view()),
            len: 2,
        };
        assert!(NestedLoopMatcher::condition(wrong, wrong, Default::default()).is_err());
    }
    assert_eq!(device.pool().in_use(), 0);
}
