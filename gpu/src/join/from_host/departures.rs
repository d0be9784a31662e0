//! Results on their way to the host.

use std::collections::VecDeque;

use crate::error::Result;
use crate::memory::{DeviceBuffer, Element, Joined, PinnedBuffer, device_to_host};
use crate::stream::{Event, Stream};

/// Results on their way at once.
const LEAVING_MAX: usize = 3;

/// Groups of `N` columns that leave one after the other.
pub(super) struct Departures<T, const N: usize> {
    /// Waited for first, on every way out.
    copies: Joined,
    leaving: VecDeque<Leaving<T, N>>,
}

struct Leaving<T, const N: usize> {
    host: [PinnedBuffer<T>; N],
    /// Read by the copies until `left`.
    device: [DeviceBuffer<T>; N],
    left: Event,
}

impl<T: Element, const N: usize> Departures<T, N> {
    pub fn new(work: &Stream) -> Result<Self> {
        Ok(Departures {
            copies: Joined(work.device().stream()?),
            leaving: VecDeque::new(),
        })
    }

    /// Starts the copies of columns that the work so far makes. Calls `emit` with what has arrived by then.
    pub fn send(
        &mut self,
        work: &Stream,
        device: [DeviceBuffer<T>; N],
        emit: &mut dyn FnMut([PinnedBuffer<T>; N]) -> Result<()>,
    ) -> Result<()> {
        let mut host = Vec::with_capacity(N);
        for column in &device {
            host.push(work.device().pinned::<T>(column.len())?);
        }
        let Ok(host) = <[PinnedBuffer<T>; N]>::try_from(host) else {
            return Ok(());
        };
        self.copies.0.wait_for_stream(work)?;
        let copied = device.iter().zip(&host).try_for_each(|(column, target)| {
            // SAFETY: both have the same length, and stay in `leaving` until the copies are done, or are kept by the
            // wait below.
            unsafe {
                device_to_host(
                    &self.copies.0,
                    target.address(),
                    column.ptr().0,
                    column.len() as usize * size_of::<T>(),
                )
            }
        });
        let left = match copied.and_then(|()| self.copies.0.record()) {
            Ok(left) => left,
            Err(error) => {
                self.copies.0.synchronize()?;
                return Err(error);
            }
        };
        self.leaving.push_back(Leaving { host, device, left });
        while self.leaving.len() > LEAVING_MAX {
            self.receive(emit)?;
        }
        Ok(())
    }

    /// Waits for the oldest.
    fn receive(&mut self, emit: &mut dyn FnMut([PinnedBuffer<T>; N]) -> Result<()>) -> Result<()> {
        let Some(oldest) = self.leaving.front() else {
            return Ok(());
        };
        oldest.left.synchronize()?;
        match self.leaving.pop_front() {
            Some(Leaving { host, device, .. }) => {
                drop(device);
                emit(host)
            }
            None => Ok(()),
        }
    }

    /// Waits for all.
    pub fn finish(mut self, emit: &mut dyn FnMut([PinnedBuffer<T>; N]) -> Result<()>) -> Result<()> {
        while !self.leaving.is_empty() {
            self.receive(emit)?;
        }
        Ok(())
    }
}
