//! Many short copies from registered host memory to the device, together, by one kernel that reads over the bus.
//!
//! The copy engine leaves some 2.6 microseconds between two copies, in whatever streams they are: of 128 KB each they make 26
//! GB/s on a bus of 54, of 256 KB 36, of 1 MB 48, of 4 MB 53. A kernel of 32 blocks makes 48 to 51 whatever their size (one
//! H200).

use crate::compile::{Program, Source};
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, Element};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// `count` pieces of three words each: from, to, bytes.
    struct UploadParams { pieces: DevicePtr<u64>, count: u64 }
}

static SOURCE: Source = source!("upload.cu", UploadParams);

/// Copies from this size on are the engine's, which is faster then.
const SHORT_BYTES_MAX: usize = 2 << 20;
/// What a block copies before it takes the next piece.
const PIECE_BYTES: usize = 64 << 10;
/// Both ends of a piece begin at such addresses.
const ALIGN: usize = 16;
/// Words of a piece.
const WORDS: usize = 3;

pub fn programs() -> Vec<Program> {
    vec![Program::new(&SOURCE)]
}

/// Copies that wait to be started together.
#[derive(Default)]
pub struct Uploads {
    pieces: Vec<u64>,
}

impl Uploads {
    /// A new buffer for a copy of the slice. Where that is short and of registered memory it waits for [`Self::start`]; else it
    /// is put into the stream at once.
    ///
    /// # Safety
    /// The slice is there, and unchanged, until the stream has passed the copy.
    pub unsafe fn add<T: Element>(&mut self, stream: &Stream, source: &[T]) -> Result<DeviceBuffer<T>> {
        let (address, bytes) = (source.as_ptr() as usize, size_of_val(source));
        let is_short = (1..SHORT_BYTES_MAX).contains(&bytes) && address.is_multiple_of(ALIGN);
        if !is_short || !stream.device.registered.contains(source.as_ptr().cast(), bytes) {
            // SAFETY: the caller's promise.
            return unsafe { stream.upload_later(source) };
        }
        let buffer = stream.alloc::<T>(source.len() as u64)?;
        for at in (0..bytes).step_by(PIECE_BYTES) {
            let piece = [
                (address + at) as u64,
                buffer.ptr().0 + at as u64,
                PIECE_BYTES.min(bytes - at) as u64,
            ];
            self.pieces.extend(piece);
        }
        Ok(buffer)
    }

    /// How far they have come, for [`Self::back_to`].
    pub fn mark(&self) -> usize {
        self.pieces.len()
    }

    /// Forgets the copies that were added after the mark: their buffers are no more.
    pub fn back_to(&mut self, mark: usize) {
        self.pieces.truncate(mark);
    }

    /// Puts all copies that wait into the stream, which was given with each of them.
    ///
    /// # Safety
    /// The buffers of these copies are kept until the stream has passed them.
    pub unsafe fn start(&mut self, stream: &Stream) -> Result<()> {
        let count = self.pieces.len() / WORDS;
        if count == 0 {
            return Ok(());
        }
        let kernel = stream
            .device()
            .load(&Program::new(&SOURCE))?
            .kernel::<UploadParams>("upload")?;
        let pieces = stream.upload(&self.pieces)?;
        self.pieces.clear();
        let blocks = count.min(tuning::UPLOAD_BLOCKS as usize) as u64;
        let config = LaunchConfig::cover(blocks, 1, tuning::UPLOAD_THREADS)?;
        let params = UploadParams {
            pieces: pieces.ptr(),
            count: count as u64,
        };
        // SAFETY: each piece is of registered memory, which the device can read, and within a buffer of the same stream; the
        // callers of this and of `add` keep both.
        unsafe { kernel.launch(stream, &config, &params) }
    }
}
