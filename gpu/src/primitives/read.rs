//! Reading a few numbers of device memory.

use super::expression::Expression;
use super::map::map;
use crate::error::Result;
use crate::memory::{DeviceView, DeviceViewMut, Element};
use crate::stream::Stream;

/// The elements, few of them. Waits for all work of the stream so far, as [`Stream::download`] does.
///
/// A kernel writes them to pinned memory. A copy, however small, would wait for its turn at the copy engine behind
/// megabytes of other streams' results on their way out: in a pipeline that is a whole chunk's time.
pub fn read<T: Element>(stream: &Stream, source: DeviceView<'_, T>) -> Result<Vec<T>> {
    let Ok(target) = stream.device().pinned::<T>(source.len()) else {
        return stream.download(source);
    };
    let output = DeviceViewMut::<T>::new(target.address() as u64, source.len());
    map(stream, source, output, COPY, &[])?;
    stream.synchronize()?;
    Ok(target.to_vec())
}

/// The expression that leaves a number as it is.
// SAFETY: it reads its argument.
pub(super) const COPY: Expression<'static> = unsafe { Expression::new("x") };
