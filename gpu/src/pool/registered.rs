//! Memory of others that was registered with the device, such as the regions of tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::backend::Backend;
use crate::error::Result;

/// Registered ranges, by start.
pub(crate) struct Registered {
    backend: Arc<dyn Backend>,
    ranges: RwLock<BTreeMap<usize, usize>>,
}

impl Registered {
    pub fn new(backend: Arc<dyn Backend>) -> Registered {
        Registered {
            backend,
            ranges: RwLock::default(),
        }
    }

    /// # Safety
    /// The range is mapped and stays so until `remove`.
    pub unsafe fn add(&self, start: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.backend.host_register(start, bytes) }?;
        self.ranges.write().insert(start as usize, bytes);
        Ok(())
    }

    /// Forgets the range; nothing happens if it was not added.
    ///
    /// # Safety
    /// No copy from or to the range is under way.
    pub unsafe fn remove(&self, start: *mut u8) -> Result<()> {
        match self.ranges.write().remove(&(start as usize)) {
            // SAFETY: it was registered by `add`.
            Some(_) => unsafe { self.backend.host_unregister(start) },
            None => Ok(()),
        }
    }

    /// Whether the whole range is registered, so that copies need no staging.
    pub fn contains(&self, start: *const u8, bytes: usize) -> bool {
        let ranges = self.ranges.read();
        let candidate = ranges.range(..=start as usize).next_back();
        candidate.is_some_and(|(&from, &len)| start as usize + bytes <= from + len)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        for (start, _) in std::mem::take(self.ranges.get_mut()) {
            // SAFETY: registered by `add`; the device is closing, so no copy is under way.
            if let Err(error) = unsafe { self.backend.host_unregister(start as *mut u8) } {
                tracing::warn!(%error, "unregistering host memory");
            }
        }
    }
}
