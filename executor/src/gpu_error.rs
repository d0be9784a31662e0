//! Errors of devices, and of their twins on the CPU, as DataFusion's.

use datafusion::error::DataFusionError;
use tenon_gpu::GpuError;

/// Out of memory stays what it is; the rest is a failure of the execution.
pub fn to_datafusion(error: GpuError) -> DataFusionError {
    if error.is_out_of_memory() {
        DataFusionError::ResourcesExhausted(error.to_string())
    } else {
        DataFusionError::External(Box::new(error))
    }
}
