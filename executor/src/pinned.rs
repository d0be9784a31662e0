//! Tables' memory registered with the device, so that copies from it run at the bus's rate: in the background, as regions
//! come, on a thread of its own. Copies from what is not registered yet, or was refused, are slower.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};
use tenon_gpu::{Device, DeviceKind};
use tenon_storage::arena::RegionObserver;

use crate::device;

/// Regions by their start.
#[derive(Default)]
struct Regions {
    known: HashMap<usize, Region>,
    /// Starts of those that wait.
    waiting: Vec<usize>,
    /// There is no GPU to register anything with.
    off: bool,
}

struct Region {
    bytes: usize,
    state: RegistrationState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RegistrationState {
    Waiting,
    /// The thread is at it.
    Registering,
    Registered,
    Refused,
}

/// Registers the regions that it is told of.
pub struct Pinned {
    regions: Mutex<Regions>,
    changed: Condvar,
    refused: OnceLock<()>,
}

impl Pinned {
    /// Starts the thread; it ends at once where there is no GPU.
    pub fn start() -> Arc<Pinned> {
        let pinned = Arc::new(Pinned {
            regions: Mutex::default(),
            changed: Condvar::new(),
            refused: OnceLock::new(),
        });
        let own = Arc::downgrade(&pinned);
        let run = move || {
            let device = device::shared().ok();
            let Some(device) = device.filter(|device| device.info().kind == DeviceKind::Cuda) else {
                if let Some(pinned) = own.upgrade() {
                    *pinned.regions.lock() = Regions {
                        off: true,
                        ..Regions::default()
                    };
                }
                return;
            };
            while let Some(pinned) = own.upgrade() {
                pinned.register_next(device);
            }
        };
        let spawned = std::thread::Builder::new().name("pin".into()).spawn(run);
        if let Err(error) = spawned {
            tracing::warn!("no thread to register memory with the GPU: {error}");
        }
        pinned
    }

    /// Bytes that are registered now.
    pub fn bytes(&self) -> usize {
        let regions = self.regions.lock();
        let registered = regions
            .known
            .values()
            .filter(|region| region.state == RegistrationState::Registered);
        registered.map(|region| region.bytes).sum()
    }

    fn register_next(&self, device: &Device) {
        let (start, bytes) = {
            let mut regions = self.regions.lock();
            let Some(start) = regions.waiting.pop() else {
                self.changed
                    .wait_for(&mut regions, std::time::Duration::from_millis(500));
                return;
            };
            let Some(region) = regions.known.get_mut(&start) else {
                return;
            };
            region.state = RegistrationState::Registering;
            (start, region.bytes)
        };
        // SAFETY: the region is mapped until `removed`, which waits while it is being registered and unregisters it.
        let registered = unsafe { device.register_host(start as *mut u8, bytes) };
        let state = match registered {
            Ok(()) => RegistrationState::Registered,
            Err(error) => {
                if self.refused.set(()).is_ok() {
                    tracing::warn!("tables' memory is not registered with the GPU, copies from it are slower: {error}");
                }
                RegistrationState::Refused
            }
        };
        if let Some(region) = self.regions.lock().known.get_mut(&start) {
            region.state = state;
        }
        self.changed.notify_all();
    }
}

impl RegionObserver for Pinned {
    fn added(&self, start: NonNull<u8>, bytes: usize) {
        let start = start.as_ptr() as usize;
        let mut regions = self.regions.lock();
        if regions.off {
            return;
        }
        let state = RegistrationState::Waiting;
        regions.known.insert(start, Region { bytes, state });
        regions.waiting.push(start);
        self.changed.notify_all();
    }

    fn removed(&self, start: NonNull<u8>, _: usize) {
        let at = start.as_ptr() as usize;
        let mut regions = self.regions.lock();
        if regions.off {
            return;
        }
        while regions
            .known
            .get(&at)
            .is_some_and(|region| region.state == RegistrationState::Registering)
        {
            self.changed.wait(&mut regions);
        }
        regions.waiting.retain(|waiting| *waiting != at);
        let removed = regions.known.remove(&at);
        drop(regions);
        if removed.is_some_and(|region| region.state == RegistrationState::Registered)
            && let Ok(device) = device::shared()
            // SAFETY: copies from a region hold its buffers, of which none is left.
            && let Err(error) = unsafe { device.unregister_host(start.as_ptr()) }
        {
            tracing::warn!(%error, "unregistering tables' memory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use tenon_gpu::DeviceConfig;

    #[test]
    fn regions_are_registered_in_turn_and_given_back() {
        let device = Device::open(DeviceKind::Sim, DeviceConfig::default()).unwrap();
        let pinned = Pinned {
            regions: Mutex::default(),
            changed: Condvar::new(),
            refused: OnceLock::new(),
        };
        let layout = Layout::from_size_align(1 << 20, 4096).unwrap();
        // SAFETY: the layout's size is not zero.
        let starts: Vec<NonNull<u8>> = (0..3)
            .map(|_| NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap())
            .collect();
        for start in &starts {
            pinned.added(*start, layout.size());
        }
        assert_eq!(pinned.bytes(), 0);
        pinned.removed(starts[2], layout.size());
        pinned.register_next(&device);
        pinned.register_next(&device);
        assert_eq!(pinned.bytes(), 2 * layout.size());
        pinned.removed(starts[0], layout.size());
        assert_eq!(pinned.bytes(), layout.size());
        // SAFETY: allocated above with this layout; the device outlives nothing that reads them.
        starts
            .iter()
            .for_each(|start| unsafe { dealloc(start.as_ptr(), layout) });
    }
}
