//! Cuts a stream into pieces of whole records, so that pieces can be parsed in parallel.

use super::binary;
use super::fields::PIECE_BYTES_MAX;
use super::line_end::{LineEnd, first_record};
use super::options::{CopyFormat, CopyOptions};
use crate::error::{ErrorKind, Result, StorageError};

/// Bytes of a piece, unless one record is longer: small enough that a piece and its fields stay in a core's cache.
pub const PIECE_BYTES: usize = 512 << 10;

/// The bytes not yet handed on, and what is known of them.
pub struct Cutter {
    format: CopyFormat,
    quote: u8,
    escape: u8,
    held: Vec<u8>,
    /// How far `held` is scanned.
    scanned: usize,
    /// The end of the last whole record within what is scanned.
    boundary: usize,
    /// CSV: inside quotes at `scanned`.
    quoted: bool,
    /// `held` is scanned when it reaches this.
    threshold: usize,
    options: CopyOptions,
    /// What lines end with, once a line has.
    pub line_end: Option<LineEnd>,
    pub binary: binary::Walk,
}

impl Cutter {
    pub fn new(options: &CopyOptions) -> Self {
        Self {
            format: options.format,
            quote: options.quote,
            escape: options.escape,
            held: Vec::new(),
            scanned: 0,
            boundary: 0,
            quoted: false,
            threshold: PIECE_BYTES,
            options: options.clone(),
            line_end: None,
            binary: binary::Walk::default(),
        }
    }

    /// Bytes waiting.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Takes as much of `data` as one piece may need; gives what is left of it, and a piece where one is complete.
    pub fn feed<'a>(&mut self, data: &'a [u8]) -> Result<(&'a [u8], Option<Vec<u8>>)> {
        let take = data.len().min(self.threshold.saturating_sub(self.held.len()).max(1));
        let (now, rest) = data.split_at(take);
        self.held.extend_from_slice(now);
        if self.held.len() < self.threshold {
            return Ok((rest, None));
        }
        self.scan()?;
        if self.boundary == 0 {
            // A record longer than a piece: look again when there is twice as much.
            if self.held.len() >= PIECE_BYTES_MAX / 2 {
                let message = format!("a record is longer than {} bytes", PIECE_BYTES_MAX / 2);
                return Err(StorageError::new(ErrorKind::ProgramLimit, message));
            }
            self.threshold = self.held.len() * 2;
            return Ok((rest, None));
        }
        let mut tail = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 2);
        tail.extend_from_slice(&self.held[self.boundary..]);
        let mut piece = std::mem::replace(&mut self.held, tail);
        piece.truncate(self.boundary);
        self.scanned -= self.boundary;
        self.boundary = 0;
        self.threshold = PIECE_BYTES.max(self.held.len() + PIECE_BYTES / 2);
        Ok((rest, Some(piece)))
    }

    /// What is left at the end of the data, whole or not.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn scan(&mut self) -> Result<()> {
        match self.format {
            CopyFormat::Binary => {
                self.boundary = self.binary.walk(&self.held, self.boundary)?;
                self.scanned = self.boundary;
                return Ok(());
            }
            _ if self.line_end.is_none() => {
                // The last byte may be half of an end.
                let known = self.held.len() - 1;
                self.line_end = first_record(&self.held[..known], &self.options).1;
                if self.line_end.is_none() {
                    return Ok(());
                }
                return self.scan();
            }
            CopyFormat::Text => self.scan_text(),
            CopyFormat::Csv if self.quote == self.escape => self.scan_csv(),
            CopyFormat::Csv => self.scan_csv_escaped(),
        }
        self.scanned = self.held.len();
        Ok(())
    }

    fn newline(&self) -> u8 {
        self.line_end.map_or(b'\n', LineEnd::last)
    }

    /// The last newline that an even number of backslashes precedes.
    fn scan_text(&mut self) {
        for newline in memchr::memrchr_iter(self.newline(), &self.held[self.scanned..]) {
            let newline = self.scanned + newline;
            let backslashes = self.held[..newline]
                .iter()
                .rev()
                .take_while(|byte| **byte == b'\\')
                .count();
            if backslashes % 2 == 0 {
                self.boundary = newline + 1;
                return;
            }
        }
    }

    /// Quotes toggle: newlines outside end records.
    fn scan_csv(&mut self) {
        let mut from = self.scanned;
        while from < self.held.len() {
            let to = memchr::memchr(self.quote, &self.held[from..]).map_or(self.held.len(), |at| from + at);
            if !self.quoted
                && let Some(newline) = memchr::memrchr(self.newline(), &self.held[from..to])
            {
                self.boundary = from + newline + 1;
            }
            self.quoted ^= to < self.held.len();
            from = to + 1;
        }
    }

    /// With an escape of its own: inside quotes it takes the next quote or escape with it. Scans from the boundary
    /// again, because an escape may be the last byte there is.
    fn scan_csv_escaped(&mut self) {
        let mut at = self.boundary;
        self.quoted = false;
        while at < self.held.len() {
            let byte = self.held[at];
            if self.quoted && byte == self.escape {
                at += usize::from(
                    self.held
                        .get(at + 1)
                        .is_some_and(|next| *next == self.quote || *next == self.escape),
                );
            } else if byte == self.quote {
                self.quoted = !self.quoted;
            } else if byte == self.newline() && !self.quoted {
                self.boundary = at + 1;
            }
            at += 1;
        }
    }
}
