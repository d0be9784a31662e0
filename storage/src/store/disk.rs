//! What the store asks of the file system, in one place: tests put a disk that fails in its stead.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Changes files and makes them durable.
pub trait Disk: Send + Sync {
    /// A new, empty file.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// A file that is there, to be written on.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// A file that is written.
pub trait DiskFile: Send + Sync {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Makes the file at least so long, with room on the disk for what is behind its end, which reads as zeros.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Begins to bring to the disk what was written there: the sync to come waits the less. Where that cannot be, nothing happens.
    fn begin_sync(&self, offset: u64, bytes: u64);
    /// Returns when what was written survives a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// The machine's own.
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(OpenOptions::new().write(true).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let from = self.0.metadata()?.len();
        let Some(more) = bytes.checked_sub(from).filter(|more| *more > 0) else {
            return Ok(());
        };
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let from = from.try_into().map_err(too_large)?;
        let more = more.try_into().map_err(too_large)?;
        // SAFETY: the descriptor is open for as long as the file lives; no memory is involved.
        match unsafe { libc::fallocate(self.0.as_raw_fd(), 0, from, more) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn begin_sync(&self, offset: u64, bytes: u64) {
        let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else {
            return;
        };
        // SAFETY: the descriptor is open for as long as the file lives; no memory is involved.
        unsafe { libc::sync_file_range(self.0.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
