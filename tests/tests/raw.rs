//! A client of bare frames, for what a well-behaved driver never sends and for reading results without keeping them.

use crate::process::Server;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

pub struct RawClient {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    /// From BackendKeyData: process id and secret.
    pub key: Option<Vec<u8>>,
}

/// One backend message: its type byte and its body.
pub struct Message {
    pub kind: u8,
    pub body: Vec<u8>,
}

impl Message {
    /// An ErrorResponse's field: `C` is the SQLSTATE, `M` the message.
    pub fn field(&self, code: u8) -> Option<String> {
        let fields = self
            .body
            .split(|b| *b == 0)
            .find(|field| field.first() == Some(&code))?;
        Some(String::from_utf8_lossy(&fields[1..]).into_owned())
    }
}

impl RawClient {
    /// A socket with nothing sent yet. Reads give up after 30 seconds.
    pub fn open(server: &Server) -> Result<RawClient> {
        let stream = TcpStream::connect(server.address())?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.set_nodelay(true)?;
        Ok(RawClient {
            reader: BufReader::with_capacity(1 << 16, stream.try_clone()?),
            stream,
            key: None,
        })
    }

    /// A connection that is ready for queries.
    pub fn connect(server: &Server) -> Result<RawClient> {
        let mut client = Self::open(server)?;
        client.startup()?;
        Ok(client)
    }

    pub fn startup(&mut self) -> Result<()> {
        let mut body = 196_608i32.to_be_bytes().to_vec();
        body.extend_from_slice(b"user\0tenon\0database\0tenon\0\0");
        self.send_bytes(&[&(body.len() as i32 + 4).to_be_bytes()[..], &body].concat())?;
        for message in self.until_ready()? {
            match message.kind {
                b'K' => self.key = Some(message.body),
                b'E' => bail!("refused: {:?}", message.field(b'M')),
                _ => {}
            }
        }
        Ok(())
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    pub fn send(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        let length = (body.len() as i32 + 4).to_be_bytes();
        self.send_bytes(&[&[kind][..], &length, body].concat())
    }

    pub fn send_query(&mut self, sql: &str) -> Result<()> {
        self.send(b'Q', &[sql.as_bytes(), b"\0"].concat())
    }

    /// The next message; None at the end of the stream.
    pub fn next(&mut self) -> Result<Option<Message>> {
        let mut head = [0u8; 5];
        match self.reader.read(&mut head[..1]) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error).context("no message in time"),
        }
        self.reader.read_exact(&mut head[1..])?;
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        ensure!(length >= 4, "a message of length {length}");
        let mut body = vec![0; length as usize - 4];
        self.reader.read_exact(&mut body)?;
        Ok(Some(Message { kind: head[0], body }))
    }

    /// One byte outside any message: the answer to an SSLRequest.
    pub fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    /// All messages up to ReadyForQuery, or to the end of the stream.
    pub fn until_ready(&mut self) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        while let Some(message) = self.next()? {
            let last = message.kind == b'Z';
            messages.push(message);
            if last {
                break;
            }
        }
        Ok(messages)
    }

    /// Runs a query, counts its DataRow messages without keeping them, and gives any error's SQLSTATE.
    pub fn count_rows(&mut self, sql: &str) -> Result<(u64, Option<String>)> {
        self.send_query(sql)?;
        let (mut rows, mut error) = (0, None);
        while let Some(message) = self.next()? {
            match message.kind {
                b'D' => rows += 1,
                b'E' => error = message.field(b'C'),
                b'Z' => return Ok((rows, error)),
                _ => {}
            }
        }
        bail!("the connection ended after {rows} rows")
    }

    /// Nothing more will be sent.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the connection with nothing said.
    pub fn vanish(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The SQLSTATE of the first error among messages.
pub fn error_state(messages: &[Message]) -> Option<String> {
    messages.iter().find(|m| m.kind == b'E').and_then(|m| m.field(b'C'))
}
