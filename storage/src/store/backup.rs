//! A copy of a store that is in use, as a tar archive: its newest checkpoint and all logs up to what is durable now. Unpacked it is
//! a store, which holds what was committed when the copy began.
//!
//! The files are opened at once and read later: what a checkpoint removes meanwhile stays readable, and what is written is
//! behind the places that are read.

use super::log::Log;
use super::recover::Files;
use super::{Store, record};
use crate::error::{ErrorKind, Result, StorageError};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use tar::{Archive, EntryType, Header};

/// Bytes of a tar archive's block.
const BLOCK_BYTES: usize = 512;
/// Bytes read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Files of a store, open.
pub struct Backup(Vec<BackupFile>);

struct BackupFile {
    path: PathBuf,
    file: File,
    /// Of it that belong to the copy.
    bytes: u64,
}

impl Backup {
    /// Of a store whose newest checkpoint is `checkpoint`; the caller holds off others.
    pub(super) fn of(store: &Store, checkpoint: u64) -> Result<Backup> {
        let end = store.log.end();
        store.log.sync(end)?;
        let open = |path: PathBuf, bytes: Option<u64>| {
            let file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
            let all = file.metadata().map_err(|error| unreadable(&path, &error))?.len();
            // Behind the last record is no padding yet.
            let bytes = bytes.map_or(all, |end: u64| end.min(all));
            Ok::<_, StorageError>(BackupFile { path, file, bytes })
        };
        let mut files = vec![];
        for log in Files::of(&store.directory)?.logs {
            let bytes = (log == end.file()).then_some(end.offset());
            files.push(open(Log::path_in(&store.directory, log), bytes)?);
        }
        // The last: an archive without one is not whole.
        files.push(open(Store::checkpoint_path(&store.directory, checkpoint), None)?);
        Ok(Backup(files))
    }

    /// Of all files together.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|file| file.bytes).sum()
    }

    /// The archive, piece by piece.
    pub fn pieces(self) -> impl Iterator<Item = Result<Vec<u8>>> + Send {
        let files = self.0.into_iter().flat_map(|file| {
            let (header, mut done) = (file.header(), 0);
            let contents = std::iter::from_fn(move || {
                let piece = file.piece(done)?;
                done += PIECE_BYTES as u64;
                Some(piece)
            });
            std::iter::once(header).chain(contents)
        });
        // Two empty blocks end it.
        files.chain([Ok(vec![0; 2 * BLOCK_BYTES])])
    }
}

impl BackupFile {
    fn header(&self) -> Result<Vec<u8>> {
        let mut header = Header::new_gnu();
        let name = Path::new(self.path.file_name().unwrap_or_default());
        header.set_path(name).map_err(StorageError::internal)?;
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_size(self.bytes);
        header.set_cksum();
        Ok(header.as_bytes().to_vec())
    }

    /// The bytes from a place on, whole blocks; None: there are no more.
    fn piece(&self, from: u64) -> Option<Result<Vec<u8>>> {
        use std::os::unix::fs::FileExt;
        let bytes = self
            .bytes
            .checked_sub(from)
            .filter(|left| *left > 0)?
            .min(PIECE_BYTES as u64) as usize;
        let mut piece = vec![0; bytes.next_multiple_of(BLOCK_BYTES)];
        let read = self.file.read_exact_at(&mut piece[..bytes], from);
        Some(read.map(|()| piece).map_err(|error| unreadable(&self.path, &error)))
    }
}

/// Unpacks an archive into a directory, which is made. Whether it is sound is seen when it is opened as a store.
pub fn unpack(archive: impl Read, directory: &Path) -> Result<()> {
    std::fs::create_dir(directory).map_err(|error| record::failed(directory, &error))?;
    let mut archive = Archive::new(archive);
    let broken = |error: &std::io::Error| {
        StorageError::new(
            ErrorKind::DataCorrupted,
            format!("the backup is not one, or not whole: {error}"),
        )
    };
    let mut has_checkpoint = false;
    for entry in archive.entries().map_err(|error| broken(&error))? {
        let mut entry = entry.map_err(|error| broken(&error))?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if !Files::is_name(&name) || entry.header().entry_type() != EntryType::Regular {
            let message = format!("the backup is not one: \"{name}\" is no file of a store");
            return Err(StorageError::new(ErrorKind::DataCorrupted, message));
        }
        has_checkpoint |= name.starts_with("checkpoint-");
        let path = directory.join(&name);
        let mut file = File::create_new(&path).map_err(|error| record::failed(&path, &error))?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = entry.size();
        while left > 0 {
            let read = entry.read(&mut piece).map_err(|error| broken(&error))?;
            if read == 0 {
                return Err(broken(&std::io::ErrorKind::UnexpectedEof.into()));
            }
            file.write_all(&piece[..read])
                .map_err(|error| record::failed(&path, &error))?;
            left -= read as u64;
        }
        file.sync_all().map_err(|error| record::failed(&path, &error))?;
    }
    if !has_checkpoint {
        return Err(broken(&std::io::ErrorKind::UnexpectedEof.into()));
    }
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| record::failed(directory, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> StorageError {
    StorageError::new(ErrorKind::Io, format!("could not read \"{}\": {error}", path.display()))
}
