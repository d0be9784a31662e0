//! Runs one operator over one case.

use std::ops::ControlFlow;

use tenon_cpu::Stop;
use tenon_gpu::Stream;
use tenon_gpu::join::triton::{
    HostKeys, HostSide, HostValues, TritonOptions, TritonOutput, Wanted, Words, triton_join,
};
use tenon_gpu::join::{JoinKind, JoinOutput, JoinRun, Keys, Residual, Side, count_pairs};
use tenon_gpu::memory::{DeviceBuffer, DevicePtr};

use super::case::{Case, Outcome};
use super::operators::{CpuOperator, CpuSides, GpuOperator};

/// Keys that are not null, and their rows.
fn without_nulls(keys: &[Option<u64>]) -> (Vec<u64>, Vec<u32>) {
    let rows = keys.iter().enumerate();
    rows.filter_map(|(row, key)| key.map(|key| (key, row as u32))).unzip()
}

/// One side on the device.
struct DeviceSide {
    narrow: DeviceBuffer<u32>,
    wide: DeviceBuffer<u64>,
    rows: DeviceBuffer<u32>,
    row_count: u64,
    is_wide: bool,
}

impl DeviceSide {
    fn new(stream: &Stream, keys: &[Option<u64>], is_wide: bool) -> DeviceSide {
        let (found, rows) = without_nulls(keys);
        let narrow: Vec<u32> = found.iter().map(|&key| key as u32).collect();
        DeviceSide {
            narrow: stream.upload(if is_wide { &[] } else { &narrow }).unwrap(),
            wide: stream.upload(if is_wide { &found } else { &[] }).unwrap(),
            rows: stream.upload(&rows).unwrap(),
            row_count: keys.len() as u64,
            is_wide,
        }
    }

    fn side(&self) -> Side<'_> {
        let keys = if self.is_wide {
            Keys::U64(self.wide.view())
        } else {
            Keys::U32(self.narrow.view())
        };
        // Without nulls, half of the cases go without a mapping.
        let has_rows = keys.len() != self.row_count || self.row_count.is_multiple_of(2);
        Side::with_rows(keys, has_rows.then(|| self.rows.view()), self.row_count).unwrap()
    }
}

pub fn on_device(stream: &Stream, case: &Case, operator: GpuOperator) -> Outcome {
    let build = DeviceSide::new(stream, &case.build, case.wide);
    let probe = DeviceSide::new(stream, &case.probe, case.wide);
    let build_values = stream.upload(&case.build_values).unwrap();
    let probe_values = stream.upload(&case.probe_values).unwrap();
    let residual = condition(case, &build_values, &probe_values);
    let matcher = operator(stream, build.side(), probe.side(), residual, case).unwrap();
    let rows = (case.build.len() as u64, case.probe.len() as u64);
    let mut run = JoinRun::new(stream, matcher.as_ref(), case.kind, rows.0, rows.1, case.limits).unwrap();
    let mut found = Outcome::default();
    while let Some(output) = run.next_output().unwrap() {
        match output {
            JoinOutput::Pairs(pairs) => {
                let build_rows = stream.download(pairs.build_rows.view()).unwrap();
                let probe_rows = stream.download(pairs.probe_rows.view()).unwrap();
                assert!(build_rows.len() as u64 <= case.limits.pairs_max);
                found.pairs.extend(build_rows.into_iter().zip(probe_rows));
            }
            JoinOutput::BuildRows(rows) => found.build_rows.extend(stream.download(rows.view()).unwrap()),
            JoinOutput::ProbeRows(rows) => found.probe_rows.extend(stream.download(rows.view()).unwrap()),
            JoinOutput::Marks(marks) => found.marks = stream.download(marks.view()).unwrap(),
        }
    }
    if case.kind == JoinKind::Inner {
        let (count, _) = count_pairs(stream, matcher.as_ref(), case.limits, Stop::never()).unwrap();
        assert_eq!(count, found.pairs.len() as u64);
    }
    found.pairs.sort_unstable();
    found
}

