//! Locks of rows: taken by who is going to change them or wants nobody else to, and held until the transaction ends.

use super::Transaction;
use super::rows::in_whole;
use crate::catalog::locks::{Holder, LockMode, Wait};
use crate::catalog::moves::{Moves, Removed, RowsOf};
use crate::catalog::row_set::TableRows;
use crate::catalog::table::{RowLocation, TableVersion};
use crate::error::Result;

/// What became of rows that a transaction wants to lock.
#[derive(Debug)]
pub enum Locked {
    Taken,
    /// None is, before another transaction ends.
    Wait(Wait),
    /// They are, but others have changed or removed some since the transaction's snapshot.
    Changed,
}

impl Transaction {
    /// Locks rows until the transaction ends: those that `replace_rows` is to take out.
    pub fn lock_rows(&mut self, table: &TableVersion, rows: &TableRows, mode: LockMode) -> Result<Locked> {
        self.look_at(table, rows, |holder, rows| holder.lock(rows, mode))
    }

    /// What to make of rows that decide what the transaction does, though it locks none: `Wait` where somebody is changing
    /// one, `Changed` where somebody has, else `Taken`.
    pub fn await_rows(&mut self, table: &TableVersion, rows: &TableRows) -> Result<Locked> {
        self.look_at(table, rows, Holder::wait_for_changes)
    }

    /// What becomes of rows, but for the transaction's own; `wait` says for whom to wait first.
    fn look_at(
        &mut self,
        table: &TableVersion,
        rows: &TableRows,
        wait: impl FnOnce(&Holder, &[RowsOf]) -> Result<Option<Wait>>,
    ) -> Result<Locked> {
        if !self.is_shared(table) {
            return Ok(Locked::Taken);
        }
        let others = table.segments().len() - self.own_segments(table);
        let mut wanted = Removed::default();
        for (at, rows) in rows.iter().filter(|(at, _)| *at < others) {
            let segment = &table.segments()[at];
            wanted.add(segment.whole(), in_whole(segment, rows));
        }
        let holder = self.holder().clone();
        let moves = self.database.moves();
        let Ok(rows) = wanted.latest(&moves) else {
            return Ok(Locked::Changed);
        };
        if let Some(wait) = wait(&holder, &rows)? {
            return Ok(Locked::Wait(wait));
        }
        Ok(match self.stand(table, &wanted, &moves) {
            true => Locked::Taken,
            false => Locked::Changed,
        })
    }

    /// Locks those of some rows that nobody else holds, one after the other, until there are so many, and gives them. None:
    /// others have changed one since the transaction's snapshot.
    pub fn lock_free_rows(
        &mut self,
        table: &TableVersion,
        rows: &[RowLocation],
        most: usize,
        mode: LockMode,
    ) -> Option<Vec<RowLocation>> {
        if !self.is_shared(table) {
            return Some(rows.iter().take(most).copied().collect());
        }
        let others = table.segments().len() - self.own_segments(table);
        let holder = self.holder().clone();
        let moves = self.database.moves();
        let mut taken = Vec::new();
        for at in rows {
            if taken.len() == most {
                break;
            }
            if at.segment < others {
                let segment = &table.segments()[at.segment];
                let row = segment.live().map_or(at.row, |live| live.select(at.row));
                let mut wanted = Removed::default();
                wanted.add(segment.whole(), [row as u32]);
                let rows = wanted.latest(&moves).ok()?;
                if !holder.try_lock(&rows, mode) {
                    continue;
                }
                if !self.stand(table, &wanted, &moves) {
                    return None;
                }
            }
            taken.push(*at);
        }
        Some(taken)
    }

    /// Whether others may change rows of a table beside this transaction.
    pub(super) fn is_shared(&self, table: &TableVersion) -> bool {
        self.touched.get(&table.oid()).is_none_or(|touch| !touch.rewritten)
    }

    /// Whether rows of the transaction's snapshot are in what is committed now, too.
    fn stand(&self, table: &TableVersion, rows: &Removed, moves: &Moves) -> bool {
        let current = self.database.snapshot();
        let Some(current) = current.table_by_oid(table.oid()) else {
            return false;
        };
        let base = self.base.table_by_oid(table.oid());
        base.is_some_and(|base| base.version() == current.version())
            || rows.moved(current.segments(), moves).is_ok_and(|rows| {
                let mut segments = current.segments().iter();
                segments.all(|segment| rows.is_left_in(segment))
            })
    }
}
