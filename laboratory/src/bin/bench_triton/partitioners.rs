//! The partitioners over the bus by fan-out (figure 18), and the prefix sum by processor (figure 20).

use std::time::Instant;

use rayon::prelude::*;
use tenon_gpu::join::triton::partition::{
    PartitionInput, Partitioner, Places, PrefixSum, Tuples, partition, partition_of, prefix_sum,
};
use tenon_gpu::memory::PinnedBuffer;
use tenon_gpu::{GpuError, Result, Stream};
use tenon_laboratory::random_at;

use crate::Bench;
use crate::report::{Report, point};

const FAN_OUTS: [u32; 6] = [2, 8, 32, 128, 512, 2048];
/// From host memory to host memory, and so on.
const PATHS: [(&str, &str); 3] = [("host", "host"), ("host", "device"), ("device", "device")];

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    if !bench.may_want("partition.") && !bench.may_want("prefix_sum.") {
        return Ok(());
    }
    let items = if bench.small { 4096 } else { bench.tuples << 20 };
    let stream = bench.device.stream()?;
    let mut keys = bench.device.pinned::<u64>(items)?;
    let mut values = bench.device.pinned::<u64>(items)?;
    for (salt, column) in [(5, &mut keys), (6, &mut values)] {
        let number = |(i, word): (usize, &mut u64)| *word = random_at(i as u64, salt);
        column.par_iter_mut().enumerate().for_each(number);
    }
    let host = PartitionInput::Host(&keys, &values);
    let sum = checksum(keys.par_iter().zip(values.par_iter()).map(|(&k, &v)| [k, v]));
    let room = 2 * Places::room(items, FAN_OUTS[FAN_OUTS.len() - 1]);
    let mut on_host = bench.device.pinned::<u64>(room)?;
    let mut on_device = stream.alloc::<u64>(room)?;
    let (device_keys, device_values) = (stream.upload(&keys)?, stream.upload(&values)?);
    for fan_out in FAN_OUTS {
        prefix_sums(bench, report, &stream, (host, items), fan_out)?;
        let places = prefix_sum(&stream, host, fan_out, PrefixSum::Gpu)?;
        for algorithm in Partitioner::ALL {
            for (from, to) in PATHS {
                let name = format!("partition.{algorithm:?}.{from}.{to}.{fan_out}").to_lowercase();
                // A tuple at a time over the bus takes minutes.
                let hopeless = algorithm == Partitioner::Standard && to == "host" && fan_out > 128;
                if !bench.wants(&name) || hopeless || bench.is_late(report, &name)? {
                    continue;
                }
                let source = match from {
                    "host" => host,
                    _ => PartitionInput::Device(device_keys.view(), device_values.view()),
                };
                // What the algorithm before has written must not pass for this one's result.
                on_host.par_chunks_mut(1 << 20).for_each(|part| part.fill(0));
                let to_host = to == "host";
                if !to_host {
                    stream.set_bytes(on_device.view_mut(), 0)?;
                    stream.synchronize()?;
                }
                let ms = time(|| {
                    let mut target = match to_host {
                        true => Tuples::Host(&mut on_host),
                        false => Tuples::Device(on_device.view_mut()),
                    };
                    partition(&stream, algorithm, source, fan_out, &places, &mut target)
                })?;
                if !to_host {
                    stream.download_into(on_device.view(), &mut on_host)?;
                }
                check(&name, &on_host, &places, sum)?;
                let series = format!("{algorithm:?} {from} to {to}");
                report.step(&name, &[point("18", series, fan_out)], (items, items * 16), ms)?;
            }
        }
    }
    Ok(())
}

/// The prefix sum on both processors, which must agree.
fn prefix_sums(
    bench: &Bench,
    report: &mut Report,
    stream: &Stream,
    (columns, items): (PartitionInput<'_>, u64),
    fan_out: u32,
) -> Result<()> {
    let mut found: Option<Places> = None;
    for on in [PrefixSum::Cpu, PrefixSum::Gpu] {
        let name = format!("prefix_sum.{on:?}.{fan_out}").to_lowercase();
        if !bench.wants(&name) || bench.is_late(report, &name)? {
            continue;
        }
        let mut places = None;
        let ms = time(|| prefix_sum(stream, columns, fan_out, on).map(|found| places = Some(found)))?;
        if found.is_some() && found != places {
            return Err(GpuError::Invalid(format!("{name}: another answer than the CPU's")));
        }
        found = places;
        let points = [point("20", format!("{on:?}").to_uppercase(), fan_out)];
        report.step(&name, &points, (items, items * 8), ms)?;
    }
    Ok(())
}

/// A sum over tuples that no order changes.
fn checksum(tuples: impl ParallelIterator<Item = [u64; 2]>) -> u64 {
    let one = |[key, value]: [u64; 2]| (key ^ value.rotate_left(23)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key;
    tuples.map(one).reduce(|| 0, u64::wrapping_add)
}

/// Each tuple once, in its partition.
fn check(name: &str, tuples: &PinnedBuffer<u64>, places: &Places, sum: u64) -> Result<()> {
    let fan_out = places.starts.len() as u32;
    let part = |partition: usize| {
        let (start, count) = (places.starts[partition] as usize, places.counts[partition] as usize);
        let tuples = tuples[2 * start..2 * (start + count)].par_chunks_exact(2);
        tuples.map(move |tuple| (partition as u32, [tuple[0], tuple[1]]))
    };
    let all = || (0..fan_out as usize).into_par_iter().flat_map(part);
    let strays = all()
        .filter(|&(partition, [key, _])| partition_of(key, fan_out) != partition)
        .count();
    if strays == 0 && checksum(all().map(|(_, tuple)| tuple)) == sum {
        return Ok(());
    }
    Err(GpuError::Invalid(format!(
        "{name}: {strays} tuples are in other partitions than theirs, or tuples are lost"
    )))
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
