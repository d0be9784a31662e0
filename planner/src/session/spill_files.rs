//! The files of queries that go on through files.
//!
//! They have no names: whatever ends the server, nothing is left of them. They are read by the threads that work on the query, as
//! they are written, in small pieces: a thread of its own for each file that is read at a time would keep its own share of
//! freed memory.

use crate::pg::error::{SqlError, state};
use bytes::Bytes;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, StreamExt};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is read at a time, bytes.
const PIECE_BYTES: usize = 64 << 10;

/// A directory for files, and what they may take together.
pub(crate) struct SpillFiles {
    directory: PathBuf,
    space: Arc<Space>,
}

struct Space {
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

impl SpillFiles {
    /// # Errors
    /// There can be no files in the directory.
    pub fn new(directory: &Path, limit_bytes: u64) -> io::Result<Self> {
        tempfile::tempfile_in(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            space: Arc::new(Space {
                limit_bytes,
                used_bytes: AtomicU64::new(0),
            }),
        })
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(Opened(Arc::new(Written {
            file: tempfile::tempfile_in(&self.directory)?,
            bytes: AtomicU64::new(0),
            space: self.space.clone(),
        }))))
    }
}

struct Opened(Arc<Written>);

/// A file, and how long it is.
struct Written {
    file: File,
    bytes: AtomicU64,
    space: Arc<Space>,
}

impl SpillFile for Opened {
    fn size(&self) -> Option<u64> {
        Some(self.0.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let pieces = Pieces {
            file: self.0.clone(),
            at: 0,
        };
        Ok(futures::stream::iter(pieces).boxed())
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(self.0.clone())))
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.space.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

struct Writer(Arc<Written>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Written {
            file,
            bytes: written,
            space,
        } = &*self.0;
        let taken = bytes.len() as u64;
        let used = space.used_bytes.fetch_add(taken, Ordering::Relaxed);
        // What is taken goes with the file.
        written.fetch_add(taken, Ordering::Relaxed);
        if used.saturating_add(taken) > space.limit_bytes {
            let full = SqlError::new(state::DISK_FULL, "the files of running queries exceed their limit");
            return Err(io::Error::other(full.hint("See the server's setting spill_limit.")));
        }
        (&*file).write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A file from its beginning to where it ends.
struct Pieces {
    file: Arc<Written>,
    at: u64,
}

impl Iterator for Pieces {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.file.bytes.load(Ordering::Relaxed).saturating_sub(self.at);
        let mut piece = vec![0; left.min(PIECE_BYTES as u64) as usize];
        let mut filled = 0;
        while filled < piece.len() {
            match self.file.file.read_at(&mut piece[filled..], self.at + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Some(Err(DataFusionError::IoError(error))),
            }
        }
        piece.truncate(filled);
        self.at += filled as u64;
        (filled > 0).then(|| Ok(piece.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::errors::from_datafusion;

    async fn read(file: &Arc<dyn SpillFile>) -> Vec<u8> {
        let pieces: Vec<_> = file.read_stream().unwrap().collect().await;
        let pieces: Vec<Bytes> = pieces.into_iter().map(Result::unwrap).collect();
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
        pieces.concat()
    }

    #[tokio::test]
    async fn files_are_read_as_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let files = SpillFiles::new(directory.path(), 1 << 20).unwrap();
        let file = files.create_temp_file("test").unwrap();
        assert!(read(&file).await.is_empty());
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at * 7) as u8).collect();
        let mut writer = file.open_writer().unwrap();
        writer.write_all(&bytes[..1000]).unwrap();
        assert_eq!(read(&file).await, bytes[..1000]);
        writer.write_all(&bytes[1000..]).unwrap();
        writer.finish().unwrap();
        drop(writer);
        // Twice, and by two at a time.
        let both = futures::future::join(read(&file), read(&file)).await;
        assert!(both.0 == bytes && both.1 == bytes);
        assert_eq!(file.size(), Some(bytes.len() as u64));
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
    }

    #[test]
    fn files_have_a_limit_together() {
        let directory = tempfile::tempdir().unwrap();
        let files = SpillFiles::new(directory.path(), 1000).unwrap();
        let [one, other] = [(); 2].map(|()| files.create_temp_file("test").unwrap());
        one.open_writer().unwrap().write_all(&[1; 600]).unwrap();
        let error = other.open_writer().unwrap().write_all(&[1; 600]).unwrap_err();
        assert_eq!(from_datafusion(&error.into()).state, state::DISK_FULL);
        // What had no room is not counted either, once its file has gone.
        drop(other);
        let third = files.create_temp_file("test").unwrap();
        third.open_writer().unwrap().write_all(&[1; 400]).unwrap();
        drop((one, third));
        assert_eq!(files.space.used_bytes.load(Ordering::Relaxed), 0);
        assert!(SpillFiles::new(&directory.path().join("none"), 1).is_err());
    }
}
