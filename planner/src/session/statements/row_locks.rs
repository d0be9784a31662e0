//! Waiting for rows that other transactions are changing.
//!
//! PostgreSQL goes on with the new version of a row that it has waited for, where its WHERE lets that through; here the whole
//! statement is run again, over all that is committed by then, which sees the same version.

use crate::pg::error::{Result, SqlError, state};
use crate::session::Session;
use crate::session::activity::Backend;
use crate::session::run::stopped;
use datafusion::sql::sqlparser::ast::{LockType, Query};
use std::sync::Arc;
use std::time::Duration;
use tenon_storage::heap::Account;
use tenon_storage::{LockMode, Locked, StorageError, TableRows, TableVersion, Wait};
use tokio_util::sync::CancellationToken;

/// What became of the rows that a statement has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// They are locked, and as the statement saw them.
    Stand,
    /// Others have changed some of them: the transaction sees what they have committed now, and rows are to be found anew.
    Changed,
}

/// How rows are locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub mode: LockMode,
    /// Otherwise a row that another transaction holds is an error.
    pub waits: bool,
}

/// Locks rows of a table that are to be changed, and waits for those that others hold.
pub(super) async fn lock(session: &Session, table: &TableVersion, rows: &TableRows) -> Result<Found> {
    let wish = Wish {
        mode: LockMode::Change,
        waits: true,
    };
    lock_as(session, table, rows, wish).await
}

/// The same in other ways.
pub(super) async fn lock_as(session: &Session, table: &TableVersion, rows: &TableRows, wish: Wish) -> Result<Found> {
    loop {
        let locked = session.transaction()?.lock().lock_rows(table, rows, wish.mode)?;
        match locked {
            Locked::Taken => return Ok(Found::Stand),
            Locked::Wait(wait) if wish.waits => Patience::of(session).wait(wait).await?,
            Locked::Wait(_) => {
                let message = format!("could not obtain lock on row in relation \"{}\"", table.name());
                return Err(SqlError::new(state::LOCK_NOT_AVAILABLE, message));
            }
            Locked::Changed => return look_again(session),
        }
    }
}

/// Moves the statement onto what others have committed.
pub(super) fn look_again(session: &Session) -> Result<Found> {
    // Parts of a statement with WITH see one snapshot.
    if session.keeps_snapshot() || session.surroundings.snapshot.is_some() {
        return Err(StorageError::serialization().into());
    }
    session.transaction()?.lock().refresh()?;
    Ok(Found::Changed)
}

/// How long a statement waits for other transactions.
#[derive(Clone)]
pub(super) struct Patience {
    backend: Arc<Backend>,
    limit: Option<Duration>,
    cancel: CancellationToken,
    account: Arc<Account>,
}

impl Patience {
    pub(super) fn of(session: &Session) -> Patience {
        Patience {
            backend: session.backend.clone(),
            limit: session.settings.times().lock,
            cancel: session.cancel().clone(),
            account: session.account().clone(),
        }
    }

    /// Until another transaction ends: fails where the statement is to be stopped, or after `lock_timeout`.
    pub(super) async fn wait(&self, wait: Wait) -> Result<()> {
        let _waiting = self.backend.waits("Lock", "transactionid");
        let limit = async {
            match self.limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wait => Ok(()),
            () = self.cancel.cancelled() => Err(stopped(&self.account)),
            () = limit => Err(SqlError::new(state::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")),
        }
    }
}

/// What errors call the locks of a query.
pub(super) fn clause(query: &Query) -> &'static str {
    match query.locks.iter().all(|lock| lock.lock_type == LockType::Share) {
        true => "FOR SHARE",
        false => "FOR UPDATE",
    }
}
