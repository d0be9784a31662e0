//! The partitioners over the bus by fan-out (figure 18), and the prefix sum by processor (figure 20).

use std::time::Instant;

use tenon_gpu::Result;
use tenon_gpu::bench::random_at;
use tenon_gpu::join::triton::partition::{Columns, Partitioner, Places, PrefixSum, Tuples, partition, prefix_sum};

use rayon::prelude::*;

use crate::Bench;
use crate::report::Report;

const FAN_OUTS: [u32; 6] = [2, 8, 32, 128, 512, 2048];
/// Millions of tuples: 2 GiB in, 2 GiB out.
const MILLIONS: u64 = 128;

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    if !bench.may_want("partition.") && !bench.may_want("prefix_sum.") {
        return Ok(());
    }
    let items = if bench.small { 4096 } else { MILLIONS << 20 };
    let stream = bench.device.stream()?;
    let mut keys = bench.device.pinned::<u64>(items)?;
    let mut values = bench.device.pinned::<u64>(items)?;
    for (salt, column) in [(5, &mut keys), (6, &mut values)] {
        let number = |(i, word): (usize, &mut u64)| *word = random_at(i as u64, salt);
        column.par_iter_mut().enumerate().for_each(number);
    }
    let host = Columns::Host(&keys, &values);
    let room = 2 * Places::room(items, FAN_OUTS[FAN_OUTS.len() - 1]);
    let mut on_host = bench.device.pinned::<u64>(room)?;
    let mut on_device = stream.alloc::<u64>(room)?;
    let (device_keys, device_values) = (stream.upload(&keys)?, stream.upload(&values)?);
    for fan_out in FAN_OUTS {
        for on in [PrefixSum::Cpu, PrefixSum::Gpu] {
            let name = format!("prefix_sum.{on:?}.{fan_out}").to_lowercase();
            if bench.wants(&name) {
                let ms = time(|| prefix_sum(&stream, host, fan_out, on).map(drop))?;
                report.step(&name, items, items * 8, ms)?;
            }
        }
        let places = prefix_sum(&stream, host, fan_out, PrefixSum::Gpu)?;
        for algorithm in Partitioner::ALL {
            for (from, to) in [("host", "host"), ("host", "device"), ("device", "device")] {
                let name = format!("partition.{algorithm:?}.{from}.{to}.{fan_out}").to_lowercase();
                // A tuple at a time over the bus takes minutes.
                let hopeless = algorithm == Partitioner::Standard && to == "host" && fan_out > 128;
                if !bench.wants(&name) || hopeless {
                    continue;
                }
                let source = match from {
                    "host" => host,
                    _ => Columns::Device(device_keys.view(), device_values.view()),
                };
                let mut target = match to {
                    "host" => Tuples::Host(&mut on_host),
                    _ => Tuples::Device(on_device.view_mut()),
                };
                let ms = time(|| partition(&stream, algorithm, source, fan_out, &places, &mut target))?;
                report.step(&name, items, items * 16, ms)?;
            }
        }
    }
    Ok(())
}

/// The faster of two runs.
fn time(mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut once = || -> Result<f64> {
        let start = Instant::now();
        f()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    Ok(once()?.min(once()?))
}
