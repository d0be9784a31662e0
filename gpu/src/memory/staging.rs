//! Copies between ordinary host memory and the device by way of pinned pieces: the processor fills one piece while
//! the copy engine empties another. Registered and pinned memory is copied directly.

use rayon::prelude::*;

use crate::error::Result;
use crate::pool::PinnedBuffer;
use crate::stream::{Event, Stream};

/// A piece: from 4 MiB on, a copy runs at the full rate of the bus.
const PIECE_BYTES: usize = 8 << 20;
/// Pieces of one copy: one that is filled, one that is copied, one to spare.
const PIECES: usize = 3;
/// Smaller copies are left to the driver, which stages them itself.
const STAGED_BYTES_MIN: usize = 1 << 20;
/// What one core copies at a time.
const COPY_BYTES: usize = 1 << 20;

/// The processor's copy, on all cores.
fn copy_parallel(source: usize, target: usize, bytes: usize) {
    (0..bytes.div_ceil(COPY_BYTES)).into_par_iter().for_each(|i| {
        let at = i * COPY_BYTES;
        // SAFETY: the callers below give two ranges of `bytes` bytes that do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(
                (source + at) as *const u8,
                (target + at) as *mut u8,
                COPY_BYTES.min(bytes - at),
            )
        };
    });
}

/// Pinned pieces in turn, each with the event after which it may be used again.
struct Ring {
    pieces: Vec<(PinnedBuffer<u8>, Option<Event>)>,
    next: usize,
}

impl Ring {
    fn new(stream: &Stream) -> Result<Ring> {
        let pool = &stream.device.host;
        let pieces = (0..PIECES)
            .map(|_| Ok((pool.take::<u8>(PIECE_BYTES)?, None)))
            .collect::<Result<_>>()?;
        Ok(Ring { pieces, next: 0 })
    }

    /// The next piece, once its last copy is done.
    fn turn(&mut self) -> Result<&mut (PinnedBuffer<u8>, Option<Event>)> {
        let piece = &mut self.pieces[self.next % PIECES];
        self.next += 1;
        if let Some(event) = piece.1.take() {
            event.synchronize()?;
        }
        Ok(piece)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for (_, event) in &self.pieces {
            if let Some(Err(error)) = event.as_ref().map(Event::synchronize) {
                tracing::error!(%error, "waiting for a staged copy");
            }
        }
    }
}

/// Whether kernels reach so much host memory at its own address.
pub(super) fn is_reached(stream: &Stream, host: *const u8, bytes: usize) -> bool {
    stream.device.registered.contains(host, bytes) || stream.device.host.contains(host, bytes)
}

fn is_direct(stream: &Stream, host: *const u8, bytes: usize) -> bool {
    bytes < STAGED_BYTES_MIN || is_reached(stream, host, bytes)
}

/// Puts the copy into the stream. The source may be reused on return if it was staged; if it was copied directly, once
/// the stream has passed the copy.
///
/// # Safety
/// As `Backend::copy_to_device`.
pub(super) unsafe fn to_device(stream: &Stream, target: u64, source: *const u8, bytes: usize) -> Result<()> {
    let backend = &stream.device.backend;
    if is_direct(stream, source, bytes) {
        // SAFETY: the caller's promise.
        return unsafe { backend.copy_to_device(target, source, bytes, stream.handle()) };
    }
    let mut ring = Ring::new(stream)?;
    for at in (0..bytes).step_by(PIECE_BYTES) {
        let len = PIECE_BYTES.min(bytes - at);
        let (piece, event) = ring.turn()?;
        copy_parallel(source as usize + at, piece.address() as usize, len);
        // SAFETY: the piece is pinned and not touched before its event; the target is the caller's promise.
        unsafe { backend.copy_to_device(target + at as u64, piece.address(), len, stream.handle()) }?;
        *event = Some(stream.record()?);
    }
    Ok(())
}

/// Copies to the host and waits for it.
///
/// # Safety
/// As `Backend::copy_to_host`.
pub(super) unsafe fn to_host(stream: &Stream, target: *mut u8, source: u64, bytes: usize) -> Result<()> {
    let backend = &stream.device.backend;
    if is_direct(stream, target, bytes) {
        // SAFETY: the caller's promise.
        unsafe { backend.copy_to_host(target, source, bytes, stream.handle()) }?;
        return stream.synchronize();
    }
    let mut ring = Ring::new(stream)?;
    // Each turn starts a copy into one piece and empties the one that was started two turns before.
    let starts: Vec<usize> = (0..bytes).step_by(PIECE_BYTES).collect();
    for turn in 0..starts.len() + PIECES - 1 {
        if let Some(&at) = starts.get(turn) {
            let (piece, event) = &mut ring.pieces[turn % PIECES];
            let len = PIECE_BYTES.min(bytes - at);
            // SAFETY: the piece is pinned and not read before its event; the source is the caller's promise.
            unsafe { backend.copy_to_host(piece.address(), source + at as u64, len, stream.handle()) }?;
            *event = Some(stream.record()?);
        }
        if let Some(&at) = turn.checked_sub(PIECES - 1).and_then(|earlier| starts.get(earlier)) {
            let (piece, event) = &mut ring.pieces[(turn + 1 - PIECES) % PIECES];
            if let Some(event) = event.take() {
                event.synchronize()?;
            }
            copy_parallel(
                piece.address() as usize,
                target as usize + at,
                PIECE_BYTES.min(bytes - at),
            );
        }
    }
    stream.synchronize()
}
