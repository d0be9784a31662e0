//! BACKUP: all that is committed, as the bytes of an archive (`tenon_storage::store::Backup`).

use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::{CopyOut, CopyOutFormat};
use crate::pg::types::describe;
use datafusion::arrow::array::{ArrayRef, BinaryViewArray, RecordBatch};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use futures::StreamExt;
use std::sync::Arc;
use tenon_storage::{Database, SqlType};
use tokio::sync::mpsc;

/// Pieces that are read before the client takes them.
const PIECES_AHEAD: usize = 2;

/// The copy, which a thread of its own reads as the client takes it. Fails where there is nothing to copy (55000).
pub(super) fn start(database: &Database) -> Result<CopyOut> {
    let Some(backup) = database.backup()? else {
        let message = "the server keeps no tables on disk";
        return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .hint("Start it with --store DIR, or copy tables with COPY."));
    };
    let (pieces, taken) = mpsc::channel(PIECES_AHEAD);
    let schema = Schema::new(vec![SqlType::Bytea.field("backup", false)]);
    let schema = DFSchema::try_from(schema).map_err(SqlError::internal)?;
    let read = move || {
        for piece in backup.pieces() {
            let batch = piece.map_err(SqlError::from).and_then(|piece| {
                let column = Arc::new(BinaryViewArray::from_iter_values([piece])) as ArrayRef;
                RecordBatch::try_from_iter([("backup", column)]).map_err(SqlError::internal)
            });
            let failed = batch.is_err();
            // The client is gone, or has all that it gets.
            if pieces.blocking_send(batch).is_err() || failed {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("backup".into()).spawn(read);
    started.map_err(SqlError::internal)?;
    let stream = futures::stream::unfold(taken, async |mut taken| Some((taken.recv().await?, taken)));
    Ok(CopyOut {
        columns: describe(&schema),
        stream: stream.boxed(),
        format: CopyOutFormat::Bytes,
        progress: Arc::default(),
    })
}
