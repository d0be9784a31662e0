//! Locks on whole tables: PostgreSQL's eight modes (its documentation, section 13.3.1). Who reads takes none: a snapshot stays
//! as it is.
//!
//! Who wants a table waits for those who hold it in a mode that goes not with its own, and behind those who have waited for
//! it longer: else a stream of writers would hold off who wants it alone for ever.

use super::{Holder, Locks, Owner, Wait};
use crate::error::Result;
use std::sync::{Arc, Weak};

/// How a table is locked, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableLock {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

impl TableLock {
    /// A bit for each mode that another transaction may not hold beside this one.
    fn conflicts(self) -> u8 {
        match self {
            TableLock::AccessShare => 0b1000_0000,
            TableLock::RowShare => 0b1100_0000,
            TableLock::RowExclusive => 0b1111_0000,
            TableLock::ShareUpdateExclusive => 0b1111_1000,
            TableLock::Share => 0b1110_1100,
            TableLock::ShareRowExclusive => 0b1111_1100,
            TableLock::Exclusive => 0b1111_1110,
            TableLock::AccessExclusive => 0b1111_1111,
        }
    }

    /// Whether two transactions may hold both.
    fn goes_with(self, other: TableLock) -> bool {
        self.conflicts() >> other as u8 & 1 == 0
    }

    /// Whether who holds this has all that the other gives.
    fn covers(self, other: TableLock) -> bool {
        other.conflicts() & !self.conflicts() == 0
    }

    /// As `pg_locks` says it.
    pub fn name(self) -> &'static str {
        match self {
            TableLock::AccessShare => "AccessShareLock",
            TableLock::RowShare => "RowShareLock",
            TableLock::RowExclusive => "RowExclusiveLock",
            TableLock::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            TableLock::Share => "ShareLock",
            TableLock::ShareRowExclusive => "ShareRowExclusiveLock",
            TableLock::Exclusive => "ExclusiveLock",
            TableLock::AccessExclusive => "AccessExclusiveLock",
        }
    }
}

/// Who holds a table, and who waits for it, in their order.
#[derive(Debug, Default)]
pub(super) struct OfTable {
    held: Vec<(TableLock, Arc<Owner>)>,
    wanted: Vec<(TableLock, Weak<Owner>)>,
}

/// Who is in the way.
enum Blocker {
    Holds(Arc<Owner>),
    /// It waits for the table itself, and came before.
    Waits(Arc<Owner>),
}

impl OfTable {
    /// Whose end is to be waited for before `own` has the table in this mode.
    fn blocker(&self, own: &Arc<Owner>, mode: TableLock) -> Option<Blocker> {
        let own_modes = || self.held.iter().filter(|(_, owner)| Arc::ptr_eq(owner, own));
        // What it has it may have again.
        if own_modes().any(|(held, _)| held.covers(mode)) {
            return None;
        }
        let held = self.held.iter();
        let mut held = held.filter(|(held, owner)| !Arc::ptr_eq(owner, own) && !held.goes_with(mode));
        if let Some((_, owner)) = held.next() {
            return Some(Blocker::Holds(owner.clone()));
        }
        // Who has a part of the table passes those who wait: they wait for its end.
        if own_modes().next().is_some() {
            return None;
        }
        let before = self.wanted.iter().map(|(mode, owner)| (mode, owner.upgrade()));
        let before = before.take_while(|(_, owner)| owner.as_ref().is_none_or(|owner| !Arc::ptr_eq(owner, own)));
        let mut before = before.filter_map(|(wanted, owner)| owner.filter(|_| !wanted.goes_with(mode)));
        before.next().map(Blocker::Waits)
    }

    fn wait(&mut self, own: &Arc<Owner>, mode: TableLock) {
        let own = Arc::downgrade(own);
        if !self.wanted.iter().any(|(_, owner)| owner.ptr_eq(&own)) {
            self.wanted.push((mode, own));
        }
    }

