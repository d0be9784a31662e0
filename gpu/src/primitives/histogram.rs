//! Histogram in shared memory, privatised: each block counts by itself, in several copies against contention, and adds
//! its counts to the result (the histograms of He 2008, section 3.1.4, a block instead of a thread each).

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut, Element};
use crate::number::{Number, words_of};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// Bins by digit use `shift` and `mask`; bins of even width the bounds and `range` with `inverse`, or `scale`.
    struct HistogramParams {
        input: DevicePtr<u8>,
        items: u64,
        lower_low: u64,
        lower_high: u64,
        upper_low: u64,
        upper_high: u64,
        range: u64,
        inverse: u64,
        scale: f64,
        shift: u32,
        mask: u32,
        bins: u32,
        copies: u32,
        counts: DevicePtrMut<u64>,
    }
}

static SOURCE: Source = source!("histogram.cu", HistogramParams);

fn program(item: &str, mode: u32) -> Program {
    Program::new(&SOURCE).define("ITEM", item).define("MODE", mode)
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    let digits = ["u8", "u16", "u32", "u64", "u128"].map(|t| program(t, 0));
    let even = ["i32", "u32", "i64", "u64"].map(|t| program(t, 1));
    let floats = ["f32", "f64"].map(|t| program(t, 2));
    digits.into_iter().chain(even).chain(floats).collect()
}

/// Unsigned numbers, of which digits are taken.
pub trait Digits: Element {
    /// `bits` bits, at most 32, from bit `shift` on.
    fn digit(self, shift: u32, bits: u32) -> u32;
}
macro_rules! digits {
    ($($type:ty),*) => {$(
        impl Digits for $type {
            fn digit(self, shift: u32, bits: u32) -> u32 {
                ((self >> shift) as u64 & ((1u64 << bits) - 1)) as u32
            }
        }
    )*};
}
digits!(u8, u16, u32, u64, u128);

/// Most bins of a histogram: more than that is a sort.
pub const BINS_MAX: u64 = 1 << 24;

/// How bins of even width are computed, the same on device and host.
#[derive(Clone, Copy, Debug)]
pub struct EvenBins<T> {
    pub lower: T,
    pub upper: T,
    pub bins: u32,
    range: u64,
    inverse: u64,
    scale: f64,
    mode: u32,
}

