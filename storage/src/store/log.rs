//! The log: records in files with growing numbers, one behind the other. Who needs his record to be durable waits for a
//! sync that began after it was written; all who wait meanwhile share the next one (group commit).

use super::disk::{Disk, DiskFile};
use super::record::{self, FileKind, HEADING_BYTES, Kind, RecordLocation};
use crate::error::{ErrorKind, Result, StorageError};
use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Parts of a record that is no longer are put together before they are written.
const SHORT_BYTES_MAX: u64 = 64 << 10;

/// Room that is taken for short records before they come: a sync of a file that has become no longer need not write where
/// its end is.
const ROOM_BYTES: u64 = 4 << 20;

/// How far the log is written, or durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    file: u64,
    offset: u64,
}

impl Position {
    pub(super) fn file(self) -> u64 {
        self.file
    }

    pub(super) fn offset(self) -> u64 {
        self.offset
    }
}

pub(super) struct Log {
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    tail: Mutex<Tail>,
    durable: Mutex<Durable>,
    synced: Condvar,
}

struct Tail {
    number: u64,
    file: Arc<dyn DiskFile>,
    /// Where the next record goes.
    offset: u64,
    /// How far there is room, where it is known: behind the records that is zeros.
    room: Option<u64>,
}

struct Durable {
    upto: Position,
    /// Somebody syncs.
    running: bool,
    /// How often the file was synced.
    syncs: u64,
    /// Why nothing can be made durable any more: after a sync that failed nobody knows what the disk holds.
    failed: Option<String>,
}

impl Log {
    pub(super) fn path_in(directory: &Path, number: u64) -> PathBuf {
        directory.join(format!("log-{number:016}"))
    }

    /// A new log of this number.
    pub(super) fn create(directory: &Path, disk: Arc<dyn Disk>, number: u64) -> Result<Log> {
        let file = created(directory, &*disk, number)?;
        Ok(Log::at(directory, disk, number, file, HEADING_BYTES))
    }

    /// The log of this number, which is there, goes on at `offset`.
    pub(super) fn reopen(directory: &Path, disk: Arc<dyn Disk>, number: u64, offset: u64) -> Result<Log> {
        let path = Log::path_in(directory, number);
        let file = disk.open(&path).map_err(|error| record::failed(&path, &error))?;
        let cut = file.set_len(offset).and_then(|()| file.sync());
        cut.map_err(|error| record::failed(&path, &error))?;
        Ok(Log::at(directory, disk, number, file, offset))
    }

    fn at(directory: &Path, disk: Arc<dyn Disk>, number: u64, file: Arc<dyn DiskFile>, offset: u64) -> Log {
        let upto = Position { file: number, offset };
        Log {
            directory: directory.into(),
            disk,
            tail: Mutex::new(Tail {
                number,
                file,
                offset,
                room: Some(offset),
            }),
            durable: Mutex::new(Durable {
                upto,
                running: false,
                syncs: 0,
                failed: None,
            }),
            synced: Condvar::new(),
        }
    }

    /// The newest file's number and size.
    pub(super) fn newest(&self) -> (u64, u64) {
        let tail = self.tail.lock();
        (tail.number, tail.offset)
    }

    pub(super) fn end(&self) -> Position {
        let (file, offset) = self.newest();
        Position { file, offset }
    }

    /// Writes a record. On error the log is as it was.
    pub(super) fn append(&self, kind: Kind, payload: &[&[u8]]) -> Result<(RecordLocation, Position)> {
        let bytes: u64 = payload.iter().map(|part| part.len() as u64).sum();
        let is_short = bytes <= SHORT_BYTES_MAX;
        // Nobody waits while the checksum is computed, unless the log goes on in another file meanwhile.
        let durable = self.durable.lock().upto;
        let mut header = record::header(kind, durable.offset, payload);
        let mut tail = self.tail.lock();
        refuse(&self.durable.lock())?;
        if durable.file != tail.number {
            header = record::header(kind, HEADING_BYTES, payload);
        }
        // Those of a checkpoint wait for one sync together.
        if is_short && kind != Kind::Segment {
            let end = record::next(tail.offset, bytes);
            tail.make_room(end);
        }
        let write = || {
            // Short records go to the file by one call.
            if is_short {
                let parts = [&[&header[..]], payload].concat();
                return tail.file.write_at(&parts.concat(), tail.offset);
            }
            let mut at = tail.offset;
            for part in [&header[..]].iter().chain(payload) {
                tail.file.write_at(part, at)?;
                at += part.len() as u64;
            }
            tail.file.begin_sync(tail.offset, at - tail.offset);
            Ok(())
        };
        if let Err(error) = write() {
            // The next record goes over what this one left; should the file be read before, that is a torn end.
            let _ = tail.cut();
            return Err(record::failed(&Log::path_in(&self.directory, tail.number), &error));
        }
        let place = RecordLocation {
            file: tail.number,
            offset: tail.offset,
            bytes,
        };
        tail.offset = record::next(tail.offset, bytes);
        let position = Position {
            file: tail.number,
            offset: tail.offset,
        };
        Ok((place, position))
    }

