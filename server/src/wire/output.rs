//! Messages to the client: one buffer, flushed in large pieces.

use crate::encode::{Format, oid};
use crate::metrics::Metrics;
use bytes::BytesMut;
use pgwire::messages::Message;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tenon_planner::error::{RAISED_BY, SqlError, state};
use tenon_planner::outcome::ColumnDesc;
use tenon_planner::session::Notification;
use tenon_planner::settings::Charset;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// The buffer is flushed once it holds this much, bytes.
pub const FLUSH_BYTES: usize = 64 << 10;

/// How grave an error or a notice is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Error,
    Fatal,
}

fn stalled(limit: Duration) -> io::Error {
    let message = format!("terminating connection: the client has read nothing for {limit:?}");
    io::Error::new(
        io::ErrorKind::TimedOut,
        SqlError::new(state::CONNECTION_FAILURE, message),
    )
}

/// The write half of a connection.
pub struct Output<W> {
    socket: W,
    pub buffer: Vec<u8>,
    /// Bytes of `buffer` already sent: a flush that was interrupted goes on here.
    sent: usize,
    /// How long a client may read nothing of what it is sent.
    pub stalled_after: Option<Duration>,
    /// Who counts how statements end.
    pub metrics: Option<Arc<Metrics>>,
    /// What texts are written in.
    pub charset: Charset,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    pub fn new(socket: W) -> Self {
        Self {
            socket,
            buffer: Vec::with_capacity(FLUSH_BYTES + (FLUSH_BYTES >> 2)),
            sent: 0,
            stalled_after: None,
            metrics: None,
            charset: Charset::default(),
        }
    }

    pub fn into_socket(self) -> W {
        self.socket
    }

    pub fn is_full(&self) -> bool {
        self.buffer.len() - self.sent >= FLUSH_BYTES
    }

