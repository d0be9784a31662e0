//! Frames from the socket: bounded reading, and noticing that the client is gone.

use super::aside::aside;
use super::message::{self, Message};
use bytes::{Buf, Bytes, BytesMut};
use std::io;
use tenon_planner::error::SqlError;
use tenon_planner::settings::Charset;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest frame of a message that carries SQL text or data, bytes.
const LARGE_FRAME_BYTES_MAX: usize = 256 << 20;
/// Longest frame of the others, bytes (as PostgreSQL's).
const SMALL_FRAME_BYTES_MAX: usize = 10_000;
/// Read ahead at most this while a query runs, bytes.
const READ_AHEAD_BYTES_MAX: usize = 1 << 20;
/// Room for one read, bytes.
const READ_BYTES: usize = 64 << 10;
/// A frame from so long on takes a while to look at, bytes.
const LONG_FRAME_BYTES: usize = 1 << 20;
/// Longest piece of COPY data handed on, bytes.
const COPY_PIECE_BYTES: usize = 1 << 20;

/// Why no message came.
#[derive(Debug)]
pub enum InputError {
    /// The connection ended or broke; `Some` tells how, for the log.
    Gone(Option<io::Error>),
    /// The bytes are no frames: the connection cannot go on.
    Fatal(SqlError),
    /// The frame, of this type, was whole but its body wrong.
    Bad(u8, SqlError),
}

impl From<io::Error> for InputError {
    fn from(e: io::Error) -> Self {
        Self::Gone(Some(e))
    }
}

/// One step of a client's COPY data.
#[derive(Debug)]
pub enum CopyInput {
    Data(Bytes),
    Done,
    Fail(String),
}

/// The read half of a connection with what was read and not yet parsed.
pub struct Input<R> {
    /// What texts are written in.
    pub charset: Charset,
    socket: R,
    buffer: BytesMut,
    /// Bytes of the CopyData frame in `buffer` that are still to come.
    copy_left: usize,
    /// Longest frame of a message that carries SQL text or data: short for as long as nobody knows who sends it.
    large_bytes_max: usize,
}

impl<R: AsyncRead + Unpin> Input<R> {
    pub fn new(socket: R) -> Self {
        Self {
            socket,
            buffer: BytesMut::with_capacity(READ_BYTES),
            copy_left: 0,
            large_bytes_max: SMALL_FRAME_BYTES_MAX,
            charset: Charset::default(),
        }
    }

    /// The client is known now, and may send long messages.
    pub fn trust(&mut self) {
        self.large_bytes_max = LARGE_FRAME_BYTES_MAX;
    }

    /// Whether nothing was read past what was parsed.
    pub fn is_drained(&self) -> bool {
        self.buffer.is_empty()
    }

    pub fn into_socket(self) -> R {
        self.socket
    }

    /// Whether the next message has come already and is a Sync.
    pub fn sync_is_next(&self) -> bool {
        self.copy_left == 0 && self.buffer.first() == Some(&b'S')
    }

    /// Reads once more. Cancel-safe.
    async fn fill(&mut self) -> Result<(), InputError> {
        let room = if self.copy_left > 0 {
            COPY_PIECE_BYTES
        } else {
            READ_BYTES
        };
        if self.buffer.capacity() - self.buffer.len() < room / 4 {
            self.buffer.reserve(room);
        }
        match self.socket.read_buf(&mut self.buffer).await? {
            0 => Err(InputError::Gone(None)),
            _ => Ok(()),
        }
    }

    /// Waits, while a query runs, until the client goes away, keeping what it sends for later. Where it sends a lot,
    /// stops reading and never returns. Cancel-safe.
    pub async fn gone(&mut self) -> Option<io::Error> {
        while self.buffer.len() < READ_AHEAD_BYTES_MAX {
            match self.fill().await {
                Ok(()) => {}
                Err(InputError::Gone(how)) => return how,
                Err(_) => break,
            }
        }
        std::future::pending().await
    }

    /// The first packet of a connection, which has no type byte: its body, after the length. Cancel-safe.
    pub async fn startup_packet(&mut self) -> Result<Bytes, InputError> {
        while self.buffer.len() < 4 {
            self.fill().await?;
        }
        let length = self.length_at(0);
        if !(8..=SMALL_FRAME_BYTES_MAX).contains(&length) {
            return Err(InputError::Fatal(message::violation(
                "invalid length of startup packet",
            )));
        }
        while self.buffer.len() < length {
            self.fill().await?;
        }
        self.buffer.advance(4);
        Ok(self.buffer.split_to(length - 4).freeze())
    }

