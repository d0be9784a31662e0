//! Histogram on the CPU: each task counts by itself.

use rayon::prelude::*;

use tenon_gpu::primitives::histogram::{BINS_MAX, Binned, Digits, EvenBins};
use tenon_gpu::{GpuError, Result};

/// Sets `counts[b]` to the number of items in bin `b` of `counts.len()` bins of equal width over `lower..upper`; items
/// outside, and NaN, count nowhere.
pub fn histogram_even<T: Binned>(input: &[T], lower: T, upper: T, counts: &mut [u64]) -> Result<()> {
    let even = EvenBins::new(lower, upper, counts.len() as u64)?;
    count(input, counts, |item| even.bin(item).map(|bin| bin as usize));
    Ok(())
}

/// Sets `counts[d]` to the number of items whose digit from bit `shift` on is `d`; `counts.len()` is a power of two.
pub fn histogram_digit<T: Digits>(input: &[T], shift: u32, counts: &mut [u64]) -> Result<()> {
    let bins = counts.len() as u64;
    if !bins.is_power_of_two() || bins > BINS_MAX || shift >= size_of::<T>() as u32 * 8 {
        return Err(GpuError::Invalid(format!("{bins} bins by a digit from bit {shift} on")));
    }
    let bits = bins.ilog2();
    count(input, counts, |item| Some(item.digit(shift, bits) as usize));
    Ok(())
}

fn count<T: Copy + Sync>(input: &[T], counts: &mut [u64], bin: impl Fn(T) -> Option<usize> + Sync) {
    counts.fill(0);
    let bins = counts.len();
    // A task is worth its own counts: many more items than bins.
    let piece = input
        .len()
        .div_ceil(rayon::current_num_threads())
        .max(4 * bins)
        .max(16 << 10);
    let partials: Vec<Vec<u64>> = input
        .par_chunks(piece)
        .map(|items| {
            // Two tables in turn, so that runs of one bin do not wait for their own stores.
            let mut counts = vec![0u64; bins * 2];
            let (even, odd) = counts.split_at_mut(bins);
            let (pairs, rest) = items.as_chunks::<2>();
            for [a, b] in pairs {
                if let Some(bin) = bin(*a) {
                    even[bin] += 1;
                }
                if let Some(bin) = bin(*b) {
                    odd[bin] += 1;
                }
            }
            if let Some(bin) = rest.first().and_then(|&item| bin(item)) {
                even[bin] += 1;
            }
            counts
        })
        .collect();
    for partial in partials {
        for (i, part) in partial.into_iter().enumerate() {
            counts[i % bins] += part;
        }
    }
}
