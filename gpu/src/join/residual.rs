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
/// `body` is C++ that sees `const ResidualParams& p`, `u32 build_row`, `u32 probe_row`, and returns a `bool`: true only
/// where SQL's condition is true, neither false nor null. Literals are parameters, so that one compiled shape serves
/// many queries. The caller keeps the buffers alive, and answers for their lengths.
#[derive(Clone, Debug, Default)]
pub struct Residual {
    pub body: String,
    /// Functions that the body calls.
    pub functions: String,
    pub buffers: Vec<DevicePtr<u8>>,
    pub literals: Vec<u64>,
    /// Where `p.fail()` writes a 1; a body that calls it needs one.
    pub failed: Option<DevicePtrMut<u32>>,
}

impl Residual {
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
