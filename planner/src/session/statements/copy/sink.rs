//! `COPY FROM STDIN`: the client's bytes go to a thread that feeds storage's loader.

use super::fill::Fill;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::{CopyProgress, CopySink};
use crate::session::activity::Working;
use crate::session::engine::Engine;
use crate::session::statements::claims::wait_aside;
use crate::session::statements::constraints::Checks;
use crate::session::statements::references::{End, settle};
use crate::session::statements::row_locks::Patience;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use tenon_storage::load::{CopyLoader, Loaded};
use tenon_storage::{Claimed, Database, Segment, StorageError, TableLock, Transaction, Wait};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Pieces that may wait for the loader.
const PIECES_AHEAD: usize = 8;

/// How often rows are published again after a conflict with another transaction.
const ATTEMPTS_MAX: usize = 20;

/// Where the rows become visible, and what they have to satisfy.
pub(super) struct Destination {
    pub place: PublishTarget,
    pub checks: Checks,
    pub fill: Option<Fill>,
    pub patience: Patience,
    /// As errors name the table.
    pub table: String,
}

pub(super) enum PublishTarget {
    /// In the session's open transaction block; whether that keeps one snapshot.
    Block(Arc<Mutex<Transaction>>, bool),
    /// At once, in a transaction of their own; true where foreign keys are not checked.
    Database(Arc<Database>, bool),
}

impl Destination {
    /// Adds the rows: all of them, or none. Gives their number.
    pub(super) fn publish(&self, table_oid: u32, loaded: Loaded) -> Result<u64> {
        let (segments, rows) = match &self.fill {
            Some(fill) => fill.apply(&loaded.segments)?,
            None => (loaded.segments, loaded.rows),
        };
        self.checks.verify(&segments)?;
        let is_filtered = self.fill.as_ref().is_some_and(Fill::is_filter);
        let first_line = loaded.first_line.filter(|_| !is_filtered);
        let row = |error: &StorageError| error.subject.as_ref().and_then(|subject| subject.row);
        let placed = |error: StorageError| match (row(&error), first_line) {
            (Some(row), Some(first)) => error.context(|| format!("COPY {}, line {}", self.table, first + row)),
            _ => error,
        };
        self.add(table_oid, segments, &placed)?;
        Ok(rows)
    }

    /// `placed` says of an error on which line it was met.
    fn add(
        &self,
        table_oid: u32,
        segments: Vec<Arc<Segment>>,
        placed: &dyn Fn(StorageError) -> StorageError,
    ) -> Result<()> {
        match &self.place {
            PublishTarget::Block(transaction, one_snapshot) => loop {
                let wait = {
                    let mut transaction = transaction.lock();
                    match Self::claim(&mut transaction, table_oid, &segments, placed)? {
                        Some(wait) => wait,
                        None => {
                            transaction.append(table_oid, segments.clone()).map_err(placed)?;
                            self.checks.verify_written(&mut transaction, &segments, None)?;
                            return settle(&mut transaction, End::Statement);
                        }
                    }
                };
                wait_aside(&self.patience, wait)?;
                if !one_snapshot {
                    transaction.lock().refresh()?;
                }
            },
            PublishTarget::Database(database, is_replica) => {
                let mut attempt = 1;
                loop {
                    let mut transaction = database.begin();
                    transaction.set_replica(*is_replica);
                    if let Some(wait) = Self::claim(&mut transaction, table_oid, &segments, placed)? {
                        drop(transaction);
                        wait_aside(&self.patience, wait)?;
                        continue;
                    }
                    transaction.append(table_oid, segments.clone()).map_err(placed)?;
                    self.checks.verify_written(&mut transaction, &segments, None)?;
                    settle(&mut transaction, End::Transaction)?;
                    match transaction.commit().map_err(SqlError::from) {
                        Err(error) if error.state == state::SERIALIZATION_FAILURE && attempt < ATTEMPTS_MAX => {
                            attempt += 1;
                        }
                        result => return result,
                    }
                }
            }
        }
    }

    /// Locks the table and claims the rows' keys; gives whom to wait for first.
    fn claim(
        transaction: &mut Transaction,
        table_oid: u32,
        segments: &[Arc<Segment>],
        placed: &dyn Fn(StorageError) -> StorageError,
    ) -> Result<Option<Wait>> {
        let Some(table) = transaction.state().table_by_oid(table_oid).cloned() else {
            return Ok(None);
        };
        if let Some(wait) = transaction.lock_table(table_oid, TableLock::RowExclusive)? {
            return Ok(Some(wait));
        }
        match transaction.claim_keys(&table, segments, false)? {
            Claimed::Alone => Ok(None),
            Claimed::Wait(wait) => Ok(Some(wait)),
            Claimed::Taken(error) => Err(placed(error).into()),
        }
    }
}

enum Piece {
    Data(Bytes),
    End,
}

pub(super) struct Sink {
    pieces: mpsc::Sender<Piece>,
    /// Gives None where the client went away before the end.
    load: JoinHandle<Result<Option<Loaded>>>,
    destination: Destination,
    table_oid: u32,
    progress: Arc<CopyProgress>,
    _working: Working,
}

impl Sink {
    pub(super) fn start(
        engine: &Engine,
        mut loader: CopyLoader,
        destination: Destination,
        table_oid: u32,
        (progress, working): (Arc<CopyProgress>, Working),
    ) -> Result<Self> {
        let told = progress.clone();
        let (pieces, mut received) = mpsc::channel(PIECES_AHEAD);
        // On no statement's account: what a load holds is reserved from the memory of tables.
        let load = engine.handle()?.spawn_blocking(move || {
            while let Some(piece) = received.blocking_recv() {
                match piece {
                    Piece::Data(data) => {
                        loader.push(&data)?;
                        told.set_rows(loader.rows());
                    }
                    Piece::End => return Ok(Some(loader.finish()?)),
                }
            }
            Ok(None)
        });
        Ok(Self {
            pieces,
            load,
            destination,
            table_oid,
            progress,
            _working: working,
        })
    }

    /// Why the loader stopped taking data.
    async fn failure(&mut self) -> SqlError {
        match (&mut self.load).await {
            Ok(Err(error)) => error,
            Ok(Ok(_)) => SqlError::internal("the load ended before its data"),
            Err(error) => SqlError::internal(error),
        }
    }
}

#[async_trait]
impl CopySink for Sink {
    async fn write(&mut self, data: Bytes) -> Result<()> {
        self.progress.add(data.len(), 0);
        match self.pieces.send(Piece::Data(data)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.failure().await),
        }
    }

    async fn finish(mut self: Box<Self>) -> Result<u64> {
        if self.pieces.send(Piece::End).await.is_err() {
            return Err(self.failure().await);
        }
        let Sink {
            load,
            destination,
            table_oid,
            _working,
            ..
        } = *self;
        let loaded = load.await.map_err(SqlError::internal)??;
        let loaded = loaded.ok_or_else(|| SqlError::internal("the load ended before its data"))?;
        let publish = move || destination.publish(table_oid, loaded);
        tokio::task::spawn_blocking(publish).await.map_err(SqlError::internal)?
    }
}