/// The Triton join, which takes host memory and this much of the device's.
pub fn out_of_core(stream: &Stream, case: &Case, memory_bytes: u64) -> Outcome {
    let (build, probe) = (without_nulls(&case.build), without_nulls(&case.probe));
    let narrow = |keys: &[u64]| keys.iter().map(|&key| key as u32).collect::<Vec<_>>();
    let (build_narrow, probe_narrow) = (narrow(&build.0), narrow(&probe.0));
    let build_values = stream.upload(&case.build_values).unwrap();
    let probe_values = stream.upload(&case.probe_values).unwrap();
    let residual = condition(case, &build_values, &probe_values);
    let options = TritonOptions {
        memory_bytes: Some(memory_bytes),
        ..TritonOptions::default()
    };
    let mut found = Outcome::default();
    triton_join(
        &stream.device(),
        host_side(case.wide, &build, &build_narrow, case.build.len()),
        host_side(case.wide, &probe, &probe_narrow, case.probe.len()),
        Wanted::Join(case.kind),
        &residual,
        &options,
        &|| false,
        &mut |output| {
            match output {
                TritonOutput::Pairs {
                    build: Words::U32(build),
                    probe: Words::U32(probe),
                } => found.pairs.extend(build.iter().copied().zip(probe.iter().copied())),
                TritonOutput::Pairs { .. } => panic!("row numbers have 32 bits"),
                TritonOutput::BuildRows(rows) => found.build_rows.extend(rows),
                TritonOutput::ProbeRows(rows) => found.probe_rows.extend(rows),
                TritonOutput::Marks(marks) => found.marks.extend(marks),
            }
            Ok(())
        },
    )
    .unwrap();
    found.pairs.sort_unstable();
    found
}

fn host_side<'a>(
    wide: bool,
    (keys, rows): &'a (Vec<u64>, Vec<u32>),
    narrow: &'a [u32],
    row_count: usize,
) -> HostSide<'a> {
    let keys = if wide {
        HostKeys::U64(keys)
    } else {
        HostKeys::U32(narrow)
    };
    HostSide::new(keys, HostValues::U32(rows), row_count as u64).unwrap()
}

/// The case's condition over values on the device.
fn condition(case: &Case, build_values: &DeviceBuffer<u32>, probe_values: &DeviceBuffer<u32>) -> Residual {
    if !case.has_residual {
        return Residual::none();
    }
    let body = "return p.value<u32>(0, build_row) <= p.value<u32>(1, probe_row);";
    let buffers = vec![
        DevicePtr::new(build_values.ptr().0),
        DevicePtr::new(probe_values.ptr().0),
    ];
    // SAFETY: both buffers have a value for each row, and outlive the join.
    unsafe { Residual::new(body, "", buffers, vec![], None) }
}

/// The CPU's operators give pairs; the condition and the kinds are made of those. The operator is also stopped once
/// after its first pairs.
pub fn on_cpu(case: &Case, operator: CpuOperator) -> Outcome {
    let (build, probe) = (without_nulls(&case.build), without_nulls(&case.probe));
    let matcher = operator(CpuSides {
        build: (&build.0, &build.1),
        probe: (&probe.0, &probe.1),
    });
    let mut pairs = Vec::new();
    let step = (case.limits.positions_max as usize).min(matcher.positions().max(1));
    for from in (0..matcher.positions()).step_by(step) {
        let to = matcher.positions().min(from + step);
        let flow = matcher.pairs(from..to, &mut |build_rows, probe_rows| {
            assert!(build_rows.len() <= tenon_cpu::join::PAIRS_MAX && build_rows.len() == probe_rows.len());
            pairs.extend(build_rows.iter().copied().zip(probe_rows.iter().copied()));
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
    }
    if !pairs.is_empty() {
        let flow = matcher.pairs(0..matcher.positions(), &mut |_, _| ControlFlow::Break(()));
        assert!(flow.is_break());
    }
    pairs.retain(|&(build, probe)| case.holds(build, probe));
    let outcome = case.outcome(pairs);
    debug_assert!(case.kind != JoinKind::Inner || outcome.build_rows.is_empty());
    outcome
}
