//! What an operator keeps between counting a step's pairs and writing them.

use std::ops::Range;

use parking_lot::Mutex;

use crate::error::Result;
use crate::stream::Stream;

/// The last step that was counted, of one stream: buffers go from one stream to another only by waiting.
pub(super) struct LastStep<T>(Mutex<Option<Kept<T>>>);

struct Kept<T> {
    positions: Range<u64>,
    stream: u64,
    step: T,
}

impl<T> Default for LastStep<T> {
    fn default() -> Self {
        LastStep(Mutex::new(None))
    }
}

impl<T> LastStep<T> {
    /// Counts a step and keeps what was found. The step before is given up first, to make room.
    pub fn count(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        count: impl FnOnce(&Range<u64>) -> Result<T>,
    ) -> Result<()> {
        let mut slot = self.0.lock();
        *slot = None;
        *slot = Some(Kept {
            step: count(&positions)?,
            stream: stream.queue.id,
            positions,
        });
        Ok(())
    }

    /// Calls `write` with the step of these positions, which is counted again if it is not the last.
    pub fn write<R>(
        &self,
        stream: &Stream,
        positions: &Range<u64>,
        count: impl FnOnce(&Range<u64>) -> Result<T>,
        write: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        let mut slot = self.0.lock();
        let stands = |kept: &Kept<T>| kept.positions == *positions && kept.stream == stream.queue.id;
        let mut kept = match slot.take().filter(stands) {
            Some(kept) => kept,
            None => Kept {
                step: count(positions)?,
                stream: stream.queue.id,
                positions: positions.clone(),
            },
        };
        let written = write(&mut kept.step);
        *slot = Some(kept);
        written
    }
}