    /// The next message; CopyData outside of a COPY comes in pieces like any other. Cancel-safe.
    pub async fn next(&mut self) -> Result<Message, InputError> {
        loop {
            self.discard_copy_rest().await?;
            while self.buffer.len() < 5 {
                self.fill().await?;
            }
            let (kind, length) = self.header()?;
            if kind == b'd' {
                self.buffer.advance(5);
                self.copy_left = length - 4;
                continue;
            }
            while self.buffer.len() < length + 1 {
                self.fill().await?;
            }
            self.buffer.advance(5);
            let body = self.buffer.split_to(length - 4).freeze();
            let message = aside(length >= LONG_FRAME_BYTES, || message::parse(kind, body, self.charset));
            return message.map_err(|error| InputError::Bad(kind, error));
        }
    }

    /// The next piece of a COPY's data: what has arrived of as many CopyData frames as there are, whole or not, so that
    /// memory stays bounded whatever their sizes. Flush and Sync are passed over, as PostgreSQL does. Cancel-safe.
    pub async fn next_copy(&mut self) -> Result<CopyInput, InputError> {
        let mut piece = BytesMut::new();
        loop {
            if self.copy_left > 0 {
                if self.buffer.is_empty() {
                    if !piece.is_empty() {
                        return Ok(CopyInput::Data(piece.freeze()));
                    }
                    self.fill().await?;
                }
                let part = self.copy_left.min(self.buffer.len());
                self.copy_left -= part;
                if piece.is_empty() {
                    piece.reserve(self.buffer.len().max(part));
                }
                piece.extend_from_slice(&self.buffer[..part]);
                self.buffer.advance(part);
                if piece.len() >= COPY_PIECE_BYTES {
                    return Ok(CopyInput::Data(piece.freeze()));
                }
                continue;
            }
            if !piece.is_empty() && (self.buffer.len() < 5 || self.buffer[0] != b'd') {
                return Ok(CopyInput::Data(piece.freeze()));
            }
            while self.buffer.len() < 5 {
                self.fill().await?;
            }
            let (kind, length) = self.header()?;
            if kind == b'd' {
                self.buffer.advance(5);
                self.copy_left = length - 4;
                continue;
            }
            match self.next().await? {
                Message::Terminate => return Err(InputError::Gone(None)),
                Message::CopyDone => return Ok(CopyInput::Done),
                Message::CopyFail(why) => return Ok(CopyInput::Fail(why)),
                Message::Flush | Message::Sync => {}
                _ => {
                    let error = format!("unexpected message type 0x{kind:02X} during COPY from stdin");
                    return Err(InputError::Bad(kind, message::violation(error)));
                }
            }
        }
    }

    /// Reads and drops what still comes, until the client closes: closing with data unread would take back the last
    /// message that it was sent.
    pub async fn drain(&mut self) {
        while self.fill().await.is_ok() {
            self.buffer.clear();
        }
    }

    /// Drops what is still to come of a CopyData frame that nobody wants.
    async fn discard_copy_rest(&mut self) -> Result<(), InputError> {
        while self.copy_left > 0 {
            if self.buffer.is_empty() {
                self.fill().await?;
            }
            let part = self.copy_left.min(self.buffer.len());
            self.copy_left -= part;
            self.buffer.advance(part);
        }
        Ok(())
    }

    /// Type and length of the frame at the buffer's start, both checked.
    fn header(&self) -> Result<(u8, usize), InputError> {
        let (kind, length) = (self.buffer[0], self.length_at(1));
        let longest = match kind {
            b'Q' | b'P' | b'B' | b'd' | b'F' => self.large_bytes_max,
            b'p' | b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'c' | b'f' => SMALL_FRAME_BYTES_MAX,
            _ => {
                return Err(InputError::Fatal(message::violation(format!(
                    "invalid frontend message type {kind}"
                ))));
            }
        };
        if !(4..=longest).contains(&length) {
            let kind = char::from(kind);
            let error = message::violation(format!(
                "invalid message length {length} of a message of type \"{kind}\""
            ));
            return Err(InputError::Fatal(
                error.detail(format!("At most {longest} bytes are allowed.")),
            ));
        }
        Ok((kind, length))
    }

    fn length_at(&self, at: usize) -> usize {
        let b = &self.buffer[at..at + 4];
        u32::from_be_bytes([b[0], b[1], b[2], b[3]]) as usize
    }
}
