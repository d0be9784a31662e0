//! A disk that keeps in mind what was not synced, dies when told to, and after that has any part of it.

use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenon_storage::RealDisk;
use tenon_storage::store::{Disk, DiskFile};

/// What a file was asked for since its last sync.
enum Change {
    Write(Vec<u8>, u64),
    Length(u64),
    Allocate(u64),
}

struct Inner {
    random: StdRng,
    /// Operations until the power goes; None: it stays.
    left: Option<u64>,
    /// The next write, or sync, fails so.
    fail_write: Option<io::ErrorKind>,
    fail_sync: bool,
    pending: Vec<(PathBuf, Change)>,
    slow: Duration,
}

pub(crate) struct SimDisk {
    inner: Arc<Mutex<Inner>>,
    syncs: Arc<AtomicU64>,
}

struct SimFile {
    path: PathBuf,
    real: Arc<dyn DiskFile>,
    inner: Arc<Mutex<Inner>>,
    syncs: Arc<AtomicU64>,
}

impl Inner {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn apply(real: &dyn DiskFile, change: &Change) -> io::Result<()> {
    match change {
        Change::Write(bytes, offset) => real.write_at(bytes, *offset),
        Change::Length(bytes) => real.set_len(*bytes),
        Change::Allocate(bytes) => real.allocate(*bytes),
    }
}

impl SimDisk {
    pub(crate) fn new(seed: u64) -> SimDisk {
        let inner = Inner {
            random: StdRng::seed_from_u64(seed),
            left: None,
            fail_write: None,
            fail_sync: false,
            pending: Vec::new(),
            slow: Duration::ZERO,
        };
        SimDisk {
            inner: Arc::new(Mutex::new(inner)),
            syncs: Arc::default(),
        }
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub(crate) fn slow_syncs(&self, by: Duration) {
        self.inner.lock().slow = by;
    }

    /// The power goes after so many operations more.
    pub(crate) fn die_after(&self, operations: u64) {
        self.inner.lock().left = Some(operations);
    }

    pub(crate) fn fail_next_write(&self, kind: io::ErrorKind) {
        self.inner.lock().fail_write = Some(kind);
    }

    pub(crate) fn fail_next_sync(&self) {
        self.inner.lock().fail_sync = true;
    }

    /// The power is back: of what was not synced any part reached the files, some of it torn.
    pub(crate) fn restart(&self) {
        let mut inner = self.inner.lock();
        inner.left = None;
        for (path, change) in std::mem::take(&mut inner.pending) {
            if !path.exists() || inner.random.random_ratio(1, 3) {
                continue;
            }
            let real = RealDisk.open(&path).unwrap();
            match change {
                Change::Write(mut bytes, offset) if inner.random.random_ratio(1, 3) => {
                    let torn = inner.random.random_range(0..=bytes.len());
                    bytes.truncate(torn);
                    real.write_at(&bytes, offset).unwrap();
                }
                change => apply(&*real, &change).unwrap(),
            }
        }
    }
}

impl Disk for SimDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.inner.lock().step()?;
        self.file(path, RealDisk.create(path)?)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.inner.lock().step()?;
        self.file(path, RealDisk.open(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.lock().step()?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.inner.lock();
        inner.step()?;
        inner.pending.retain(|(of, _)| of != path);
        RealDisk.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.lock().step()?;
        RealDisk.sync_directory(path)
    }
}

impl SimDisk {
    fn file(&self, path: &Path, real: Arc<dyn DiskFile>) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(SimFile {
            path: path.into(),
            real,
            inner: self.inner.clone(),
            syncs: self.syncs.clone(),
        }))
    }
}

impl SimFile {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut inner = self.inner.lock();
        inner.step()?;
        if let Some(kind) = inner.fail_write.take() {
            return Err(io::Error::new(kind, "the disk refuses"));
        }
        inner.pending.push((self.path.clone(), change));
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(Change::Write(bytes.to_vec(), offset))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.change(Change::Length(bytes))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.change(Change::Allocate(bytes))
    }

    fn begin_sync(&self, _offset: u64, _bytes: u64) {}

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let slow = {
            let mut inner = self.inner.lock();
            inner.step()?;
            if std::mem::take(&mut inner.fail_sync) {
                return Err(io::Error::other("the disk does not answer"));
            }
            let (own, others) = std::mem::take(&mut inner.pending)
                .into_iter()
                .partition(|(path, _)| *path == self.path);
            inner.pending = others;
            let own: Vec<(PathBuf, Change)> = own;
            for (_, change) in own {
                apply(&*self.real, &change)?;
            }
            inner.slow
        };
        std::thread::sleep(slow);
        Ok(())
    }
}
