//! Pairs on their way from the device to the partitions' threads, while the device goes on.
//!
//! ```text
//! thread of the device --push--> [ taken | taken in part | waiting | waiting ] --take--> threads of the partitions
//!                                  kept while the device works: what must not be emitted again if it fails (roll_back)
//! ```
//!
//! Host memory: 16 bytes a pair, of the query's reservation, from the push until the pair is taken and the device is
//! done: the pair, and room to sort it should the device fail (`emitted`).
//!
//! Back-pressure: once [`ChunkLimits::waiting_pairs`] wait, the device's thread waits for the partitions, which wait for
//! the client. The device's memory is other queries' want meanwhile, so that all waits of one join together take
//! [`ChunkLimits::patience`] at most; after that pairs pile up in the query's memory, and the device is free when all are
//! found. Nobody waits without end: not the device's thread, and not the partitions, which look between two waits
//! whether anybody still listens, and are told of the end however the device's thread ends.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::{Condvar, Mutex};
use tenon_cpu::join::PAIRS_MAX;
use tenon_gpu::GpuError;
use tokio::sync::Notify;

use super::checks::Checks;
use super::emitted::{EmittedPairs, Taken};
use crate::gpu_error::reserve_host;

/// Pairs that a thread takes at a time, at most.
const TAKEN_PAIRS: usize = 4 * PAIRS_MAX;
/// Time between two looks at whether the wait still has a point.
const LOOK: Duration = Duration::from_millis(20);
/// A pair, and room to sort it.
const PAIR_BYTES: usize = 16;

/// How pairs stream back. An extension of the session's configuration, by which tests make chunks small and let the
/// device fail.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLimits {
    /// Pairs of a chunk, at most.
    pub chunk_pairs: usize,
    /// Pairs that may wait for the partitions before the device's thread does.
    pub waiting_pairs: usize,
    /// How long the device's thread waits for the partitions, in all.
    pub patience: Duration,
    /// Chunks after which the device fails, once, as if its memory had run out.
    pub fails_after: Option<usize>,
}

impl Default for ChunkLimits {
    fn default() -> Self {
        Self {
            chunk_pairs: 4 << 20,
            waiting_pairs: 16 << 20,
            patience: Duration::from_secs(1),
            fails_after: None,
        }
    }
}

/// Pairs that came from the device together.
pub struct PairChunk {
    /// Rows of the operator's build side and of its probe side, of equal length.
    pub build: Vec<u32>,
    pub probe: Vec<u32>,
    pub checks: Arc<Checks>,
    reservation: MemoryReservation,
}

impl PairChunk {
    /// Its first so many pairs, with the memory that was reserved for sorting them.
    fn taken(&self, pairs: usize) -> Taken<'_> {
        Taken {
            build: &self.build[..pairs],
            probe: &self.probe[..pairs],
            room_to_sort: self.reservation.split(pairs * (PAIR_BYTES / 2)),
        }
    }
}

/// What a partition's thread finds when it asks for pairs.
pub enum Next {
    Pairs(Arc<PairChunk>, Range<usize>),
    /// None yet.
    Nothing,
    End,
}

/// How the device's thread came to its end.
pub enum End {
    /// Whatever it did not find is left to the passes.
    Done,
    Failed(Arc<DataFusionError>),
    Panicked(Option<Box<dyn Any + Send>>),
}

impl End {
    fn told(&mut self) -> Result<Next> {
        match self {
            End::Done => Ok(Next::End),
            End::Failed(error) => Err(DataFusionError::Shared(Arc::clone(error))),
            End::Panicked(payload) => match payload.take() {
                Some(payload) => resume_unwind(payload),
                None => internal_err!("a join's thread of the device panicked"),
            },
        }
    }
}

/// The chunks of a join.
pub struct PairChunks {
    limits: ChunkLimits,
    state: Mutex<ChunkQueue>,
    /// A chunk or the end has come.
    filled: Condvar,
    /// Pairs have been taken.
    drained: Condvar,
    /// The first chunk, or the end without any.
    begun: Notify,
}

struct ChunkQueue {
    log: VecDeque<Arc<PairChunk>>,
    /// Chunks of the log that are taken, and how many pairs of the one after them.
    taken: usize,
    taken_pairs: usize,
    /// Whether chunks stay in the log when they are taken.
    keeps: bool,
    /// Pairs that nobody has taken.
    waiting: usize,
    pushed: usize,
    patience: Duration,
    fails_after: Option<usize>,
    end: Option<End>,
}

impl PairChunks {
    pub fn new(limits: ChunkLimits) -> Self {
        Self {
            limits,
            state: Mutex::new(ChunkQueue {
                log: VecDeque::new(),
                taken: 0,
                taken_pairs: 0,
                keeps: true,
                waiting: 0,
                pushed: 0,
                patience: limits.patience,
                fails_after: limits.fails_after,
                end: None,
            }),
            filled: Condvar::new(),
            drained: Condvar::new(),
            begun: Notify::new(),
        }
    }

    /// Pairs of a chunk, at most.
    pub fn chunk_pairs(&self) -> usize {
        self.limits.chunk_pairs.max(1)
    }

    /// Returns with the first chunk, or at the end if none comes.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// The next pairs; waits a moment for them.
    pub fn next(&self) -> Result<Next> {
        let mut state = self.state.lock();
        for look in [true, false] {
            if let Some((chunk, pairs)) = state.take() {
                self.drained.notify_one();
                return Ok(Next::Pairs(chunk, pairs));
            }
            if let Some(end) = &mut state.end {
                return end.told();
            }
            if look {
                self.filled.wait_for(&mut state, LOOK);
            }
        }
        Ok(Next::Nothing)
    }

