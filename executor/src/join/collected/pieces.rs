//! Pairs on their way from the device to the partitions' threads, while the device goes on.
//!
//! ```text
//! thread of the device --push--> [ taken | taken in part | waiting | waiting ] --take--> threads of the partitions
//!                                  kept while the device works: what must not be sent again if it fails (recall)
//! ```
//!
//! Host memory: 16 bytes a pair, of the query's reservation, from the push until the pair is taken and the device is
//! done: the pair, and room to sort it should the device fail (`sent`).
//!
//! Back-pressure: once [`Streaming::waiting_pairs`] wait, the device's thread waits for the partitions, which wait for
//! the client. The device's memory is other queries' want meanwhile, so that all waits of one join together take
//! [`Streaming::patience`] at most; after that pairs pile up in the query's memory, and the device is free when all are
//! found. Nobody waits without end: not the device's thread, and not the partitions, which look between two waits
//! whether anybody still listens, and are told of the end however the device's thread ends.

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
use tenon_gpu::GpuError;
use tenon_gpu::cpu::join::PAIRS_MAX;
use tokio::sync::Notify;

use super::checks::Checks;
use super::device_join::host_memory;
use super::sent::Sent;

/// Pairs that a thread takes at a time, at most.
const TAKEN_PAIRS: usize = 4 * PAIRS_MAX;
/// Time between two looks at whether the wait still has a point.
const LOOK: Duration = Duration::from_millis(20);
/// A pair, and room to sort it.
const PAIR_BYTES: usize = 16;

/// How pairs stream back. An extension of the session's configuration, by which tests make pieces small and let the
/// device fail.
#[derive(Clone, Copy, Debug)]
pub struct Streaming {
    /// Pairs of a piece, at most.
    pub piece_pairs: usize,
    /// Pairs that may wait for the partitions before the device's thread does.
    pub waiting_pairs: usize,
    /// How long the device's thread waits for the partitions, in all.
    pub patience: Duration,
    /// Pieces after which the device fails, once, as if its memory had run out.
    pub fails_after: Option<usize>,
}

impl Default for Streaming {
    fn default() -> Self {
        Self {
            piece_pairs: 4 << 20,
            waiting_pairs: 16 << 20,
            patience: Duration::from_secs(1),
            fails_after: None,
        }
    }
}

/// Pairs that came from the device together.
pub struct Piece {
    /// Rows of the operator's build side and of the other, of equal length.
    pub own: Vec<u32>,
    pub other: Vec<u32>,
    pub checks: Arc<Checks>,
    reservation: MemoryReservation,
}

impl Piece {
    /// The memory of the first so many pairs, as it was reserved for sorting them.
    pub fn room_to_sort(&self, pairs: usize) -> MemoryReservation {
        self.reservation.split(pairs * (PAIR_BYTES / 2))
    }
}

/// What a partition's thread finds when it asks for pairs.
pub enum Next {
    Pairs(Arc<Piece>, Range<usize>),
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

pub struct Pieces {
    streaming: Streaming,
    state: Mutex<State>,
    /// A piece or the end has come.
    filled: Condvar,
    /// Pairs have been taken.
    drained: Condvar,
    /// The first piece, or the end without any.
    begun: Notify,
}

struct State {
    log: VecDeque<Arc<Piece>>,
    /// Pieces of the log that are taken, and how many pairs of the one after them.
    taken: usize,
    taken_pairs: usize,
    /// Whether pieces stay in the log when they are taken.
    keeps: bool,
    /// Pairs that nobody has taken.
    waiting: usize,
    pushed: usize,
    patience: Duration,
    fails_after: Option<usize>,
    end: Option<End>,
}

impl Pieces {
    pub fn new(streaming: Streaming) -> Self {
        Self {
            streaming,
            state: Mutex::new(State {
                log: VecDeque::new(),
                taken: 0,
                taken_pairs: 0,
                keeps: true,
                waiting: 0,
                pushed: 0,
                patience: streaming.patience,
                fails_after: streaming.fails_after,
                end: None,
            }),
            filled: Condvar::new(),
            drained: Condvar::new(),
            begun: Notify::new(),
        }
    }

    /// Pairs of a piece, at most.
    pub fn piece_pairs(&self) -> usize {
        self.streaming.piece_pairs.max(1)
    }

