//! Reading a log from its beginning: which records it has, up to the last that is whole.
//!
//! Rows are not looked at where a later record says that they were durable: who reads them checks them. Those that no record
//! knows of as durable are checked on all cores.

use super::record::{self, HEADER_BYTES, HEADING_BYTES, Kind, RecordLocation};
use rayon::prelude::*;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes read at a time.
const WINDOW_BYTES: usize = 1 << 16;

/// A record of a log.
pub(super) struct Scanned {
    pub kind: Kind,
    pub place: RecordLocation,
    /// Of a segment its number alone, which nobody checked where the record is `trusted`.
    pub payload: Vec<u8>,
}

/// A log's records.
pub(super) struct Scan<'a> {
    file: &'a File,
    /// The file's number and size.
    number: u64,
    bytes: u64,
    /// What was read last, and where that begins.
    window: Vec<u8>,
    from: u64,
}

impl<'a> Scan<'a> {
    pub fn new(file: &'a File, number: u64, bytes: u64) -> Scan<'a> {
        Scan {
            file,
            number,
            bytes,
            window: Vec::new(),
            from: 0,
        }
    }

    /// Gives all records in their order to `take`, which says where a record's payload makes no sense, and gives the place behind
    /// the last.
    pub fn run<E>(mut self, mut take: impl FnMut(Scanned, bool) -> Result<(), E>) -> io::Result<Result<u64, E>> {
        // Those of which nobody has said yet that they are durable.
        let mut pending: Vec<Scanned> = Vec::new();
        let mut offset = HEADING_BYTES;
        while let Some((found, synced)) = self.next(offset)? {
            offset = record::next(offset, found.place.bytes);
            pending.push(found);
            let durable = pending.partition_point(|found| found.place.offset < synced);
            for found in pending.drain(..durable) {
                if let Err(error) = take(found, true) {
                    return Ok(Err(error));
                }
            }
        }
        let torn = pending.par_iter().filter(|found| found.kind == Kind::Segment);
        let torn = torn.map(|found| Ok((found.place.offset, self.is_sound(found.place)?)));
        let torn = torn.collect::<io::Result<Vec<_>>>()?;
        let torn = torn.into_iter().find(|(_, sound)| !sound);
        let end = torn.map_or(offset, |(torn, _)| torn);
        for found in pending.into_iter().take_while(|found| found.place.offset < end) {
            if let Err(error) = take(found, false) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(end))
    }

    /// The record at a place, and what it knew as durable; None: none that is whole and, but for a segment, sound.
    fn next(&mut self, offset: u64) -> io::Result<Option<(Scanned, u64)>> {
        let Some(begin) = self.read(offset, HEADER_BYTES)? else {
            return Ok(None);
        };
        let Some((kind, synced, bytes)) = begin.first_chunk().and_then(record::parts) else {
            return Ok(None);
        };
        let place = RecordLocation {
            file: self.number,
            offset,
            bytes,
        };
        let whole = (HEADER_BYTES as u64)
            .checked_add(bytes)
            .and_then(|all| offset.checked_add(all));
        if whole.is_none_or(|end| end > self.bytes) {
            return Ok(None);
        }
        let is_segment = kind == Kind::Segment;
        let read = match is_segment {
            true => bytes.min(size_of::<u64>() as u64),
            false => bytes,
        };
        let Some(record) = self.read(offset, HEADER_BYTES + read as usize)? else {
            return Ok(None);
        };
        if !is_segment && !record::is_sound(record) {
            return Ok(None);
        }
        let payload = record[HEADER_BYTES..].to_vec();
        // A segment's header was not checked.
        let synced = if is_segment { 0 } else { synced };
        Ok(Some((Scanned { kind, place, payload }, synced)))
    }

    /// Bytes of the file; None: it is shorter.
    fn read(&mut self, offset: u64, bytes: usize) -> io::Result<Option<&[u8]>> {
        let Some(left) = self.bytes.checked_sub(offset).filter(|left| *left >= bytes as u64) else {
            return Ok(None);
        };
        let there = offset >= self.from && offset + bytes as u64 <= self.from + self.window.len() as u64;
        if !there {
            let more = (bytes.max(WINDOW_BYTES) as u64).min(left) as usize;
            self.window.resize(more, 0);
            self.from = offset;
            self.file.read_exact_at(&mut self.window, offset)?;
        }
        let at = (offset - self.from) as usize;
        Ok(Some(&self.window[at..at + bytes]))
    }

    fn is_sound(&self, place: RecordLocation) -> io::Result<bool> {
        Ok(record::read(self.file, place.offset, self.bytes)?.is_some())
    }
}
