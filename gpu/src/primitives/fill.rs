//! Fill with one value, and number from a start (iota).

use crate::compile::{Program, Source};
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtrMut, DeviceViewMut, Element};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// `items` elements of 1, 2, 4, 8 or 16 bytes; `value` holds the element in its low bytes.
    struct FillParams { output: DevicePtrMut<u8>, items: u64, value_low: u64, value_high: u64 }
}
kernel_params! {
    /// `items` numbers from `start`.
    struct IotaParams { output: DevicePtrMut<u8>, items: u64, start: u64 }
}

static SOURCE: Source = source!("fill.cu", FillParams, IotaParams);

/// The program for elements of this C type.
fn program(c_type: &str) -> Program {
    Program::new(&SOURCE).define("T", c_type)
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    ["u8", "u16", "u32", "u64", "u128"].map(program).into()
}

/// The unsigned type of the element's size: filling copies bits.
pub(crate) fn bits_type<T>() -> &'static str {
    match size_of::<T>() {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "u128",
    }
}

/// Number types that iota makes.
pub trait Index: Element {
    /// As 64 bits.
    fn to_u64(self) -> u64;
    /// The low bits of a number.
    fn from_low(number: u64) -> Self;
}
impl Index for u32 {
    fn to_u64(self) -> u64 {
        self as u64
    }
    fn from_low(number: u64) -> u32 {
        number as u32
    }
}
impl Index for u64 {
    fn to_u64(self) -> u64 {
        self
    }
    fn from_low(number: u64) -> u64 {
        number
    }
}

fn config(items: u64) -> Result<LaunchConfig> {
    LaunchConfig::cover(
        items,
        tuning::MAP_THREADS as u64 * tuning::MAP_ITEMS as u64,
        tuning::MAP_THREADS,
    )
}

/// Sets every element of `output` to `value` (elements of 1, 2, 4, 8 or 16 bytes). One pass; allocates nothing.
pub fn fill<T: Element>(stream: &Stream, mut output: DeviceViewMut<'_, T>, value: T) -> Result<()> {
    let bytes = size_of::<T>();
    if !bytes.is_power_of_two() || bytes > 16 {
        return Err(crate::GpuError::Invalid(format!("fill of elements of {bytes} bytes")));
    }
    let mut words = [0u64; 2];
    // SAFETY: an element of at most 16 bytes, copied into 16.
    unsafe { std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), words.as_mut_ptr().cast(), bytes) };
    let kernel = stream
        .device()
        .load(&program(bits_type::<T>()))?
        .kernel::<FillParams>("fill")?;
    let params = FillParams {
        output: DevicePtrMut::new(output.ptr_mut().0),
        items: output.len(),
        value_low: words[0],
        value_high: words[1],
    };
    // SAFETY: the view covers `items` elements of the size that the program was made for.
    unsafe { kernel.launch(stream, &config(output.len())?, &params) }
}

/// Sets element `i` of `output` to `start + i`, wrapping. One pass; allocates nothing.
pub fn iota<T: Index>(stream: &Stream, mut output: DeviceViewMut<'_, T>, start: T) -> Result<()> {
    let kernel = stream
        .device()
        .load(&program(T::C_NAME))?
        .kernel::<IotaParams>("iota")?;
    let params = IotaParams {
        output: DevicePtrMut::new(output.ptr_mut().0),
        items: output.len(),
        start: start.to_u64(),
    };
    // SAFETY: the view covers `items` elements of the type that the program was made for.
    unsafe { kernel.launch(stream, &config(output.len())?, &params) }
}
