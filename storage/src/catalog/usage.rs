//! How a table has been read and changed since the process began: for `pg_stat_user_tables`. All versions of it count together,
//! what is rolled back too.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Counters of one table.
#[derive(Debug, Default)]
pub struct TableUsage {
    scans: AtomicU64,
    scanned_rows: AtomicU64,
    index_scans: AtomicU64,
    index_rows: AtomicU64,
    inserted: AtomicU64,
    updated: AtomicU64,
    deleted: AtomicU64,
    analyzed: AtomicU64,
    /// Microseconds since 1970; 0: never.
    analyzed_us: AtomicI64,
    /// Changes when it was last analyzed.
    changes_analyzed: AtomicU64,
    /// Whether anybody knows addresses of its rows.
    addressed: AtomicBool,
}

/// The same as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableUses {
    pub scans: u64,
    pub scanned_rows: u64,
    pub index_scans: u64,
    pub index_rows: u64,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    pub analyzed: u64,
    pub analyzed_us: Option<i64>,
    /// Rows added, changed and removed since it was last analyzed.
    pub changed_since: u64,
}

impl TableUsage {
    /// A scan begins, of which it is not known yet how many rows it looks at.
    pub fn scan(&self) {
        self.scans.fetch_add(1, Ordering::Relaxed);
    }

    pub fn scanned(&self, rows: usize) {
        self.scanned_rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Somebody asks for the addresses of rows, who may come back with them: rows that move keep theirs from here on.
    pub fn ask_addresses(&self) {
        self.addressed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_addressed(&self) -> bool {
        self.addressed.load(Ordering::Relaxed)
    }

    /// So many look-ups in an index have found so many rows.
    pub fn looked_up(&self, scans: usize, rows: usize) {
        self.index_scans.fetch_add(scans as u64, Ordering::Relaxed);
        self.index_rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// A statement has taken out and added so many rows: the one with the other is an update.
    pub(crate) fn changed(&self, removed: u64, added: u64) {
        let updated = removed.min(added);
        self.updated.fetch_add(updated, Ordering::Relaxed);
        self.deleted.fetch_add(removed - updated, Ordering::Relaxed);
        self.inserted.fetch_add(added - updated, Ordering::Relaxed);
    }

    /// ANALYZE has read it, at this time.
    pub fn analyzed(&self, now_us: i64) {
        self.analyzed.fetch_add(1, Ordering::Relaxed);
        self.analyzed_us.store(now_us, Ordering::Relaxed);
        self.changes_analyzed.store(self.changes(), Ordering::Relaxed);
    }

    fn changes(&self) -> u64 {
        let all = [&self.inserted, &self.updated, &self.deleted];
        all.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    pub fn get(&self) -> TableUses {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TableUses {
            scans: get(&self.scans),
            scanned_rows: get(&self.scanned_rows),
            index_scans: get(&self.index_scans),
            index_rows: get(&self.index_rows),
            inserted: get(&self.inserted),
            updated: get(&self.updated),
            deleted: get(&self.deleted),
            analyzed: get(&self.analyzed),
            analyzed_us: Some(self.analyzed_us.load(Ordering::Relaxed)).filter(|us| *us != 0),
            changed_since: self.changes().saturating_sub(get(&self.changes_analyzed)),
        }
    }
}