    /// Returns when the log is durable up to `upto`.
    pub(super) fn sync(&self, upto: Position) -> Result<()> {
        let mut durable = self.durable.lock();
        loop {
            if durable.upto >= upto {
                return Ok(());
            }
            refuse(&durable)?;
            if !durable.running {
                break;
            }
            self.synced.wait(&mut durable);
        }
        durable.running = true;
        drop(durable);
        let (file, target) = {
            let tail = self.tail.lock();
            let (file, offset) = (tail.number, tail.offset);
            (tail.file.clone(), Position { file, offset })
        };
        let result = file.sync();
        let mut durable = self.durable.lock();
        durable.running = false;
        self.synced.notify_all();
        match result {
            Ok(()) => {
                durable.upto = durable.upto.max(target);
                durable.syncs += 1;
                Ok(())
            }
            Err(error) => Err(self.lost(&mut durable, target.file, &error)),
        }
    }

    pub(super) fn syncs(&self) -> u64 {
        self.durable.lock().syncs
    }

    /// Whether nothing can be made durable any more.
    pub(super) fn has_failed(&self) -> bool {
        self.durable.lock().failed.is_some()
    }

    /// Whether the log is durable up to there.
    pub(super) fn is_durable(&self, upto: Position) -> bool {
        self.durable.lock().upto >= upto
    }

    /// Goes on in a new file, whose number it gives; all before it is durable then.
    pub(super) fn rotate(&self) -> Result<u64> {
        let mut tail = self.tail.lock();
        refuse(&self.durable.lock())?;
        let path = Log::path_in(&self.directory, tail.number);
        tail.cut().map_err(|error| record::failed(&path, &error))?;
        if let Err(error) = tail.file.sync() {
            return Err(self.lost(&mut self.durable.lock(), tail.number, &error));
        }
        let number = tail.number + 1;
        let file = created(&self.directory, &*self.disk, number)?;
        *tail = Tail {
            number,
            file,
            offset: HEADING_BYTES,
            room: Some(HEADING_BYTES),
        };
        let mut durable = self.durable.lock();
        durable.upto = Position {
            file: number,
            offset: HEADING_BYTES,
        };
        self.synced.notify_all();
        Ok(number)
    }

    /// Gives back the room behind the last record. Should that fail, nothing is there all the same.
    pub(super) fn close(&self) {
        let _ = self.tail.lock().cut();
    }

    fn lost(&self, durable: &mut Durable, number: u64, error: &std::io::Error) -> StorageError {
        let failed = record::failed(&Log::path_in(&self.directory, number), error);
        durable.failed = Some(failed.message.clone());
        tracing::error!("{failed}: nothing more is committed until the server starts again");
        self.synced.notify_all();
        failed
    }
}

impl Tail {
    /// Takes room for records up to there, and for more to come. Where that cannot be, the file grows with each.
    fn make_room(&mut self, end: u64) {
        if self.room.is_some_and(|room| room < end) {
            let more = end + ROOM_BYTES;
            self.room = self.file.allocate(more).is_ok().then_some(more);
        }
    }

    /// Ends the file behind its last record.
    fn cut(&mut self) -> std::io::Result<()> {
        self.room = self.room.map(|_| self.offset);
        self.file.set_len(self.offset)
    }
}

fn refuse(durable: &Durable) -> Result<()> {
    match &durable.failed {
        None => Ok(()),
        Some(why) => {
            let message = "the store takes no more changes since a write to disk failed";
            Err(StorageError::new(ErrorKind::Io, message)
                .detail(why.clone())
                .hint("Restart the server."))
        }
    }
}

/// A new file of the log, durable with its name.
fn created(directory: &Path, disk: &dyn Disk, number: u64) -> Result<Arc<dyn DiskFile>> {
    let path = Log::path_in(directory, number);
    let create = || {
        let file = disk.create(&path)?;
        file.write_at(&record::heading(FileKind::Log, number), 0)?;
        file.sync()?;
        disk.sync_directory(directory)?;
        Ok(file)
    };
    create().map_err(|error: std::io::Error| {
        let _ = disk.remove(&path);
        record::failed(&path, &error)
    })
}
