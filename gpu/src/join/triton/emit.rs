//! Pairs on their way to the host. A chunk's pairs are written in one pass, at places that blocks take by atomics; if
//! more come out than the buffer holds, parts of the chunk are looked up again.

use super::chunk::{ChunkWork, Pending, Sink, zero};
use super::output::{TritonOutput, Words};
use super::programs::ProbeParams;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::memory::device_to_host;

impl ChunkWork<'_> {
    /// Hands out the pairs of a chunk whose kernels are done.
    pub(super) fn take_pairs(&mut self, pending: &Pending, sink: &mut Sink<'_>) -> Result<()> {
        let words = &self.host[self.host_words(pending.leaving)][self.partitions as usize + 1..];
        let count = words[0] as u64 | (words[1] as u64) << 32;
        if count <= self.pairs_out {
            return self.deliver(pending.leaving, count, sink);
        }
        self.pairs_in_halves(pending, 0, pending.chunk.rows, sink)
    }

    /// Probes again, by halves of the rows, until the pairs of one probe fit their buffer; those of a single row come in
    /// windows.
    fn pairs_in_halves(&mut self, pending: &Pending, from: u64, to: u64, sink: &mut Sink<'_>) -> Result<()> {
        let mut parts = vec![(from, to)];
        while let Some((from, to)) = parts.pop() {
            let params = ProbeParams {
                from,
                to,
                ..self.probe_params(pending.leaving, &pending.chunk, pending.table)?
            };
            let single = to - from == 1;
            if !single {
                zero(&self.compute, params.count.0, 8)?;
                let kernel = self.kernel::<ProbeParams>(pending.kind, "probe")?;
                // SAFETY: as for the whole chunk, whose buffer is still held.
                unsafe { kernel.launch(&self.compute, &self.config(to - from)?, &params)? };
                let count = self.pair_count(pending.leaving)?;
                if count <= self.pairs_out {
                    self.deliver(pending.leaving, count, sink)?;
                    continue;
                }
                let middle = from + (to - from) / 2;
                parts.push((middle, to));
                parts.push((from, middle));
                continue;
            }
            let kernel = self.kernel::<ProbeParams>(pending.kind, "write_one")?;
            let mut window_from = 0;
            loop {
                let window_to = window_from + self.pairs_out;
                let params = ProbeParams {
                    window_from,
                    window_to,
                    ..params
                };
                // SAFETY: as above; a window has room in the outputs.
                unsafe { kernel.launch(&self.compute, &LaunchConfig::new(1, 32), &params)? };
                let end = self.pair_count(pending.leaving)?;
                self.deliver(pending.leaving, end - window_from.min(end), sink)?;
                if end < window_to {
                    break;
                }
                window_from = window_to;
            }
        }
        Ok(())
    }

    fn pair_count(&self, index: usize) -> Result<u64> {
        let mut count = 0u64;
        // SAFETY: eight bytes, waited for.
        unsafe {
            let target = (&raw mut count).cast::<u8>();
            device_to_host(&self.compute, target, self.ring[index].pair_count, 8)?;
        }
        self.compute.synchronize()?;
        Ok(count)
    }

    /// Copies pairs to the host and hands them out.
    fn deliver(&mut self, index: usize, count: u64, sink: &mut Sink<'_>) -> Result<()> {
        let (leaving, out) = (&self.ring[index], self.types.out());
        let Some(host) = self.pairs_host.as_ref().filter(|_| count > 0) else {
            return Ok(());
        };
        let (build, probe) = (
            host.address(),
            host.address().wrapping_add((self.pairs_out * out) as usize),
        );
        let bytes = (count * out) as usize;
        // SAFETY: the pinned memory has room for `pairs_out` values of both sides; it is read after the wait only.
        unsafe {
            device_to_host(&self.leave, build, leaving.build_out, bytes)?;
            device_to_host(&self.leave, probe, leaving.probe_out, bytes)?;
        }
        self.leave.synchronize()?;
        self.pairs += count;
        self.bytes += 2 * bytes as u64;
        let words = |start: *mut u8| -> Words<'_> {
            // SAFETY: `count` values were just copied there; the memory is aligned to huge pages, and pairs_out to 64.
            unsafe {
                match out {
                    4 => Words::U32(std::slice::from_raw_parts(start.cast(), count as usize)),
                    _ => Words::U64(std::slice::from_raw_parts(start.cast(), count as usize)),
                }
            }
        };
        sink(TritonOutput::Pairs {
            build: words(build),
            probe: words(probe),
        })
    }
}
