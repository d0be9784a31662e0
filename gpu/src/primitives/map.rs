//! Map: an expression applied to every element (He 2008, section 3.1.1).
//!
//! The expression is C++ source of the caller, and becomes a device function of one compiled program.
//! Literals are parameters, so that one compiled shape serves many queries.

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut, Element};
use crate::primitives::expression::Expression;
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

/// Literals that a map may have.
pub const LITERALS_MAX: usize = 8;

kernel_params! {
    /// `items` elements in and out; literals are the bits of 64-bit values.
    struct MapParams {
        input: DevicePtr<u8>,
        output: DevicePtrMut<u8>,
        items: u64,
        literals: [u64; LITERALS_MAX],
    }
}

static SOURCE: Source = source!("map.cu", MapParams);

/// The program that computes `expression`, of type `output_type`, over `x` of `input_type`; `literal<T>(i)` is the
/// `i`-th literal.
fn program(input_type: &str, output_type: &str, expression: Expression<'_>) -> Program {
    let text = format!(
        "template <class Literals>\nTENON_DEVICE Output expression(Input x, const Literals& literal) {{\n    return {expression};\n}}\n"
    );
    Program::new(&SOURCE)
        .define("Input", input_type)
        .define("Output", output_type)
        .header("expression.cuh", text)
}

/// Examples of each shape, for the compile test.
pub fn programs() -> Vec<Program> {
    // SAFETY: they read `x` and a literal.
    let of = |input, output, text| program(input, output, unsafe { Expression::new(text) });
    vec![
        of("u32", "u32", "x + 1u"),
        of("i64", "f64", "(f64)x * literal.template get<f64>(0)"),
        of("u128", "u64", "(u64)(x >> 64)"),
        program("u32", "u32", super::read::COPY),
        program("u64", "u64", super::read::COPY),
    ]
}

/// Sets `output[i]` to the expression of `input[i]`. Same length. One pass; allocates nothing.
///
/// The expression sees `x`, and literal `i` of type `L` as `literal.template get<L>(i)`.
pub fn map<A: Element, B: Element>(
    stream: &Stream,
    input: DeviceView<'_, A>,
    mut output: DeviceViewMut<'_, B>,
    expression: Expression<'_>,
    literals: &[u64],
) -> Result<()> {
    if input.len() != output.len() {
        return Err(GpuError::Invalid(format!(
            "map of {} elements into {}",
            input.len(),
            output.len()
        )));
    }
    if literals.len() > LITERALS_MAX {
        return Err(GpuError::Invalid(format!(
            "map with {} literals, at most {LITERALS_MAX}",
            literals.len()
        )));
    }
    let mut params = MapParams {
        input: DevicePtr::new(input.ptr().0),
        output: DevicePtrMut::new(output.ptr_mut().0),
        items: input.len(),
        literals: [0; LITERALS_MAX],
    };
    params.literals[..literals.len()].copy_from_slice(literals);
    let kernel = stream
        .device()
        .load(&program(A::C_NAME, B::C_NAME, expression))?
        .kernel::<MapParams>("map")?;
    let width = size_of::<A>().max(size_of::<B>()) as u64;
    let tile = tuning::MAP_THREADS as u64 * tuning::MAP_PACKS as u64 * (16 / width).max(1);
    let config = LaunchConfig::cover(input.len(), tile, tuning::MAP_THREADS)?;
    // SAFETY: both views cover `items` elements of the types that the program was made for.
    unsafe { kernel.launch(stream, &config, &params) }
}
