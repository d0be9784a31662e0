//! Tables whose columns are to be in device memory, or never: what `ALTER TABLE ... SET (tenon.device = ...)` asks for.
//!
//! Columns of resident tables are loaded by a thread of their own when that is said, and when a statement reads a version of
//! the table whose columns are not there. They take the place of other cached columns; working memory of queries takes
//! theirs, after all others.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};

use tenon_storage::{DeviceResidence, TableVersion};

use super::columns::{forget, give_up_unused, is_there, table_columns, table_tiles};
use super::stored::{Stored, bytes};
use crate::device;

/// Tables that wait. Further ones are loaded when a statement reads them.
const WAITING_MAX: usize = 64;

static WAITING: LazyLock<Option<SyncSender<Arc<TableVersion>>>> = LazyLock::new(|| {
    let (sender, tables) = sync_channel(WAITING_MAX);
    let thread = std::thread::Builder::new().name("tenon-resident".into());
    match thread.spawn(move || load(&tables)) {
        Ok(_) => Some(sender),
        Err(error) => {
            tracing::error!("nobody loads resident tables: {error}");
            None
        }
    }
});

/// Does what a table's parameter asks for.
pub fn reside(table: &Arc<TableVersion>) {
    match table.definition().device {
        Some(DeviceResidence::Resident) => {
            if absent(table).next().is_some()
                && let Some(waiting) = &*WAITING
            {
                // Where too many wait, the next statement asks again.
                let _ = waiting.try_send(Arc::clone(table));
            }
        }
        Some(DeviceResidence::Never) => forget(table),
        _ => {}
    }
}

/// Columns that the device can take and does not have.
fn absent(table: &Arc<TableVersion>) -> impl Iterator<Item = usize> {
    let columns = 0..table.schema().fields().len();
    columns.filter(|&column| !is_there(table, column) && Stored::of(table, column).is_ok())
}

fn load(tables: &Receiver<Arc<TableVersion>>) {
    while let Ok(table) = tables.recv() {
        if let Err(error) = load_all(&table) {
            tracing::debug!(%error, table = table.name(), "a resident table is not loaded");
        }
    }
}

fn load_all(table: &Arc<TableVersion>) -> tenon_gpu::Result<()> {
    let device = device::shared().map_err(|why| tenon_gpu::GpuError::NoDevice(why.into()))?;
    let stream = device.stream()?;
    table_tiles(&stream, table)?;
    let mut columns: Vec<usize> = vec![];
    let mut needed = 0;
    'columns: for column in absent(table) {
        needed += bytes(table, column);
        // What other resident tables have is not taken from them.
        while device.pool().available() < needed {
            if !give_up_unused() {
                break 'columns;
            }
        }
        columns.push(column);
    }
    table_columns(&stream, table, &columns).map(drop)
}