    fn push(&self, chunk: PairChunk, cancelled: &AtomicBool) -> Result<(), GpuError> {
        let mut state = self.state.lock();
        if state.fails_after == Some(state.pushed) {
            state.fails_after = None;
            return Err(GpuError::OutOfMemory {
                requested_bytes: 0,
                in_use_bytes: 0,
                reserved_bytes: 0,
                budget_bytes: 0,
                detail: format!("; told to fail after {} chunks", state.pushed),
            });
        }
        while state.waiting >= self.limits.waiting_pairs && !state.patience.is_zero() {
            if cancelled.load(Ordering::Relaxed) {
                return Err(GpuError::Cancelled);
            }
            let (begin, wait) = (Instant::now(), LOOK.min(state.patience));
            self.drained.wait_for(&mut state, wait);
            state.patience = state.patience.saturating_sub(begin.elapsed());
        }
        state.waiting += chunk.build.len();
        state.pushed += 1;
        state.log.push_back(Arc::new(chunk));
        if state.pushed == 1 {
            self.begun.notify_one();
        }
        self.filled.notify_all();
        Ok(())
    }

    /// The device has failed: forgets the pairs that wait. Those taken, and `earlier` ones, must be left out by whoever
    /// finds the pairs again.
    pub fn roll_back(&self, earlier: Option<Arc<EmittedPairs>>) -> Option<Arc<EmittedPairs>> {
        let mut state = self.state.lock();
        let log = std::mem::take(&mut state.log);
        let (chunks, pairs) = (state.taken, state.taken_pairs);
        (state.taken, state.taken_pairs, state.waiting) = (0, 0, 0);
        drop(state);
        let lengths = |at: usize, chunk: &PairChunk| match at {
            at if at < chunks => chunk.build.len(),
            at if at == chunks => pairs,
            _ => 0,
        };
        let taken: Vec<_> = log
            .into_iter()
            .enumerate()
            .map(|(at, chunk)| (lengths(at, &chunk), chunk))
            .filter(|(pairs, _)| *pairs > 0)
            .collect();
        match taken.is_empty() {
            true => earlier,
            false => {
                let taken = taken.iter().map(|(pairs, chunk)| chunk.taken(*pairs));
                Some(Arc::new(EmittedPairs::of(taken.collect(), earlier)))
            }
        }
    }

    /// The device is done, all its pairs are here: those taken need not be kept.
    pub fn forget_taken(&self) {
        let mut state = self.state.lock();
        let taken = std::mem::take(&mut state.taken);
        let taken: Vec<_> = state.log.drain(..taken).collect();
        state.keeps = false;
        drop(state);
        drop(taken);
    }

    /// No more chunks come. Without a good end, those that wait are of no use.
    pub fn end(&self, end: End) {
        let mut state = self.state.lock();
        if !matches!(end, End::Done) {
            state.log.clear();
            (state.taken, state.taken_pairs, state.waiting) = (0, 0, 0);
        }
        state.end = Some(end);
        drop(state);
        self.begun.notify_one();
        self.filled.notify_all();
    }
}

impl ChunkQueue {
    fn take(&mut self) -> Option<(Arc<PairChunk>, Range<usize>)> {
        let chunk = Arc::clone(self.log.get(self.taken)?);
        let from = self.taken_pairs;
        let to = chunk.build.len().min(from + TAKEN_PAIRS);
        self.waiting -= to - from;
        self.taken_pairs = to;
        if to == chunk.build.len() {
            self.taken_pairs = 0;
            match self.keeps {
                true => self.taken += 1,
                false => _ = self.log.pop_front(),
            }
        }
        Some((chunk, from..to))
    }
}

/// Where the pairs of one attempt go.
pub struct PairSender<'a> {
    pub chunks: &'a PairChunks,
    pub checks: Arc<Checks>,
    /// Of the query.
    pub memory: &'a MemoryReservation,
    pub cancelled: &'a AtomicBool,
}

impl PairSender<'_> {
    /// Memory for so many pairs.
    pub fn reserve(&self, pairs: usize) -> Result<MemoryReservation, GpuError> {
        let reservation = self.memory.new_empty();
        reserve_host(&reservation, pairs * PAIR_BYTES)?;
        Ok(reservation)
    }

    /// Hands over pairs, in chunks, whose memory is `reservation`. May wait for the partitions.
    pub fn push(&self, build: Vec<u32>, probe: Vec<u32>, reservation: MemoryReservation) -> Result<(), GpuError> {
        let most = self.chunks.chunk_pairs();
        if build.len() <= most {
            return self.push_one(build, probe, reservation);
        }
        for (build, probe) in build.chunks(most).zip(probe.chunks(most)) {
            let part = reservation.split(build.len() * PAIR_BYTES);
            self.push_one(build.to_vec(), probe.to_vec(), part)?;
        }
        Ok(())
    }

    fn push_one(&self, build: Vec<u32>, probe: Vec<u32>, reservation: MemoryReservation) -> Result<(), GpuError> {
        if build.is_empty() {
            return Ok(());
        }
        let checks = Arc::clone(&self.checks);
        let chunk = PairChunk {
            build,
            probe,
            checks,
            reservation,
        };
        self.chunks.push(chunk, self.cancelled)
    }
}