/// Numbers that even-width bins may have: integers and floats of 4 or 8 bytes.
pub trait Binned: Number {
    #[doc(hidden)]
    const MODE: u32;
    /// `self - lower` of integers.
    #[doc(hidden)]
    fn distance(self, lower: Self) -> u64;
    #[doc(hidden)]
    fn to_f64(self) -> f64;
}
macro_rules! binned {
    ($($type:ty => $mode:literal),*) => {$(
        impl Binned for $type {
            const MODE: u32 = $mode;
            fn distance(self, lower: Self) -> u64 {
                (self as u64).wrapping_sub(lower as u64)
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}
binned!(i32 => 1, u32 => 1, i64 => 1, u64 => 1, f32 => 2, f64 => 2);

impl<T: Binned> EvenBins<T> {
    /// `bins` bins of equal width over `lower..upper`; of integers, not more bins than values.
    pub fn new(lower: T, upper: T, bins: u64) -> Result<EvenBins<T>> {
        let invalid = |why: &str| {
            Err(GpuError::Invalid(format!(
                "{bins} bins over {lower:?}..{upper:?}: {why}"
            )))
        };
        if bins == 0 || bins > BINS_MAX {
            return invalid("not a number of bins");
        }
        if !matches!(lower.partial_cmp(&upper), Some(std::cmp::Ordering::Less)) {
            return invalid("an empty range");
        }
        let mut even = EvenBins {
            lower,
            upper,
            bins: bins as u32,
            range: 0,
            inverse: 0,
            scale: 0.0,
            mode: T::MODE,
        };
        if T::MODE == 1 {
            even.range = upper.distance(lower);
            if bins > even.range {
                return invalid("more bins than values");
            }
            even.inverse = u64::try_from(((bins as u128) << 64) / even.range as u128).unwrap_or(u64::MAX);
        } else {
            even.scale = bins as f64 / (upper.to_f64() - lower.to_f64());
            if !(even.scale.is_finite() && even.scale > 0.0) {
                return invalid("a range without a width");
            }
        }
        Ok(even)
    }

    /// The item's bin, if it lies in the range.
    pub fn bin(&self, item: T) -> Option<u32> {
        if !(item >= self.lower && item < self.upper) {
            return None;
        }
        Some(if self.mode == 1 {
            (item.distance(self.lower) as u128 * self.bins as u128 / self.range as u128) as u32
        } else {
            (((item.to_f64() - self.lower.to_f64()) * self.scale) as u32).min(self.bins - 1)
        })
    }
}

/// Sets `counts[b]` to the number of items in bin `b` of `counts.len()` bins of equal width over `lower..upper`; items
/// outside, and NaN, count nowhere.
///
/// One pass; allocates nothing. Up to 12288 bins are counted in shared memory, more in global memory.
pub fn histogram_even<T: Binned>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    lower: T,
    upper: T,
    counts: DeviceViewMut<'_, u64>,
) -> Result<()> {
    let even = EvenBins::new(lower, upper, counts.len())?;
    let ([lower_low, lower_high], [upper_low, upper_high]) = (words_of(lower), words_of(upper));
    let params = HistogramParams {
        lower_low,
        lower_high,
        upper_low,
        upper_high,
        range: even.range,
        inverse: even.inverse,
        scale: even.scale,
        ..empty_params()
    };
    run(stream, input, &program(T::C_NAME, T::MODE), params, counts)
}

/// Sets `counts[d]` to the number of items whose digit is `d`: the bits from `shift` on, as many as make
/// `counts.len()`, a power of two, bins. Bits beyond the item's are zeros.
///
/// One pass; allocates nothing.
pub fn histogram_digit<T: Digits>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    shift: u32,
    counts: DeviceViewMut<'_, u64>,
) -> Result<()> {
    let bins = counts.len();
    if !bins.is_power_of_two() || bins > BINS_MAX || shift >= size_of::<T>() as u32 * 8 {
        return Err(GpuError::Invalid(format!("{bins} bins by a digit from bit {shift} on")));
    }
    let params = HistogramParams {
        shift,
        mask: bins as u32 - 1,
        ..empty_params()
    };
    run(stream, input, &program(T::C_NAME, 0), params, counts)
}

fn empty_params() -> HistogramParams {
    HistogramParams {
        input: DevicePtr::null(),
        items: 0,
        lower_low: 0,
        lower_high: 0,
        upper_low: 0,
        upper_high: 0,
        range: 0,
        inverse: 0,
        scale: 0.0,
        shift: 0,
        mask: 0,
        bins: 0,
        copies: 0,
        counts: DevicePtrMut::null(),
    }
}

fn run<T: Element>(
    stream: &Stream,
    input: DeviceView<'_, T>,
    program: &Program,
    params: HistogramParams,
    mut counts: DeviceViewMut<'_, u64>,
) -> Result<()> {
    stream.set_bytes(counts.reborrow(), 0)?;
    let bins = counts.len() as u32;
    let copies_max = (tuning::HISTOGRAM_BYTES / 4 / bins).min(32);
    let copies = if copies_max == 0 { 0 } else { 1 << copies_max.ilog2() };
    let (threads, shared) = (tuning::REDUCE_THREADS, bins * copies * 4);
    let device = stream.device();
    let kernel = device.load(program)?.kernel::<HistogramParams>("histogram")?;
    let fill = kernel.resident_blocks(threads, shared)?.max(1) * device.info().multiprocessors;
    let cover = input.bytes().div_ceil(64 * threads as u64);
    let config = LaunchConfig::new((fill as u64).min(cover) as u32, threads).shared(shared);
    let params = HistogramParams {
        input: DevicePtr::new(input.ptr().0),
        items: input.len(),
        bins,
        copies,
        counts: counts.ptr_mut(),
        ..params
    };
    // SAFETY: input and counts have the lengths that the kernel uses; shared memory holds every copy of every bin.
    unsafe { kernel.launch(stream, &config, &params) }
}
