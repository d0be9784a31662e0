//! Spilled rows on their way to the host: ordered by partition within device memory, whose random writes are cheap, then
//! copied as one piece a column.

use super::chunk::{ChunkWork, Side, at, at_mut};
use super::feed::Chunk;
use super::programs::{SpillPlanParams, SpillScatterParams, Table, spill_program};
use super::side::Widths;
use super::spill::SpilledRows;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::memory::device_to_host;
use crate::tuning::{TRITON_SPILL_ITEMS, TRITON_SPILL_THREADS};

impl ChunkWork<'_> {
    /// Launches what orders a chunk's spilled rows by partition, after the kernel that marked and counted them.
    pub(super) fn order_spilled(&mut self, index: usize, chunk: &Chunk, table: Table, widths: Widths) -> Result<()> {
        let module = self
            .compute
            .device()
            .load(&spill_program(widths, self.types.equal_hashes))?;
        let offsets_on_host = self.host.address() as u64 + self.host_words(index).start as u64 * 4;
        let leaving = &mut self.ring[index];
        let plan = SpillPlanParams {
            counts: at_mut(self.shared.counts),
            offsets: at_mut(leaving.offsets),
            offsets_on_host: at_mut(offsets_on_host),
            cursors: at_mut(self.shared.cursors),
            partitions: self.partitions,
            unused: 0,
        };
        let scatter = SpillScatterParams {
            keys: at(chunk.keys),
            values: at(chunk.values),
            items: chunk.rows,
            first_row: chunk.first_row,
            spilled: at(leaving.spilled),
            offsets: at(leaving.offsets),
            cursors: at_mut(self.shared.cursors),
            keys_out: at_mut(leaving.keys),
            values_out: at_mut(leaving.values),
            partitions: table.partitions,
        };
        let tile = TRITON_SPILL_THREADS * TRITON_SPILL_ITEMS;
        let partitions = self.partitions.next_multiple_of(2);
        let shared = tile * widths.key.max(widths.value) as u32 + 6 * partitions + 2 * tile;
        let config = LaunchConfig::cover(chunk.rows, tile as u64, TRITON_SPILL_THREADS)?.shared(shared);
        if let Some(free) = leaving.free.take() {
            self.compute.wait_for(&free)?;
        }
        // SAFETY: counts of all partitions; offsets in memory of the device and in pinned memory that the processor reads
        // after the chunk's event; a chunk's rows, whose spilled ones the outputs have room for.
        unsafe {
            module.kernel::<SpillPlanParams>("spill_plan")?.launch(
                &self.compute,
                &LaunchConfig::new(1, 1024),
                &plan,
            )?;
            module
                .kernel::<SpillScatterParams>("spill_scatter")?
                .launch(&self.compute, &config, &scatter)
        }
    }

    /// Starts the copies of a chunk's spilled rows.
    pub(super) fn take_spilled(&mut self, index: usize, side: Side) -> Result<()> {
        let words = &self.host[self.host_words(index)];
        let spilled = &mut self.spilled[side as usize];
        let leaving = &mut self.ring[index];
        let offsets = &words[..self.partitions as usize + 1];
        let rows = offsets[self.partitions as usize] as u64;
        if rows == 0 {
            return Ok(());
        }
        let (key_bytes, value_bytes) = (rows * spilled.widths.key, rows * spilled.widths.value);
        let keys = self.spill.room(key_bytes.next_multiple_of(8) + value_bytes)?;
        let values = keys + key_bytes.next_multiple_of(8) as usize;
        // SAFETY: the room just taken, which is read by later copies only, after this stream was waited for.
        unsafe {
            device_to_host(&self.leave, keys as *mut u8, leaving.keys, key_bytes as usize)?;
            device_to_host(&self.leave, values as *mut u8, leaving.values, value_bytes as usize)?;
        }
        leaving.free = Some(self.leave.record()?);
        self.bytes += key_bytes + value_bytes;
        self.spilled_rows += rows;
        self.spilled_bytes += key_bytes + value_bytes;
        spilled.add(keys, values, offsets.to_vec());
        Ok(())
    }

    /// The spilled rows of build and probe side; they leave with the stream `leave`.
    pub fn take_spilled_rows(&mut self) -> [SpilledRows; 2] {
        let empty = |side: &SpilledRows| SpilledRows::new(side.widths, self.partitions);
        let empty = [empty(&self.spilled[0]), empty(&self.spilled[1])];
        std::mem::replace(&mut self.spilled, empty)
    }
}
