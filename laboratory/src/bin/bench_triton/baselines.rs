//! Pairs that stream back, and what the join is compared with: the radix join on the processor's cores (Lutz 2022, section
//! 6.1).

use std::time::Instant;

use tenon_cpu::join::radix;
use tenon_gpu::join::triton::{
    HostKeys, HostSide, HostValues, TritonOptions, TritonOutput, Wanted, Words, triton_join,
};
use tenon_gpu::join::{JoinKind, Residual};
use tenon_gpu::{GpuError, Result};

use crate::Bench;
use crate::joins::{linear, repeats};
use crate::report::{Report, point};
use crate::workload::{Columns, Join};

/// Pairs of row numbers that stream back: 8 bytes each.
pub fn pairs(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, m: u64) -> Result<()> {
    if !bench.wants_any(&[&format!("triton.pairs.{m}M.")]) {
        return Ok(());
    }
    let rows = bench.rows(m);
    let join = columns.fill(rows, rows);
    for part in [1, 4] {
        let name = format!("triton.pairs.{m}M.1/{part}");
        if !bench.wants(&name) || bench.is_late(report, &name)? {
            continue;
        }
        let options = TritonOptions {
            memory_bytes: bench.memory(rows * 32 / part),
            ..linear()
        };
        let side = |keys| HostSide::new(HostKeys::U64(keys), HostValues::Rows, rows);
        let mut times = Vec::new();
        for _ in 0..repeats(bench, 2 * rows).min(3) + 1 {
            let mut wrong = 0;
            let start = Instant::now();
            let result = triton_join(
                &bench.device,
                side(join.build.0)?,
                side(join.probe.0)?,
                Wanted::Join(JoinKind::Inner),
                &Residual::none(),
                &options,
                &|| false,
                &mut |output| {
                    if let TritonOutput::Pairs {
                        build: Words::U32(build),
                        probe: Words::U32(probe),
                    } = output
                    {
                        // A sample: looking all keys up would take longer than the join.
                        let sample = build.iter().zip(probe).step_by(997);
                        wrong += sample
                            .filter(|(build, probe)| join.build.0[**build as usize] != join.probe.0[**probe as usize])
                            .count();
                    }
                    Ok(())
                },
            )?;
            times.push((start.elapsed().as_secs_f64() * 1e3, result));
            let count = times[times.len() - 1].1.count;
            if wrong > 0 || count != join.count {
                return Err(GpuError::Invalid(format!(
                    "{name}: {count} pairs, {wrong} of the sample wrong"
                )));
            }
        }
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let result = &times[times.len() / 2].1;
        let ms: Vec<f64> = times.iter().map(|run| run.0).collect();
        let size = (2 * rows, rows * 16);
        let points = [point("pairs", format!("budget 1/{part} of the state"), m)];
        report.join(&name, &points, size, &ms, result)?;
    }
    Ok(())
}

/// The radix join on the processor's cores.
pub fn baselines(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, largest: u64) -> Result<()> {
    for m in [128, 512].into_iter().filter(|&m| m <= largest) {
        let radix = format!("baseline.cpu_radix.{m}M");
        if !bench.wants(&radix) || bench.is_late(report, &radix)? {
            continue;
        }
        let rows = bench.rows(m);
        cpu_radix(bench, report, &radix, m, &columns.fill(rows, rows))?;
    }
    Ok(())
}

fn cpu_radix(bench: &Bench, report: &mut Report, name: &str, m: u64, join: &Join<'_, u64, u64>) -> Result<()> {
    let columns = |(keys, values)| radix::RadixSide { keys, values };
    let mut best = f64::INFINITY;
    for _ in 0..repeats(bench, join.size().0).min(3) + 1 {
        let start = Instant::now();
        let answer = radix::join_aggregated(columns(join.build), columns(join.probe));
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
        if answer != (join.count, join.sum) {
            return Err(GpuError::Invalid(format!(
                "{name}: {answer:?}, {:?}",
                (join.count, join.sum)
            )));
        }
    }
    report.other(name, &[point("13", "radix join of the CPU", m)], join.size(), best)
}
