//! Host columns on their way to the device.

use std::ops::Range;

use super::chunks::chunks;
use super::columns::{DeviceColumn, HostColumn};
use crate::error::Result;
use crate::memory::Joined;
use crate::stream::{Event, Stream};

/// Chunks that have room on the device: one that arrives, one that is joined, one to spare.
const SLOTS: usize = 3;

/// Columns that cross the bus whole, then columns that cross it in chunks, ahead of the work on them.
pub(super) struct Arrivals<'a> {
    /// Waited for first, on every way out: the host memory is borrowed, and the device memory belongs to the fields
    /// below.
    copies: Joined,
    work: &'a Stream,
    whole: Vec<DeviceColumn>,
    whole_arrived: Event,
    columns: Vec<HostColumn<'a>>,
    chunks: Vec<Range<u64>>,
    slots: Vec<Slot>,
}

struct Slot {
    columns: Vec<DeviceColumn>,
    arrived: Option<Event>,
}

impl<'a> Arrivals<'a> {
    /// Starts the copies. Columns of each group are of equal lengths.
    pub fn new(
        work: &'a Stream,
        whole: &[HostColumn<'a>],
        columns: Vec<HostColumn<'a>>,
        chunk_rows: u64,
    ) -> Result<Arrivals<'a>> {
        let rows = |columns: &[HostColumn<'_>]| columns.first().map_or(0, HostColumn::rows);
        let (whole_rows, chunks) = (rows(whole), chunks(rows(&columns), chunk_rows));
        let largest = chunks.iter().map(|chunk| chunk.end - chunk.start).max().unwrap_or(0);
        // All memory is taken before the copies wait for the work before them, and by the stream that works on it.
        let room = |columns: &[HostColumn<'_>], rows: u64| {
            let room = columns.iter().map(|&column| DeviceColumn::alloc(work, column, rows));
            room.collect::<Result<Vec<_>>>()
        };
        let slots = (0..SLOTS.min(chunks.len())).map(|_| {
            Ok(Slot {
                columns: room(&columns, largest)?,
                arrived: None,
            })
        });
        let (mut whole_room, slots) = (room(whole, whole_rows)?, slots.collect::<Result<Vec<_>>>()?);
        let copies = Joined(work.device().stream()?);
        copies.0.wait_for_stream(work)?;
        let started = whole_room.iter_mut().zip(whole).try_for_each(|(room, &column)| {
            // SAFETY: the column is borrowed for `'a`, and the copies are waited for when this is dropped.
            unsafe { room.fill(&copies.0, column, &(0..whole_rows)) }
        });
        let whole_arrived = started.and_then(|()| copies.0.record())?;
        let mut arrivals = Arrivals {
            copies,
            work,
            whole: whole_room,
            whole_arrived,
            columns,
            chunks,
            slots,
        };
        for number in 0..SLOTS {
            arrivals.start(number)?;
        }
        Ok(arrivals)
    }

    /// Starts the copies of a chunk, if there is one.
    fn start(&mut self, number: usize) -> Result<()> {
        let Some(chunk) = self.chunks.get(number) else {
            return Ok(());
        };
        let slot = &mut self.slots[number % SLOTS];
        for (room, &column) in slot.columns.iter_mut().zip(&self.columns) {
            // SAFETY: the column is borrowed for `'a`, and the copies are waited for when this is dropped.
            unsafe { room.fill(&self.copies.0, column, chunk)? };
        }
        slot.arrived = Some(self.copies.0.record()?);
        Ok(())
    }

    /// The columns that cross whole; later work waits for them.
    pub fn take_whole(&mut self) -> Result<Vec<DeviceColumn>> {
        self.work.wait_for(&self.whole_arrived)?;
        Ok(std::mem::take(&mut self.whole))
    }

    /// How many chunks there are.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// A chunk's rows and columns; later work waits for them.
    pub fn chunk(&self, number: usize) -> Result<(Range<u64>, &[DeviceColumn])> {
        let slot = &self.slots[number % SLOTS];
        if let Some(arrived) = &slot.arrived {
            self.work.wait_for(arrived)?;
        }
        Ok((self.chunks[number].clone(), &slot.columns))
    }

    /// The work put in so far is all that reads the chunk: its room is free for another.
    pub fn done(&mut self, number: usize) -> Result<()> {
        if number + SLOTS < self.chunks.len() {
            self.copies.0.wait_for_stream(self.work)?;
        }
        self.start(number + SLOTS)
    }
}
