//! A join's filter as C++ for the kernels that find pairs (`crate::codegen`): what reads one side alone is evaluated on the
//! host, what reads both is translated. What has no device form stays on the host as a whole, with the reason.

use arrow::array::{ArrayRef, new_empty_array};
use arrow::buffer::Buffer;
use datafusion::common::JoinSide;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use tenon_gpu::join::{RESIDUAL_BUFFERS_MAX, RESIDUAL_LITERALS_MAX, Residual};
use tenon_gpu::memory::{DeviceBuffer, DevicePtr, DevicePtrMut};
use tenon_gpu::{Result as GpuResult, Stream};

use crate::codegen::{FUNCTIONS, Inputs, Translated, Translator};

/// A filter that the device can test.
pub struct CompiledFilter {
    pub(super) body: String,
    pub(super) literals: Vec<u64>,
    pub(super) buffers: Vec<Buffer>,
    /// Whether the body may find that it has no value.
    pub(super) fails: bool,
    /// Bytes of columns that were made for the device.
    made_bytes: usize,
}

impl CompiledFilter {
    /// Translates a filter over these columns. `build` is the side that the kernels call the build side. The error says
    /// why it cannot be.
    pub fn of<'a>(
        filter: &JoinFilter,
        build: JoinSide,
        columns: impl Fn(JoinSide, usize) -> Option<&'a ArrayRef>,
    ) -> Translated<Self> {
        let column = |index: &ColumnIndex| {
            let column = columns(index.side, index.index).ok_or("a column that is not there")?;
            Ok((ArrayRef::clone(column), index.side))
        };
        let arrays = filter.column_indices().iter().map(column).collect::<Translated<_>>()?;
        let inputs = Inputs::Sides { arrays, build };
        let mut translator = Translator::new(filter.schema().clone(), inputs);
        let result = translator.boolean(filter.expression())?;
        let body = format!("{}return {};", translator.lines, result.is_true());
        if translator.buffers.len() > RESIDUAL_BUFFERS_MAX || translator.literals.len() > RESIDUAL_LITERALS_MAX {
            return Err("a condition of too many columns and literals".into());
        }
        Ok(Self {
            body,
            literals: translator.literals,
            buffers: translator.buffers,
            fails: translator.fails,
            made_bytes: translator.made_bytes,
        })
    }

    /// Why the device cannot test a filter, as far as its types tell.
    pub fn refusal(filter: &JoinFilter) -> Option<String> {
        let fields = filter.schema().fields();
        let empty: Vec<ArrayRef> = fields.iter().map(|field| new_empty_array(field.data_type())).collect();
        let at = |side, index| {
            let is = |column: &ColumnIndex| column.side == side && column.index == index;
            empty.get(filter.column_indices().iter().position(is)?)
        };
        Self::of(filter, JoinSide::Left, at).err()
    }

    /// Bytes that go to the device.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.len() as u64).sum()
    }

    /// Bytes of host memory that the filter holds beside the columns of the join.
    pub fn made_bytes(&self) -> usize {
        self.made_bytes
    }

    pub fn upload(&self, stream: &Stream, bytes: &mut u64) -> GpuResult<Uploaded> {
        *bytes += self.bytes();
        let inputs = self.buffers.iter().map(|buffer| stream.upload(buffer.as_slice()));
        Ok(Uploaded {
            inputs: inputs.collect::<GpuResult<_>>()?,
            failed: match self.fails {
                true => Some(stream.alloc_zeroed(1)?),
                false => None,
            },
        })
    }

    /// The condition over what `upload` gave.
    ///
    /// # Safety
    /// `uploaded` is this filter's, and is kept until the stream has passed the kernels of the join, whose sides are those
    /// that the filter was translated for.
    pub unsafe fn residual(&self, uploaded: &mut Uploaded) -> Residual {
        let inputs = uploaded.inputs.iter();
        let buffers = inputs.map(|input| DevicePtr::new(input.ptr().0)).collect();
        let failed = uploaded.failed.as_mut().map(|flag| DevicePtrMut::new(flag.ptr_mut().0));
        // SAFETY: the translator reads within the columns for all rows of the sides, and calls `fail` where it says so;
        // the rest is the caller's promise.
        unsafe { Residual::new(&self.body, FUNCTIONS, buffers, self.literals.clone(), failed) }
    }
}

/// A filter's inputs in device memory, and its flag.
pub struct Uploaded {
    inputs: Vec<DeviceBuffer<u8>>,
    failed: Option<DeviceBuffer<u32>>,
}

impl Uploaded {
    /// Whether the condition had no value on some pair.
    pub fn has_failed(&self, stream: &Stream) -> GpuResult<bool> {
        match &self.failed {
            Some(flag) => Ok(stream.download(flag.view())?.first() != Some(&0)),
            None => Ok(false),
        }
    }
}
