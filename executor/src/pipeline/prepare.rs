//! What a fragment needs before it can run, made by a thread of its own while the CPU answers: code is compiled, columns are
//! copied to the device.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock};

use super::compiled::Compiled;
use crate::device;

/// Fragments that wait. Further ones are prepared when they come again.
const WAITING_MAX: usize = 64;

static WAITING: LazyLock<Option<SyncSender<Arc<Compiled>>>> = LazyLock::new(|| {
    let (sender, fragments) = sync_channel(WAITING_MAX);
    let thread = std::thread::Builder::new().name("tenon-compile".into());
    match thread.spawn(move || prepare(&fragments)) {
        Ok(_) => Some(sender),
        Err(error) => {
            tracing::error!("nobody compiles for the GPU: {error}");
            None
        }
    }
});

/// Has a fragment prepared, unless that is under way.
pub fn in_background(fragment: Arc<Compiled>) {
    let Some(waiting) = &*WAITING else { return };
    if fragment.is_first()
        && let Err(TrySendError::Full(fragment) | TrySendError::Disconnected(fragment)) = waiting.try_send(fragment)
    {
        fragment.again();
    }
}

fn prepare(fragments: &Receiver<Arc<Compiled>>) {
    while let Ok(fragment) = fragments.recv() {
        let Ok(device) = device::shared() else { return };
        if let Err(error) = fragment.prepare(device) {
            device::failed(&error);
            tracing::debug!(%error, "a fragment is not prepared");
            if !error.is_out_of_memory() {
                fragment.refuse(&error);
            }
        }
        fragment.again();
    }
}
