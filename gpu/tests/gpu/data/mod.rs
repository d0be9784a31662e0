//! The primitives and their CPU twins against plain loops, at all sizes and alignments, on random input.

mod gather;
mod histogram;
mod large;
mod reduce;
mod scan;
mod search;
mod segmented;
mod select;

use rand::{SeedableRng, rngs::StdRng};
use tenon_gpu::memory::{DeviceBuffer, Element};
use tenon_gpu::testing::{self, SIZES};
use tenon_gpu::{Device, Stream};

/// Runs the test with a device, a stream and a seeded generator; then the pool's books must balance.
fn with_stream(name: &str, test: impl FnOnce(&Stream, &mut StdRng)) {
    let device: Device = testing::device();
    {
        let stream = device.stream().unwrap();
        test(&stream, &mut StdRng::seed_from_u64(testing::seed(name)));
        stream.synchronize().unwrap();
    }
    assert_eq!(device.pool().in_use(), 0);
}

/// Sizes of [`SIZES`], around tiles of the families, and many tiles.
fn sizes() -> Vec<u64> {
    let mut sizes = SIZES.to_vec();
    sizes.extend([
        4095, 4096, 4097, 8191, 8192, 8193, 12_287, 12_288, 12_289, 16_385, 100_003,
    ]);
    sizes
}

/// A copy of `items` that starts `offset` elements into a buffer: use `.slice(offset..)`.
fn upload_at<T: Element>(stream: &Stream, items: &[T], offset: u64) -> DeviceBuffer<T> {
    let mut buffer = stream.alloc::<T>(items.len() as u64 + offset).unwrap();
    stream
        .copy_to_device(items, buffer.slice_mut(offset..).unwrap())
        .unwrap();
    buffer
}