    /// Sends everything, waiting as long as the client does not read but for `stalled_after`. Cancel-safe: unsent bytes
    /// stay.
    pub async fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.buffer.len() {
            let written = self.socket.write(&self.buffer[self.sent..]);
            let written = match self.stalled_after {
                Some(limit) => timeout(limit, written).await.map_err(|_| stalled(limit))?,
                None => written.await,
            };
            match written? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                bytes => self.sent += bytes,
            }
        }
        self.buffer.clear();
        self.sent = 0;
        if self.buffer.capacity() > 16 * FLUSH_BYTES {
            self.buffer.shrink_to(FLUSH_BYTES);
        }
        self.socket.flush().await
    }

    /// Tells the client that nothing more comes.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.socket.shutdown().await
    }

    /// A name or a message, in the client's encoding.
    fn text(&self, text: &str, body: &mut Vec<u8>) {
        body.extend(self.charset.encode_lossy(text).iter().filter(|b| **b != 0));
    }

    /// A message by pgwire's own encoder, which is right for the rare ones.
    pub fn put(&mut self, message: &impl Message) {
        let mut bytes = BytesMut::new();
        match message.encode(&mut bytes) {
            Ok(()) => self.buffer.extend_from_slice(&bytes),
            Err(e) => tracing::error!("a message was not encoded: {e}"),
        }
    }

    /// A message without a body, or with one of fixed bytes.
    pub fn put_raw(&mut self, kind: u8, body: &[u8]) {
        self.buffer.push(kind);
        self.buffer.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
        self.buffer.extend_from_slice(body);
    }

    pub fn parse_complete(&mut self) {
        self.put_raw(b'1', &[]);
    }

    pub fn bind_complete(&mut self) {
        self.put_raw(b'2', &[]);
    }

    pub fn close_complete(&mut self) {
        self.put_raw(b'3', &[]);
    }

    pub fn no_data(&mut self) {
        self.put_raw(b'n', &[]);
    }

    pub fn portal_suspended(&mut self) {
        self.put_raw(b's', &[]);
    }

    pub fn empty_query(&mut self) {
        self.put_raw(b'I', &[]);
    }

    pub fn command_complete(&mut self, tag: &str) {
        if let Some(metrics) = &self.metrics {
            metrics.completed(tag);
        }
        self.put_raw(b'C', format!("{tag}\0").as_bytes());
    }

    pub fn parameter_status(&mut self, name: &str, value: &str) {
        let mut body = Vec::new();
        for text in [name, value] {
            self.text(text, &mut body);
            body.push(0);
        }
        self.put_raw(b'S', &body);
    }

    pub fn parameter_description(&mut self, oids: impl ExactSizeIterator<Item = u32>) {
        let mut body = (oids.len() as u16).to_be_bytes().to_vec();
        body.extend(oids.flat_map(u32::to_be_bytes));
        self.put_raw(b't', &body);
    }

    /// `formats` is empty where they are not known yet (Describe of a statement): text is announced then.
    pub fn row_description(&mut self, columns: &[ColumnDesc], formats: &[Format]) {
        let mut body = (columns.len() as u16).to_be_bytes().to_vec();
        for (i, column) in columns.iter().enumerate() {
            self.text(&column.name, &mut body);
            body.push(0);
            let (table, number) = column.origin.map_or((0, 0), |origin| (origin.table, origin.column));
            body.extend_from_slice(&table.to_be_bytes());
            body.extend_from_slice(&number.to_be_bytes());
            body.extend_from_slice(&column.pg_type.oid.to_be_bytes());
            body.extend_from_slice(&oid::type_size(column.pg_type.oid).to_be_bytes());
            body.extend_from_slice(&column.pg_type.typmod.to_be_bytes());
            body.extend_from_slice(&formats.get(i).map_or(0, |f| f.code()).to_be_bytes());
        }
        self.put_raw(b'T', &body);
    }

    /// `G` (the client sends) or `H` (the server sends): a COPY starts.
    pub fn copy_response(&mut self, kind: u8, binary: bool, columns: usize) {
        let format = u8::from(binary);
        let mut body = vec![format];
        body.extend_from_slice(&(columns as u16).to_be_bytes());
        body.extend((0..columns).flat_map(|_| [0, format]));
        self.put_raw(kind, &body);
    }

    pub fn copy_done(&mut self) {
        self.put_raw(b'c', &[]);
    }

    pub fn notification(&mut self, notification: &Notification) {
        let mut body = notification.process_id.to_be_bytes().to_vec();
        for text in [&notification.channel, &notification.payload] {
            self.text(text, &mut body);
            body.push(0);
        }
        self.put_raw(b'A', &body);
    }

    pub fn error(&mut self, severity: Severity, error: &SqlError) {
        if let Some(metrics) = &self.metrics {
            metrics.failed(error.state);
        }
        let severity = if severity == Severity::Fatal { "FATAL" } else { "ERROR" };
        self.report(b'E', severity, error);
    }

    /// NoticeResponse; `severity` is NOTICE, WARNING, INFO and so on.
    pub fn notice(&mut self, severity: &str, notice: &SqlError) {
        self.report(b'N', severity, notice);
    }

    fn report(&mut self, kind: u8, severity: &str, error: &SqlError) {
        let mut body = Vec::new();
        let mut field = |code: u8, text: &str| {
            body.push(code);
            self.text(text, &mut body);
            body.push(0);
        };
        field(b'S', severity);
        field(b'V', severity);
        field(b'C', error.state.0);
        field(b'M', &error.message);
        if let Some(detail) = &error.detail {
            field(b'D', detail);
        }
        if let Some(hint) = &error.hint {
            field(b'H', hint);
        }
        if let Some(position) = error.position {
            field(b'P', &position.to_string());
        }
        if let Some(context) = &error.context {
            field(b'W', context);
        }
        if error.is_changed_result() {
            // Drivers that keep prepared statements know by this routine of PostgreSQL's that they are to prepare anew.
            field(b'R', "RevalidateCachedQuery");
        }
        if error.is_raised() {
            RAISED_BY.iter().for_each(|(code, text)| field(*code, text));
        }
        if let Some(subject) = &error.subject {
            field(b's', &subject.schema);
            let named = [
                (b't', &subject.table),
                (b'c', &subject.column),
                (b'd', &subject.data_type),
                (b'n', &subject.constraint),
            ];
            for (code, name) in named {
                if let Some(name) = name {
                    field(code, name);
                }
            }
        }
        body.push(0);
        self.put_raw(kind, &body);
    }
}