    /// Returns with the first piece, or at the end if none comes.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// The next pairs; waits a moment for them.
    pub fn next(&self) -> Result<Next> {
        let mut state = self.state.lock();
        for look in [true, false] {
            if let Some((piece, pairs)) = state.take() {
                self.drained.notify_one();
                return Ok(Next::Pairs(piece, pairs));
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

    fn push(&self, piece: Piece, cancelled: &AtomicBool) -> Result<(), GpuError> {
        let mut state = self.state.lock();
        if state.fails_after == Some(state.pushed) {
            state.fails_after = None;
            return Err(GpuError::OutOfMemory {
                requested_bytes: 0,
                in_use_bytes: 0,
                reserved_bytes: 0,
                budget_bytes: 0,
                detail: format!("; told to fail after {} pieces", state.pushed),
            });
        }
        while state.waiting >= self.streaming.waiting_pairs && !state.patience.is_zero() {
            if cancelled.load(Ordering::Relaxed) {
                return Err(GpuError::Cancelled);
            }
            let (begin, wait) = (Instant::now(), LOOK.min(state.patience));
            self.drained.wait_for(&mut state, wait);
            state.patience = state.patience.saturating_sub(begin.elapsed());
        }
        state.waiting += piece.own.len();
        state.pushed += 1;
        state.log.push_back(Arc::new(piece));
        if state.pushed == 1 {
            self.begun.notify_one();
        }
        self.filled.notify_all();
        Ok(())
    }

    /// The device has failed: forgets the pairs that wait. Those taken, and `earlier` ones, must be left out by whoever
    /// finds the pairs again.
    pub fn recall(&self, earlier: Option<Arc<Sent>>) -> Option<Arc<Sent>> {
        let mut state = self.state.lock();
        let log = std::mem::take(&mut state.log);
        let (pieces, pairs) = (state.taken, state.taken_pairs);
        (state.taken, state.taken_pairs, state.waiting) = (0, 0, 0);
        drop(state);
        let lengths = |at: usize, piece: &Piece| match at {
            at if at < pieces => piece.own.len(),
            at if at == pieces => pairs,
            _ => 0,
        };
        let taken: Vec<_> = log
            .into_iter()
            .enumerate()
            .map(|(at, piece)| (lengths(at, &piece), piece))
            .filter(|(pairs, _)| *pairs > 0)
            .collect();
        match taken.is_empty() {
            true => earlier,
            false => Some(Arc::new(Sent::of(taken, earlier))),
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

    /// No more pieces come. Without a good end, those that wait are of no use.
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

impl State {
    fn take(&mut self) -> Option<(Arc<Piece>, Range<usize>)> {
        let piece = Arc::clone(self.log.get(self.taken)?);
        let from = self.taken_pairs;
        let to = piece.own.len().min(from + TAKEN_PAIRS);
        self.waiting -= to - from;
        self.taken_pairs = to;
        if to == piece.own.len() {
            self.taken_pairs = 0;
            match self.keeps {
                true => self.taken += 1,
                false => _ = self.log.pop_front(),
            }
        }
        Some((piece, from..to))
    }
}

/// Where the pairs of one attempt go.
pub struct Outlet<'a> {
    pub pieces: &'a Pieces,
    pub checks: Arc<Checks>,
    /// Of the query.
    pub memory: &'a MemoryReservation,
    pub cancelled: &'a AtomicBool,
}

impl Outlet<'_> {
    /// Memory for so many pairs.
    pub fn reserve(&self, pairs: usize) -> Result<MemoryReservation, GpuError> {
        let reservation = self.memory.new_empty();
        host_memory(&reservation, pairs * PAIR_BYTES)?;
        Ok(reservation)
    }

    /// Hands over pairs, in pieces, whose memory is `reservation`. May wait for the partitions.
    pub fn push(&self, own: Vec<u32>, other: Vec<u32>, reservation: MemoryReservation) -> Result<(), GpuError> {
        let most = self.pieces.piece_pairs();
        if own.len() <= most {
            return self.push_one(own, other, reservation);
        }
        for (own, other) in own.chunks(most).zip(other.chunks(most)) {
            let part = reservation.split(own.len() * PAIR_BYTES);
            self.push_one(own.to_vec(), other.to_vec(), part)?;
        }
        Ok(())
    }

    fn push_one(&self, own: Vec<u32>, other: Vec<u32>, reservation: MemoryReservation) -> Result<(), GpuError> {
        if own.is_empty() {
            return Ok(());
        }
        let checks = Arc::clone(&self.checks);
        let piece = Piece {
            own,
            other,
            checks,
            reservation,
        };
        self.pieces.push(piece, self.cancelled)
    }
}
