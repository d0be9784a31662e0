//! Errors of devices, and of the operators beside them on the CPU, as DataFusion's, and the other way round.

use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use tenon_gpu::GpuError;

/// Out of memory stays what it is; the rest is a failure of the execution.
pub fn to_datafusion(error: GpuError) -> DataFusionError {
    if error.is_out_of_memory() {
        DataFusionError::ResourcesExhausted(error.to_string())
    } else {
        DataFusionError::External(Box::new(error))
    }
}

/// Adds host memory to a reservation on behalf of the device.
pub fn reserve_host(reservation: &MemoryReservation, bytes: usize) -> Result<(), GpuError> {
    let grown = reservation.try_grow(bytes);
    grown.map_err(|error| GpuError::OutOfHostMemory(error.to_string()))
}
