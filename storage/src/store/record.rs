//! Records: what the store's files are made of.
//!
//! ```text
//! file   = heading, then records, each at a multiple of 8 bytes
//! heading = "TENON\0" kind: u16, version: u32, 0: u32, number of the file: u64
//! record = magic: u32, kind: u32, bytes of the payload: u64, synced: u64, checksum: [u8; 16], payload
//! ```
//! Integers are little-endian. `synced` is how much of the file was known to be durable when the record was written: a bad
//! record before that place is damage to what was acknowledged, one behind it was being written when the process died. The
//! checksum is of all other bytes of the record (BLAKE3, 128 bits).

use crate::error::{ErrorKind, Result, StorageError};
use arrow::buffer::{Buffer, MutableBuffer};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Of all files; a server reads older ones and refuses newer ones. Since 2 the catalog knows owners and rights, since 3
/// commits may have rows.
pub(super) const VERSION: u32 = 3;
pub(super) const HEADING_BYTES: u64 = 24;
pub(super) const HEADER_BYTES: usize = 40;
const FILE_MAGIC: &[u8; 6] = b"TENON\0";
const RECORD_MAGIC: u32 = 0x544e_5243;
const ALIGNMENT: u64 = 8;
const CHECKSUM_AT: usize = 24;
/// Memory to read records into is so large, or several times that: one record more seldom needs more.
const ROOM_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Log = 1,
    Checkpoint = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rows of a table: the number of the segment, then its columns.
    Segment = 1,
    /// What a transaction changed.
    Commit = 2,
    /// Values that sequences have given.
    Sequences = 3,
    /// The whole catalog, and where each segment lies.
    Checkpoint = 4,
    /// What a transaction changed, and rows of segments (`inline`).
    CommitWithRows = 5,
}

