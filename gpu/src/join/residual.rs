//! A condition on a pair of rows, beyond equal keys, compiled into the join's kernels.

use crate::compile::Program;
use crate::error::{GpuError, Result};
use crate::kernel_params;
use crate::memory::{DevicePtr, DevicePtrMut};

/// Buffers that a condition may read.
pub const RESIDUAL_BUFFERS_MAX: usize = 48;
/// Literals that a condition may have.
pub const RESIDUAL_LITERALS_MAX: usize = 32;

kernel_params! {
    /// What the generated condition reads: addresses of buffers, and bits of 64-bit literals. What it writes: that it
    /// failed on a pair.
    pub struct ResidualParams {
        buffers: [DevicePtr<u8>; RESIDUAL_BUFFERS_MAX],
        literals: [u64; RESIDUAL_LITERALS_MAX],
        failed: DevicePtrMut<u32>,
    }
}

impl ResidualParams {
    /// Nothing to read and nothing to write.
    pub fn none() -> ResidualParams {
        ResidualParams {
            buffers: [DevicePtr::null(); RESIDUAL_BUFFERS_MAX],
            literals: [0; RESIDUAL_LITERALS_MAX],
            failed: DevicePtrMut::null(),
        }
    }
}

/// A generated condition.
///
/// Its body is C++ that sees `const ResidualParams& p`, `u32 build_row`, `u32 probe_row`, and returns a `bool`: true only
/// where SQL's condition is true, neither false nor null. Literals are parameters, so that one compiled shape serves
/// many queries.
#[derive(Clone, Debug, Default)]
pub struct Residual {
    body: String,
    functions: String,
    buffers: Vec<DevicePtr<u8>>,
    literals: Vec<u64>,
    failed: Option<DevicePtrMut<u32>>,
}

impl Residual {
    /// A condition that reads `buffers` and `literals`, by functions that its body calls. `failed` is where `p.fail()`
    /// writes a 1.
    ///
    /// # Safety
    /// The body reads nothing but its arguments, within `buffers` for every pair of rows of the joins that it is given to,
    /// and writes nothing but by `p.fail()`, for which `failed` is there. The buffers and `failed` are kept until the
    /// streams of those joins have passed their kernels, and nobody else writes to them meanwhile.
    pub unsafe fn new(
        body: impl Into<String>,
        functions: impl Into<String>,
        buffers: Vec<DevicePtr<u8>>,
        literals: Vec<u64>,
        failed: Option<DevicePtrMut<u32>>,
    ) -> Residual {
        Residual {
            body: body.into(),
            functions: functions.into(),
            buffers,
            literals,
            failed,
        }
    }

    /// A condition to compile programs with, and never to launch one: it has no buffers.
    pub(in crate::join) fn to_compile() -> Residual {
        Residual {
            body: "return p.value<u32>(0, build_row) <= p.value<u32>(1, probe_row);".into(),
            ..Residual::default()
        }
    }

    /// Every pair fulfils it.
    pub fn none() -> Residual {
        Residual {
            body: "return true;".into(),
            ..Residual::default()
        }
    }

    pub fn is_none(&self) -> bool {
        self.body == "return true;"
    }

    /// The program with this condition: a header `residual.cuh`, and `HAS_RESIDUAL` 0 or 1.
    pub fn into_program(&self, program: Program) -> Program {
        let text = format!(
            "#pragma once\n{}\nTENON_DEVICE bool residual(const ResidualParams& p, u32 build_row, u32 probe_row) {{\n    \
             {}\n}}\n",
            self.functions, self.body
        );
        program
            .define("HAS_RESIDUAL", u8::from(!self.is_none()))
            .header("residual.cuh", text)
    }

    /// The parameters for its kernels.
    pub fn params(&self) -> Result<ResidualParams> {
        if self.buffers.len() > RESIDUAL_BUFFERS_MAX || self.literals.len() > RESIDUAL_LITERALS_MAX {
            return Err(GpuError::Invalid(format!(
                "a join condition over {} buffers and {} literals; at most {RESIDUAL_BUFFERS_MAX} and \
                 {RESIDUAL_LITERALS_MAX}",
                self.buffers.len(),
                self.literals.len()
            )));
        }
        let mut params = ResidualParams {
            failed: self.failed.unwrap_or_else(DevicePtrMut::null),
            ..ResidualParams::none()
        };
        params.buffers[..self.buffers.len()].copy_from_slice(&self.buffers);
        params.literals[..self.literals.len()].copy_from_slice(&self.literals);
        Ok(params)
    }
}
