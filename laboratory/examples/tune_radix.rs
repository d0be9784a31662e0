//! Times shapes of the radix pass on the device at hand, to choose `RadixTuning::of`.
//!
//! `cargo run --release -p tenon-laboratory --example tune_radix -- 24 27`: log2 of the numbers of items.

use rand::{RngCore, SeedableRng, rngs::StdRng};
use tenon_gpu::primitives::sort::{Payload, RadixTuning, SortKey, SortOptions, sort_keys, sort_pairs};
use tenon_gpu::{Device, DeviceConfig, Result, Stream};

/// Milliseconds of the fastest of five runs after one to warm up.
fn time(stream: &Stream, mut run: impl FnMut() -> Result<()>) -> Result<f32> {
    run()?;
    let mut best = f32::MAX;
    for _ in 0..5 {
        let start = stream.record()?;
        run()?;
        let end = stream.record()?;
        end.synchronize()?;
        best = best.min(end.elapsed_ms_since(&start)?);
    }
    Ok(best)
}

fn shapes(configs: &[(u32, u32)], items: &[u32]) -> Vec<RadixTuning> {
    let mut shapes = Vec::new();
    for &(threads, blocks) in configs {
        for &items in items {
            shapes.push(RadixTuning { threads, items, blocks });
        }
    }
    shapes
}

fn tune<K: SortKey, V: Payload>(stream: &Stream, log2: u32, pairs: bool, shapes: &[RadixTuning]) -> Result<()> {
    let items = 1u64 << log2;
    let mut bytes = vec![0u8; items as usize * size_of::<K>()];
    StdRng::seed_from_u64(7).fill_bytes(&mut bytes);
    let input = stream.upload(&bytes)?.cast::<K>()?;
    let mut output = stream.alloc::<K>(items)?;
    let values = stream.alloc_zeroed::<V>(if pairs { items } else { 0 })?;
    let mut moved = stream.alloc::<V>(values.len())?;
    for &tuning in shapes {
        let mut run = |bits| {
            let options = SortOptions {
                tuning: Some(tuning),
                ..SortOptions::default()
            }
            .bits(bits);
            time(stream, || match pairs {
                true => {
                    let outputs = (output.view_mut(), moved.view_mut());
                    sort_pairs(stream, input.view(), values.view(), outputs.0, outputs.1, &options)
                }
                false => sort_keys(stream, input.view(), output.view_mut(), &options),
            })
        };
        match (run(0..K::BITS), run(0..8)) {
            (Ok(all), Ok(one)) => println!(
                "2^{log2} {}{} threads {} items {:2} blocks {}: {all:.3} ms, {:.1} G/s; 8 bits {one:.3} ms",
                K::C_NAME,
                if pairs {
                    format!("+{}", V::C_NAME)
                } else {
                    String::new()
                },
                tuning.threads,
                tuning.items,
                tuning.blocks,
                items as f64 / all as f64 / 1e6,
            ),
            (Err(error), _) | (_, Err(error)) => println!("{tuning:?}: {error}"),
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let device = Device::open_from_env(DeviceConfig::default())?;
    let stream = device.stream()?;
    let sizes: Vec<u32> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let mut keys = shapes(&[(384, 2)], &[24, 28, 32]);
    keys.extend(shapes(&[(384, 3), (256, 4), (512, 2)], &[20, 24]));
    let mut pairs = shapes(&[(384, 2)], &[20, 24, 28, 32]);
    pairs.extend(shapes(&[(256, 3), (512, 2)], &[16, 24]));
    let wide = shapes(&[(384, 2)], &[16, 20, 22]);
    let widest = shapes(&[(384, 2)], &[10, 12, 14, 16]);
    for log2 in if sizes.is_empty() { vec![24] } else { sizes } {
        tune::<u32, u32>(&stream, log2, false, &keys)?;
        tune::<u32, u32>(&stream, log2, true, &pairs)?;
        tune::<u64, u32>(&stream, log2, false, &wide)?;
        tune::<u64, u32>(&stream, log2, true, &widest)?;
        tune::<u64, u64>(&stream, log2, true, &widest)?;
    }
    Ok(())
}
