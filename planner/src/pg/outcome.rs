//! What executing one statement gives back to the wire: rows, a command tag, or one side of a COPY.

use crate::pg::error::Result;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A PostgreSQL type as the wire names it: `pg_type.oid` and the type modifier (-1: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgType {
    pub oid: u32,
    pub typmod: i32,
}

/// One result column: its name, the Arrow type that its batches carry and the PostgreSQL type that the client sees.
#[derive(Clone, Debug)]
pub struct ColumnDesc {
    pub name: String,
    pub data_type: DataType,
    pub pg_type: PgType,
    pub origin: Option<Origin>,
}

/// The column of a table that a result's column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its `pg_class.oid`.
    pub table: u32,
    /// Its `pg_attribute.attnum`.
    pub column: i16,
}

/// Batches of a running query. Dropping it stops the query's work. An error ends it.
pub type BatchStream = BoxStream<'static, Result<RecordBatch>>;

/// A statement's result.
pub enum Outcome {
    /// Rows, then `tag` with the row count appended where the tag takes one (`SELECT 5`).
    Rows {
        columns: Vec<ColumnDesc>,
        stream: BatchStream,
        tag: RowsTag,
    },
    /// No rows: the finished command tag (`INSERT 0 3`, `CREATE TABLE`).
    Command(String),
    /// `COPY t FROM STDIN`: the client sends data now.
    CopyIn(CopyIn),
    /// `COPY t TO STDOUT`: the client receives data now.
    CopyOut(CopyOut),
    /// An empty query string.
    Empty,
}

/// How a row-returning statement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsTag {
    /// The word and the number of rows sent: `SELECT 5`, `FETCH 5`, `INSERT 0 5` (word `INSERT 0`).
    Counted(&'static str),
    /// The word alone: `SHOW`, `EXPLAIN`.
    Plain(&'static str),
}

/// How far a COPY has come: for others to look at.
#[derive(Debug, Default)]
pub struct CopyProgress {
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl CopyProgress {
    pub fn add(&self, bytes: usize, rows: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// So many bytes in all.
    pub fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// So many rows in all.
    pub fn set_rows(&self, rows: u64) {
        self.rows.store(rows, Ordering::Relaxed);
    }

    /// Bytes and rows.
    pub fn get(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.rows.load(Ordering::Relaxed))
    }
}

/// The receiving side of `COPY FROM STDIN`. Nothing is visible to others until `finish` (or COMMIT, in a transaction).
pub struct CopyIn {
    pub binary: bool,
    pub columns: usize,
    pub sink: Box<dyn CopySink>,
    pub place: CopyPlace,
}

/// How far a COPY FROM has come, as the context of its errors says it.
pub struct CopyPlace {
    pub table: String,
    pub has_header: bool,
    pub progress: Arc<CopyProgress>,
}

impl CopyPlace {
    /// The line that is read.
    pub fn context(&self) -> String {
        let line = self.progress.get().1 + u64::from(self.has_header) + 1;
        format!("COPY {}, line {line}", self.table)
    }
}

#[async_trait]
pub trait CopySink: Send {
    /// Takes the next piece of the stream, cut anywhere. May wait: that is the back-pressure.
    async fn write(&mut self, data: Bytes) -> Result<()>;
    /// The end of the data: gives the number of rows loaded. Dropping the sink instead leaves the table as it was.
    async fn finish(self: Box<Self>) -> Result<u64>;
}

/// The sending side of `COPY TO STDOUT`: the query's batches, and how the wire is to write them.
pub struct CopyOut {
    pub columns: Vec<ColumnDesc>,
    pub stream: BatchStream,
    pub format: CopyOutFormat,
    /// Told of what is sent.
    pub progress: Arc<CopyProgress>,
}

/// How `COPY TO STDOUT` writes rows, every option checked and defaulted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyOutFormat {
    Text {
        delimiter: u8,
        null: String,
        header: bool,
    },
    Csv {
        delimiter: u8,
        null: String,
        header: bool,
        quote: u8,
        escape: u8,
        /// One flag a column: quote every value that is not NULL (`FORCE_QUOTE`).
        force_quote: Vec<bool>,
    },
    Binary,
    /// The bytes of one column, as they are.
    Bytes,
}

impl CopyOutFormat {
    pub fn text() -> Self {
        Self::Text {
            delimiter: b'\t',
            null: "\\N".into(),
            header: false,
        }
    }
}
