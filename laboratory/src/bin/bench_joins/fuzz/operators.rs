//! The operators under test: each gives an outcome, or none where it does not take the case.

use std::sync::Arc;

use tenon_cpu::Stop;
use tenon_gpu::join::from_host::{FromHostOptions, pairs_from_host};
use tenon_gpu::join::hash::{HashOptions, HashTable, PartitionedJoin, TableJoin, hash_join, join_aggregated};
use tenon_gpu::join::nested_loop::NestedLoopMatcher;
use tenon_gpu::join::probe::Probe;
use tenon_gpu::join::ranges::RangeMatcher;
use tenon_gpu::join::sort_merge::{Ascending, sort_merge};
use tenon_gpu::join::sorted::SortedSide;
use tenon_gpu::join::triton::{
    HostKeys, HostSide, HostValues, TritonOptions, TritonOutput, Wanted, Words, triton_join,
};
use tenon_gpu::join::{JoinKind, JoinOutput, JoinRun, Keys, Matcher, Residual, Side, count_pairs};
use tenon_gpu::memory::{DeviceBuffer, DevicePtr};
use tenon_gpu::{GpuError, Result, Stream};

use super::case::{self, Case};
use super::expected::Outcome;

/// Makes a matcher; none if it does not take the case.
/// The condition beyond the keys.
const LESS: &str = "return p.value<u32>(0, build_row) <= p.value<u32>(1, probe_row);";

type Operator = for<'a> fn(&Stream, Side<'a>, Side<'a>, Residual) -> Result<Option<Box<dyn Matcher + 'a>>>;

const MATCHERS: [(&str, Operator); 5] = [
    ("hj_table", |stream, build, probe, residual| {
        let table = Arc::new(HashTable::new(stream, build, &HashOptions::default())?);
        Ok(Some(Box::new(TableJoin::new(table, probe, residual)?)))
    }),
    ("hj_partitioned", |stream, build, probe, residual| {
        let join = PartitionedJoin::new(stream, build, probe, residual, &HashOptions::default())?;
        // One key in a large part of the build side is for a table.
        Ok(if join.is_skewed(stream)? {
            None
        } else {
            Some(Box::new(join))
        })
    }),
    ("hj", |stream, build, probe, residual| {
        hash_join(stream, build, probe, residual, &HashOptions::default()).map(Some)
    }),
    ("smj", |stream, build, probe, residual| {
        Ok(Some(Box::new(sort_merge(
            stream,
            build,
            probe,
            Ascending::default(),
            residual,
        )?)))
    }),
    ("inlj", |stream, build, probe, residual| {
        let index = SortedSide::sort(stream, build)?;
        Ok(Some(Box::new(RangeMatcher::new(
            stream,
            index,
            None,
            Probe::equal(probe),
            residual,
        )?)))
    }),
];

/// Runs every operator that takes the case; `check` gets its name and what it gave. `comparisons_max`: of nested loops.
pub fn run(stream: &Stream, case: &Case, comparisons_max: u64, check: &mut dyn FnMut(&str, Outcome)) -> Result<()> {
    {
        let (build, probe) = (
            OnDevice::new(stream, &case.build, case.wide)?,
            OnDevice::new(stream, &case.probe, case.wide)?,
        );
        let residual = build.residual(&probe, case.has_residual);
        for (name, operator) in MATCHERS {
            if let Some(matcher) = operator(stream, build.side()?, probe.side()?, residual.clone())? {
                check(name, outputs(stream, case, matcher.as_ref())?);
            }
        }
        if case.build.row_count * case.probe.row_count <= comparisons_max {
            let matcher = NestedLoopMatcher::equal(build.side()?, probe.side()?, residual)?;
            check("ninlj", outputs(stream, case, &matcher)?);
        }
        if case.kind == JoinKind::Inner && !case.has_residual {
            let (build, probe) = (build.with_rows(stream)?, probe.with_rows(stream)?);
            let (build, probe) = (build.columns()?, probe.columns()?);
            let (pairs, products) = join_aggregated(stream, build, probe, &HashOptions::default())?;
            // The sums alone; the checksum is not among them.
            check(
                "hash.sum",
                Outcome {
                    pairs,
                    products,
                    ..Outcome::default()
                },
            );
        }
    }
    check("triton", triton(stream, case)?);
    if case.kind == JoinKind::Inner && !case.has_residual {
        check("from_host", from_host(stream, case)?);
    }
    Ok(())
}

/// A side on the device.
struct OnDevice {
    narrow: DeviceBuffer<u32>,
    wide: DeviceBuffer<u64>,
    is_wide: bool,
    rows: DeviceBuffer<u32>,
    has_rows: bool,
    row_count: u64,
    values: DeviceBuffer<u32>,
}

impl OnDevice {
    fn new(stream: &Stream, side: &case::Side, is_wide: bool) -> Result<OnDevice> {
        Ok(OnDevice {
            narrow: stream.upload(&side.narrow)?,
            wide: stream.upload(&side.wide)?,
            is_wide,
            rows: stream.upload(side.rows.as_deref().unwrap_or(&[]))?,
            has_rows: side.rows.is_some(),
            row_count: side.row_count,
            values: stream.upload(&side.values)?,
        })
    }

