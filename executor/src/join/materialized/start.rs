//! The start of a join: with the CPU's operator made ready, or with the first pairs of the device, whose thread goes on
//! while the partitions work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::common::Result;
use tenon_cpu::Stop;
use tenon_storage::heap;

use super::account::Account;
use super::chunks::End;
use super::join::{MaterializedJoin, Setting};
use super::on_device::Gpu;
use crate::device;
use crate::join::listeners::Listeners;
use crate::offload::{CancelOnDrop, on_a_thread};

/// Returns when threads of the partitions have something to do. The device's thread ends soon after this future is
/// dropped, and after the last of the listeners is.
///
/// The device's thread runs before threads of its partitions are asked for, so that those which wait for it never hold
/// the place that it needs.
pub async fn start(
    join: MaterializedJoin,
    setting: Setting,
    account: Account,
    listeners: &Listeners,
) -> Result<Arc<MaterializedJoin>> {
    let device = if setting.choice.path.on_gpu {
        device::shared().ok()
    } else {
        None
    };
    let Some(device) = device else {
        let find = move |cancelled: &_| {
            join.find(&setting.choice, None, Stop::when(cancelled))?;
            join.chunks.end(End::Done);
            Ok(Arc::new(join))
        };
        return on_a_thread(find).await;
    };
    let join = Arc::new(join);
    let (guard, cancelled) = CancelOnDrop::new();
    let driven = Arc::clone(&join);
    tokio::task::spawn_blocking(heap::carry(move || {
        let find = || -> Result<()> {
            let gpu = Gpu {
                device,
                memory_bytes: setting.memory_bytes,
                may_spill: setting.may_spill,
                seconds: setting.choice.seconds,
                cancelled: &cancelled,
            };
            let outcome = driven.find(&setting.choice, Some(gpu), Stop::when(&cancelled))?;
            if let Some(outcome) = outcome {
                account.note(&outcome);
            }
            Ok(())
        };
        driven.chunks.end(match catch_unwind(AssertUnwindSafe(find)) {
            Ok(Ok(())) => End::Done,
            Ok(Err(error)) => End::Failed(Arc::new(error)),
            Err(payload) => End::Panicked(Some(payload)),
        });
    }));
    join.chunks.begun().await;
    listeners.keep(guard);
    Ok(join)
}
