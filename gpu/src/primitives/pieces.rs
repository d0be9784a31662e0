//! Many small copies to the device as one: a kernel reads the pieces over the bus.
//!
//! A copy by the copy engine takes some 4 us beside its bytes, which is longer than 128 KiB take: the narrow columns of a
//! table's segments. Kernels read registered host memory at the rate of the bus (Lutz et al. 2022, "Triton Join", section 4,
//! lets them read tables so).

use crate::compile::{Program, Source};
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, Element};
use crate::pool::PinnedBuffer;
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

/// What a block copies at once.
const PIECE_BYTES: usize = (tuning::PIECES_THREADS * tuning::PIECES_WORDS * 16) as usize;
/// A larger copy is the copy engine's.
const COPY_BYTES_MAX: usize = 1 << 20;

/// A piece of host memory and where it goes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    source: u64,
    target: u64,
    bytes: u64,
}

// SAFETY: three words, any of which may have any value.
unsafe impl Element for Piece {
    const C_NAME: &'static str = "Piece";
}

kernel_params! {
    /// So many pieces.
    struct PiecesParams { pieces: DevicePtr<Piece>, count: u64 }
}

static SOURCE: Source = source!("pieces.cu", PiecesParams);

/// The one program.
pub fn programs() -> Vec<Program> {
    vec![Program::new(&SOURCE)]
}

/// Copies that wait to be made together, and those that are under way: lives until the stream was waited for.
#[derive(Default)]
pub struct Pieces {
    waiting: Vec<Piece>,
    sent: Vec<PinnedBuffer<Piece>>,
}

impl Pieces {
    /// A buffer that will have a copy of the slice: at once in the stream's order, or once `send` is in the stream.
    ///
    /// # Safety
    /// The slice is there, and unchanged, until the stream has passed the copy. The buffer is kept until then, or its pieces are
    /// forgotten before `send`.
    pub unsafe fn upload_later<T: Element>(&mut self, stream: &Stream, source: &[T]) -> Result<DeviceBuffer<T>> {
        let (address, bytes) = (source.as_ptr() as u64, size_of_val(source));
        let gathers = (1..=COPY_BYTES_MAX).contains(&bytes)
            && address.is_multiple_of(16)
            && stream.reaches(source.as_ptr().cast(), bytes);
        if !gathers {
            // SAFETY: the caller's promise.
            return unsafe { stream.upload_later(source) };
        }
        let buffer = stream.alloc::<T>(source.len() as u64)?;
        let target = buffer.ptr().0;
        self.waiting.extend((0..bytes).step_by(PIECE_BYTES).map(|at| Piece {
            source: address + at as u64,
            target: target + at as u64,
            bytes: PIECE_BYTES.min(bytes - at) as u64,
        }));
        Ok(buffer)
    }

    /// How many pieces wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Forgets those that wait behind the first `kept`: their buffers are gone.
    pub fn forget(&mut self, kept: usize) {
        self.waiting.truncate(kept);
    }

    /// Puts what waits into the stream, as one kernel.
    pub fn send(&mut self, stream: &Stream) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let device = stream.device();
        let kernel = device.load(&Program::new(&SOURCE))?.kernel::<PiecesParams>("pieces")?;
        // The driver would wait for what is in the stream, to copy from other memory.
        let mut sent = device.pinned::<Piece>(self.waiting.len() as u64)?;
        sent.copy_from_slice(&self.waiting);
        self.waiting.clear();
        self.sent.push(sent);
        // SAFETY: the list is kept until this is dropped.
        let list = unsafe { stream.upload_later(self.sent.last().map_or(&[][..], |list| list)) }?;
        let params = PiecesParams {
            pieces: DevicePtr::new(list.ptr().0),
            count: list.len(),
        };
        let blocks = list.len().min(u64::from(device.info().multiprocessors.max(1)));
        let config = LaunchConfig::new(blocks as u32, tuning::PIECES_THREADS);
        // SAFETY: each piece lies within memory that the promise of `upload_later` holds, and within its buffer; the list is
        // given back in the stream's order.
        unsafe { kernel.launch(stream, &config, &params) }
    }
}