    fn take(&mut self, own: &Arc<Owner>, mode: TableLock) {
        self.give_up(own);
        if !self
            .held
            .iter()
            .any(|(held, owner)| *held == mode && Arc::ptr_eq(owner, own))
        {
            self.held.push((mode, own.clone()));
        }
    }

    /// Waits for it no longer.
    pub(super) fn give_up(&mut self, own: &Arc<Owner>) {
        let own = Arc::downgrade(own);
        self.wanted
            .retain(|(_, owner)| !owner.ptr_eq(&own) && owner.strong_count() > 0);
    }

    /// Whether nobody holds it or waits for it when this one has ended.
    pub(super) fn without(&mut self, own: &Arc<Owner>) -> bool {
        self.held.retain(|(_, owner)| !Arc::ptr_eq(owner, own));
        self.give_up(own);
        self.held.is_empty() && self.wanted.is_empty()
    }
}

impl Holder {
    /// Locks a table; gives whom to wait for first. An error: that would never end.
    pub fn lock_table(&self, table: u32, mode: TableLock) -> Result<Option<Wait>> {
        let held = &mut *self.locks.0.lock();
        self.owner.tables.lock().insert(table);
        let blocker = held.tables.entry(table).or_default().blocker(&self.owner, mode);
        let wait = match blocker {
            None => None,
            Some(Blocker::Holds(owner)) => Some(self.wait_for(held, owner)?),
            // Those who wait are passed where they could not go on otherwise.
            Some(Blocker::Waits(owner)) => self.wait_for(held, owner).ok(),
        };
        let of = held.tables.entry(table).or_default();
        match wait {
            Some(_) => of.wait(&self.owner, mode),
            None => of.take(&self.owner, mode),
        }
        Ok(wait)
    }

    /// The same without waiting. False: it is not to be had now.
    pub fn try_lock_table(&self, table: u32, mode: TableLock) -> bool {
        let held = &mut *self.locks.0.lock();
        let of = held.tables.entry(table).or_default();
        self.owner.tables.lock().insert(table);
        let free = of.blocker(&self.owner, mode).is_none();
        if free {
            of.take(&self.owner, mode);
        }
        free
    }

    /// Waits for a table no longer.
    pub fn give_up_table(&self, table: u32) {
        if let Some(of) = self.locks.0.lock().tables.get_mut(&table) {
            of.give_up(&self.owner);
        }
    }
}

/// A lock on a table, or the wait for one, as `pg_locks` shows it.
#[derive(Clone, Copy, Debug)]
pub struct LockedTable {
    pub table: u32,
    pub mode: TableLock,
    pub process: i32,
    pub granted: bool,
}

impl Locks {
    pub fn of_tables(&self) -> Vec<LockedTable> {
        let held = self.0.lock();
        let mut all = Vec::new();
        for (table, of) in &held.tables {
            let lock = |mode: TableLock, owner: &Owner, granted: bool| LockedTable {
                table: *table,
                mode,
                process: owner.process,
                granted,
            };
            all.extend(of.held.iter().map(|(mode, owner)| lock(*mode, owner, true)));
            let wanted = of
                .wanted
                .iter()
                .filter_map(|(mode, owner)| Some((mode, owner.upgrade()?)));
            all.extend(wanted.map(|(mode, owner)| lock(*mode, &owner, false)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::TableLock;
    use super::TableLock::*;

    /// The table of PostgreSQL's documentation (13.2), a row a mode, X where they conflict.
    #[test]
    fn modes_conflict_as_documented() {
        let modes = [
            AccessShare,
            RowShare,
            RowExclusive,
            ShareUpdateExclusive,
            Share,
            ShareRowExclusive,
            Exclusive,
            AccessExclusive,
        ];
        let conflicts = [
            ".......X", "......XX", "....XXXX", "...XXXXX", "..XX.XXX", "..XXXXXX", ".XXXXXXX", "XXXXXXXX",
        ];
        for (row, a) in conflicts.iter().zip(modes) {
            for (cell, b) in row.chars().zip(modes) {
                assert_eq!(TableLock::goes_with(a, b), cell == '.', "{a:?} {b:?}");
            }
        }
    }
}
