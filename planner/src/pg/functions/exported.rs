//! Snapshots that transactions have handed on to others: `pg_export_snapshot`, and SET TRANSACTION SNAPSHOT.

use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use tenon_storage::{DatabaseState, Transaction};

type Open = Weak<Mutex<Transaction>>;

/// Those of all sessions: each is there as long as the transaction that it is of.
#[derive(Debug, Default)]
pub(crate) struct Exported(Mutex<Snapshots>);

#[derive(Default)]
struct Snapshots {
    given: u64,
    open: Vec<(String, Open, Arc<DatabaseState>)>,
}

impl std::fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Snapshots")
    }
}

impl Exported {
    /// What a transaction began with, without its own changes, under a new name.
    fn add(&self, of: &Open) -> Option<String> {
        let transaction = of.upgrade()?;
        let base = transaction.lock().base().clone();
        let mut own = self.0.lock();
        own.open.retain(|(_, of, _)| of.strong_count() > 0);
        own.given += 1;
        let name = format!("{:08X}-{:08X}-1", own.given >> 32, own.given & u64::from(u32::MAX));
        own.open.push((name.clone(), of.clone(), base));
        Some(name)
    }

    /// The snapshot of a name, while the transaction is open that has given it.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<DatabaseState>> {
        let own = self.0.lock();
        let mut open = own.open.iter().filter(|(_, of, _)| of.strong_count() > 0);
        let (_, _, state) = open.find(|(own, ..)| own == name)?;
        Some(state.clone())
    }
}

/// What a statement's transaction exports its snapshot by.
#[derive(Debug)]
pub(crate) struct Exporter {
    pub exported: Arc<Exported>,
    pub transaction: Open,
}

impl Exporter {
    pub(crate) fn export(&self) -> Option<String> {
        self.exported.add(&self.transaction)
    }
}
