//! Keys of unique indexes that a statement is about to add: who adds the same before this transaction ends waits for that.
//!
//! PostgreSQL waits where it meets such a key in the index (`_bt_check_unique`), and goes on with what has become of it. So it
//! is here, with the whole statement's rows at once.

use super::row_locks::{Patience, look_again};
use crate::pg::error::{Result, SqlError, state};
use crate::session::Session;
use std::sync::Arc;
use tenon_storage::{Claimed, Locked, RowLocation, Segment, StorageError, TableRows, TableVersion, Wait};

/// More rows that were refused are not looked for among those that others are changing.
pub(super) const REFUSED_MAX: usize = 1 << 10;

/// What became of the wish to add rows.
pub(super) enum Claim {
    /// Nobody else adds their keys.
    Alone,
    /// Others have ended that had added some: the transaction sees what they have committed now.
    Changed,
    /// Others have committed some, which the transaction's one snapshot does not show.
    Taken(StorageError),
}

/// Claims the keys of rows that are to be added to a table; with `in_place` they take the place of rows that have some of them.
pub(super) async fn claim(session: &Session, table: u32, rows: &[Arc<Segment>], in_place: bool) -> Result<Claim> {
    loop {
        let claimed = {
            let transaction = session.transaction()?;
            let mut transaction = transaction.lock();
            let Some(table) = transaction.state().table_by_oid(table).cloned() else {
                return Ok(Claim::Alone);
            };
            transaction.claim_keys(&table, rows, in_place)?
        };
        match claimed {
            Claimed::Alone => return Ok(Claim::Alone),
            Claimed::Wait(wait) => {
                Patience::of(session).wait(wait).await?;
                if !session.keeps_snapshot() {
                    return look_again(session).map(|_| Claim::Changed);
                }
            }
            Claimed::Taken(error) if session.keeps_snapshot() => return Ok(Claim::Taken(error)),
            Claimed::Taken(_) => return look_again(session).map(|_| Claim::Changed),
        }
    }
}

/// The same of rows that replace others, or are left out where their keys are there. False: the statement is to be run again.
pub(super) async fn claimed(session: &Session, table: u32, rows: &[Arc<Segment>], in_place: bool) -> Result<bool> {
    match claim(session, table, rows, in_place).await? {
        Claim::Alone => Ok(true),
        Claim::Changed => Ok(false),
        Claim::Taken(_) => Err(StorageError::serialization().into()),
    }
}

/// Whether rows that a key was refused for may be added after all: others were removing the one that has it, and have ended.
pub(super) async fn may_go(session: &Session, table: u32, rows: &[Arc<Segment>]) -> Result<bool> {
    let state = session.state();
    let added: usize = rows.iter().map(|segment| segment.rows()).sum();
    let Some(table) = state.table_by_oid(table).filter(|_| added <= REFUSED_MAX) else {
        return Ok(false);
    };
    let met = table.with_keys_of(rows, session.engine.database().budget())?;
    await_rows(session, table, met).await
}

/// Waits for those who are changing rows whose keys keep others out. True: they have, or others had since the snapshot, and the
/// transaction sees what they have committed now; 40001 where it keeps its snapshot.
pub(super) async fn await_rows(
    session: &Session,
    table: &TableVersion,
    rows: impl IntoIterator<Item = RowLocation>,
) -> Result<bool> {
    let rows: TableRows = rows.into_iter().collect();
    if rows.is_empty() {
        return Ok(false);
    }
    let mut waited = false;
    loop {
        let found = session.transaction()?.lock().await_rows(table, &rows)?;
        match found {
            Locked::Wait(wait) => {
                Patience::of(session).wait(wait).await?;
                waited = true;
            }
            // What was waited for may have been undone.
            Locked::Taken if !waited || session.keeps_snapshot() => return Ok(false),
            Locked::Taken | Locked::Changed => return look_again(session).map(|_| true),
        }
    }
}

/// Waits, on a thread of its own, for who is adding a key that rows loaded outside a block have.
pub(super) fn wait_aside(patience: &Patience, wait: Wait) -> Result<()> {
    tokio::runtime::Handle::current().block_on(patience.wait(wait))
}

/// Whether an error is that of a key that is there.
pub(super) fn is_refused(error: &SqlError) -> bool {
    error.state == state::UNIQUE_VIOLATION
}