impl Kind {
    fn of(number: u32) -> Option<Kind> {
        let all = [
            Kind::Segment,
            Kind::Commit,
            Kind::Sequences,
            Kind::Checkpoint,
            Kind::CommitWithRows,
        ];
        all.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct RecordLocation {
    /// The log's number.
    pub file: u64,
    pub offset: u64,
    /// Of the payload.
    pub bytes: u64,
}

/// What a file begins with.
pub(super) fn heading(kind: FileKind, number: u64) -> [u8; HEADING_BYTES as usize] {
    let mut heading = [0; HEADING_BYTES as usize];
    heading[..6].copy_from_slice(FILE_MAGIC);
    heading[6..8].copy_from_slice(&(kind as u16).to_le_bytes());
    heading[8..12].copy_from_slice(&VERSION.to_le_bytes());
    heading[16..].copy_from_slice(&number.to_le_bytes());
    heading
}

/// Checks what a file begins with.
pub(super) fn check_heading(file: &File, path: &Path, kind: FileKind, number: u64) -> Result<()> {
    let mut found = [0; HEADING_BYTES as usize];
    file.read_exact_at(&mut found, 0)
        .map_err(|error| damaged(path, 0, format!("its heading cannot be read: {error}")))?;
    let version = u32::from_le_bytes([found[8], found[9], found[10], found[11]]);
    if &found[..6] == FILE_MAGIC && version > VERSION {
        let message = format!(
            "\"{}\" was written by a newer version of the server (format {version}, this one reads up to {VERSION})",
            path.display()
        );
        return Err(StorageError::new(ErrorKind::Unsupported, message));
    }
    // Older files differ in nothing else.
    if (1..VERSION).contains(&version) {
        found[8..12].copy_from_slice(&VERSION.to_le_bytes());
    }
    match found == heading(kind, number) {
        true => Ok(()),
        false => Err(damaged(path, 0, "its heading is not one of this kind and number")),
    }
}

/// The header of a record with this payload, which may come in parts.
pub(super) fn header(kind: Kind, synced: u64, payload: &[&[u8]]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let bytes: usize = payload.iter().map(|part| part.len()).sum();
    header[..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&(kind as u32).to_le_bytes());
    header[8..16].copy_from_slice(&(bytes as u64).to_le_bytes());
    header[16..24].copy_from_slice(&synced.to_le_bytes());
    let checksum = checksum(&header, payload);
    header[CHECKSUM_AT..].copy_from_slice(&checksum);
    header
}

fn checksum(header: &[u8; HEADER_BYTES], payload: &[&[u8]]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header[..CHECKSUM_AT]);
    payload.iter().for_each(|part| {
        hasher.update(part);
    });
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    short
}

/// Where the record behind one begins.
pub(super) fn next(offset: u64, payload_bytes: u64) -> u64 {
    (offset + HEADER_BYTES as u64 + payload_bytes).next_multiple_of(ALIGNMENT)
}

/// A record as it was read.
pub(super) struct Record {
    pub kind: Kind,
    pub synced: u64,
    pub payload: Vec<u8>,
}

/// The record at a place; None: there is no whole and sound one.
pub(super) fn read(file: &File, offset: u64, file_bytes: u64) -> io::Result<Option<Record>> {
    let mut header = [0; HEADER_BYTES];
    if offset.saturating_add(HEADER_BYTES as u64) > file_bytes {
        return Ok(None);
    }
    file.read_exact_at(&mut header, offset)?;
    let Some((kind, synced, bytes)) = parts(&header) else {
        return Ok(None);
    };
    let end = offset
        .checked_add(HEADER_BYTES as u64)
        .and_then(|start| start.checked_add(bytes));
    if end.is_none_or(|end| end > file_bytes) {
        return Ok(None);
    }
    let mut payload = vec![0; bytes as usize];
    file.read_exact_at(&mut payload, offset + HEADER_BYTES as u64)?;
    let sound = checksum(&header, &[&payload]) == header[CHECKSUM_AT..];
    Ok(sound.then_some(Record { kind, synced, payload }))
}

/// Where `read_at` puts the payload of a record in what it gives: at a multiple of 8 bytes.
pub(super) const PAYLOAD_AT: usize = HEADER_BYTES;

/// Kind and bytes of the record at a place where one of these bytes is known to be, read into `room`, which is made larger
/// where it is too small. The payload begins at `PAYLOAD_AT`; what is behind it is left of other records. `checked`: it was
/// found sound before.
pub(super) fn read_at(
    file: &File,
    path: &Path,
    place: RecordLocation,
    checked: bool,
    mut room: MutableBuffer,
) -> Result<(Kind, Buffer)> {
    let wrong = |what: &dyn std::fmt::Display| damaged(path, place.offset, what);
    let end = place
        .offset
        .saturating_add(PAYLOAD_AT as u64)
        .saturating_add(place.bytes);
    let file_bytes = file.metadata().map_err(|error| wrong(&error))?.len();
    if end > file_bytes {
        return Err(wrong(&"a record is cut off"));
    }
    let bytes = PAYLOAD_AT + place.bytes as usize;
    if room.len() < bytes {
        // Not grown, which would copy what nobody needs.
        room = MutableBuffer::from_len_zeroed(bytes.next_multiple_of(ROOM_BYTES));
    }
    let record = &mut room.as_slice_mut()[..bytes];
    file.read_exact_at(record, place.offset)
        .map_err(|error| wrong(&error))?;
    let kind = record.first_chunk().and_then(parts).map(|(kind, ..)| kind);
    match kind.filter(|_| checked || is_sound(record)) {
        Some(kind) => Ok((kind, room.into())),
        None => Err(wrong(&"a record's checksum is wrong")),
    }
}

/// Whether the header and payload of a record are those that were written.
pub(super) fn is_sound(record: &[u8]) -> bool {
    let Some((header, payload)) = record.split_first_chunk() else {
        return false;
    };
    checksum(header, &[payload]) == header[CHECKSUM_AT..]
}

/// Kind, synced and bytes of a header.
pub(super) fn parts(header: &[u8; HEADER_BYTES]) -> Option<(Kind, u64, u64)> {
    let four = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let eight = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
    (four(0)? == RECORD_MAGIC).then_some(())?;
    Some((Kind::of(four(4)?)?, eight(16)?, eight(8)?))
}

/// What a file holds behind its last whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Zeros: room for more.
    Room,
    /// What was being written.
    Torn,
    /// A sound record that knew of what was before it as durable.
    Acknowledged,
}

/// What is at `offset` and behind it.
pub(super) fn rest(file: &File, offset: u64, file_bytes: u64) -> io::Result<Rest> {
    let mut found = Rest::Room;
    let mut at = offset.next_multiple_of(ALIGNMENT);
    let mut block = vec![0; 1 << 20];
    while at < file_bytes {
        let bytes = ((file_bytes - at) as usize).min(block.len());
        file.read_exact_at(&mut block[..bytes], at)?;
        if block[..bytes].iter().any(|byte| *byte != 0) {
            found = Rest::Torn;
        }
        for (index, word) in block[..bytes].chunks_exact(ALIGNMENT as usize).enumerate() {
            let place = at + index as u64 * ALIGNMENT;
            if word[..4] == RECORD_MAGIC.to_le_bytes()
                && let Some(record) = read(file, place, file_bytes)?
                && record.synced > offset
            {
                return Ok(Rest::Acknowledged);
            }
        }
        at += bytes as u64;
    }
    Ok(found)
}

/// What a file that is not as it was written gives.
pub(super) fn damaged(path: &Path, offset: u64, what: impl std::fmt::Display) -> StorageError {
    let message = format!("\"{}\" is damaged at byte {offset}: {what}", path.display());
    StorageError::new(ErrorKind::DataCorrupted, message)
}

/// What a write that fails gives.
pub(super) fn failed(path: &Path, error: &io::Error) -> StorageError {
    let full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    );
    let kind = if full { ErrorKind::DiskFull } else { ErrorKind::Io };
    StorageError::new(kind, format!("could not write to \"{}\": {error}", path.display()))
}