    /// With row numbers even where they are those of the keys' places.
    fn with_rows(&self, stream: &Stream) -> Result<OnDevice> {
        let numbers: Vec<u32> = (0..self.row_count as u32).collect();
        let rows = if self.has_rows {
            stream.download(self.rows.view())?
        } else {
            numbers
        };
        Ok(OnDevice {
            narrow: stream.upload(&stream.download(self.narrow.view())?)?,
            wide: stream.upload(&stream.download(self.wide.view())?)?,
            is_wide: self.is_wide,
            rows: stream.upload(&rows)?,
            has_rows: true,
            row_count: self.row_count,
            values: stream.alloc(0)?,
        })
    }

    fn side(&self) -> Result<Side<'_>> {
        let keys = if self.is_wide {
            Keys::U64(self.wide.view())
        } else {
            Keys::U32(self.narrow.view())
        };
        Side::with_rows(keys, self.has_rows.then(|| self.rows.view()), self.row_count)
    }

    /// Keys, and their rows as payload.
    fn columns(&self) -> Result<(Keys<'_>, Keys<'_>)> {
        Ok((self.side()?.keys, Keys::U32(self.rows.view())))
    }

    fn residual(&self, probe: &OnDevice, wanted: bool) -> Residual {
        if !wanted {
            return Residual::none();
        }
        let buffers = vec![
            DevicePtr::new(self.values.ptr().0),
            DevicePtr::new(probe.values.ptr().0),
        ];
        // SAFETY: both buffers have a value for each row, and outlive the join.
        unsafe { Residual::new(LESS, "", buffers, vec![], None) }
    }
}

/// All outputs of a run.
fn outputs(stream: &Stream, case: &Case, matcher: &dyn Matcher) -> Result<Outcome> {
    let rows = (case.build.row_count, case.probe.row_count);
    let mut run = JoinRun::new(stream, matcher, case.kind, rows.0, rows.1, case.limits)?;
    let mut found = Outcome::default();
    while let Some(output) = run.next_output()? {
        match output {
            JoinOutput::Pairs(pairs) => {
                let build_rows = stream.download(pairs.build_rows.view())?;
                found.add(&build_rows, &stream.download(pairs.probe_rows.view())?);
            }
            JoinOutput::BuildRows(rows) => found.build_rows.extend(stream.download(rows.view())?),
            JoinOutput::ProbeRows(rows) => found.probe_rows.extend(stream.download(rows.view())?),
            JoinOutput::Marks(marks) => found.marks = stream.download(marks.view())?,
        }
    }
    if case.kind == JoinKind::Inner {
        let (count, _) = count_pairs(stream, matcher, case.limits, Stop::never())?;
        if count != found.pairs {
            return Err(GpuError::Invalid(format!(
                "{count} pairs counted, {} found",
                found.pairs
            )));
        }
    }
    Ok(found)
}

fn host_side(side: &case::Side, wide: bool) -> Result<HostSide<'_>> {
    let keys = if wide {
        HostKeys::U64(&side.wide)
    } else {
        HostKeys::U32(&side.narrow)
    };
    let values = side.rows.as_deref().map_or(HostValues::Rows, HostValues::U32);
    HostSide::new(keys, values, side.row_count)
}

/// The Triton join, with the case's share of the device's memory.
fn triton(stream: &Stream, case: &Case) -> Result<Outcome> {
    let values = (stream.upload(&case.build.values)?, stream.upload(&case.probe.values)?);
    let residual = match case.has_residual {
        false => Residual::none(),
        true => {
            let buffers = vec![DevicePtr::new(values.0.ptr().0), DevicePtr::new(values.1.ptr().0)];
            // SAFETY: both buffers have a value for each row, and outlive the join.
            unsafe { Residual::new(LESS, "", buffers, vec![], None) }
        }
    };
    let options = TritonOptions {
        memory_bytes: Some(case.memory_bytes),
        ..TritonOptions::default()
    };
    let mut found = Outcome::default();
    triton_join(
        &stream.device(),
        host_side(&case.build, case.wide)?,
        host_side(&case.probe, case.wide)?,
        Wanted::Join(case.kind),
        &residual,
        &options,
        &|| false,
        &mut |output| {
            match output {
                TritonOutput::Pairs {
                    build: Words::U32(build),
                    probe: Words::U32(probe),
                } => found.add(build, probe),
                TritonOutput::Pairs { .. } => panic!("row numbers have 32 bits"),
                TritonOutput::BuildRows(rows) => found.build_rows.extend(rows),
                TritonOutput::ProbeRows(rows) => found.probe_rows.extend(rows),
                TritonOutput::Marks(marks) => found.marks.extend(marks),
            }
            Ok(())
        },
    )?;
    Ok(found)
}

/// Host columns in chunks, past a shared table.
fn from_host(stream: &Stream, case: &Case) -> Result<Outcome> {
    let mut found = Outcome::default();
    pairs_from_host(
        stream,
        host_side(&case.build, case.wide)?,
        host_side(&case.probe, case.wide)?,
        &FromHostOptions {
            chunk_rows: case.probe.row_count / 7 + 1,
        },
        |stream, side| Ok(Arc::new(HashTable::new(stream, side.side()?, &HashOptions::default())?)),
        |_, table, chunk| Ok(Box::new(TableJoin::new(table.clone(), chunk, Residual::none())?)),
        &mut |pairs| {
            found.add(&pairs.build_rows, &pairs.probe_rows);
            Ok(())
        },
    )?;
    Ok(found)
}
