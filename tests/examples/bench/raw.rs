//! A client that receives all that the server sends for a query and looks no further: what clients make of rows is their own,
//! and some take longer for that than the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail, ensure};

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 256 << 10;

pub struct Raw {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// Of the buffer, what was received and not looked at.
    held: std::ops::Range<usize>,
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Result<Raw> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut raw = Raw {
            socket,
            buffer: vec![0; BUFFER_BYTES],
            held: 0..0,
        };
        let body = b"\0\x03\0\0user\0bench\0\0";
        raw.socket.write_all(&(body.len() as u32 + 4).to_be_bytes())?;
        raw.socket.write_all(body)?;
        raw.until_ready()?;
        Ok(raw)
    }

    /// Sends a query and receives its result; gives the rows.
    pub fn query(&mut self, sql: &str) -> Result<usize> {
        let mut message = vec![b'Q'];
        message.extend((sql.len() as u32 + 5).to_be_bytes());
        message.extend(sql.as_bytes());
        message.push(0);
        self.socket.write_all(&message)?;
        self.until_ready()
    }

    fn until_ready(&mut self) -> Result<usize> {
        let mut rows = 0;
        loop {
            let header = self.bytes(5)?;
            let (kind, length) = (
                header[0],
                u32::from_be_bytes([header[1], header[2], header[3], header[4]]),
            );
            let mut rest = (length as usize).checked_sub(4).context("a message's length")?;
            match kind {
                b'D' => rows += 1,
                b'E' => {
                    let body = self.bytes(rest.min(BUFFER_BYTES))?;
                    bail!("{}", String::from_utf8_lossy(body));
                }
                _ => {}
            }
            while rest > 0 {
                let part = rest.min(BUFFER_BYTES);
                self.bytes(part)?;
                rest -= part;
            }
            if kind == b'Z' {
                return Ok(rows);
            }
        }
    }

    /// The next bytes, at most as many as the buffer has.
    fn bytes(&mut self, count: usize) -> Result<&[u8]> {
        if self.held.len() < count && self.buffer.len() - self.held.start < count {
            self.buffer.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        while self.held.len() < count {
            if self.held.is_empty() {
                self.held = 0..0;
            }
            let received = self.socket.read(&mut self.buffer[self.held.end..])?;
            ensure!(received > 0, "the server has closed the connection");
            self.held.end += received;
        }
        let start = self.held.start;
        self.held.start += count;
        Ok(&self.buffer[start..start + count])
    }
}
