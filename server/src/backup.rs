//! `tenon backup`: all that a running server has committed, as a tar archive; `tenon restore`: a store made of one.

use crate::load::{connected, told};
use crate::progress::Progress;
use anyhow::{Context, ensure};
use futures::TryStreamExt;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenon_storage::{Database, MemoryBudget, RealDisk, Recovered, store};

/// Copies what the server at `from` holds into a file, which has its name only when it is whole and on disk. Gives its bytes and
/// the time.
pub async fn run(from: &str, file: &Path) -> anyhow::Result<(u64, Duration)> {
    let client = connected("--from", from).await?;
    let mut target = Target::create(file)?;
    let progress = Progress::new("backup", 0, true);
    let copied = async {
        let pieces = client.copy_out("BACKUP").await.map_err(told)?;
        let mut pieces = std::pin::pin!(pieces);
        let mut bytes = 0;
        while let Some(piece) = pieces.try_next().await.map_err(told)? {
            target.write(&piece)?;
            bytes += piece.len() as u64;
            progress.add(piece.len() as u64);
        }
        anyhow::Ok(bytes)
    };
    match copied.await {
        Ok(bytes) => target.finish().map(|()| (bytes, progress.finish())),
        Err(error) => {
            target.abandon();
            Err(error)
        }
    }
}

/// Where a backup goes: standard output, or a file under another name until it is whole.
enum Target {
    Output,
    Partial {
        file: File,
        partial: PathBuf,
        path: PathBuf,
    },
}

impl Target {
    fn create(path: &Path) -> anyhow::Result<Target> {
        if path.as_os_str() == "-" {
            return Ok(Target::Output);
        }
        ensure!(!path.exists(), "{} is there already", path.display());
        let partial = beside(path, ".partial");
        let file = File::create(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
        let path = path.to_owned();
        Ok(Target::Partial { file, partial, path })
    }

    fn write(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        match self {
            Target::Output => std::io::stdout()
                .write_all(piece)
                .context("cannot write to standard output"),
            Target::Partial { file, partial, .. } => {
                let written = file.write_all(piece);
                written.with_context(|| format!("cannot write to {}", partial.display()))
            }
        }
    }

    fn abandon(self) {
        if let Target::Partial { partial, .. } = self {
            let _ = std::fs::remove_file(partial);
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Target::Output => std::io::stdout().flush().context("cannot write to standard output"),
            Target::Partial { file, partial, path } => {
                let named = file.sync_all().and_then(|()| std::fs::rename(&partial, &path));
                named.with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

/// Makes a store of a backup. The directory has its name only when all of its records and rows have been read and are as they
/// were written.
pub fn restore(file: &Path, directory: &Path, memory_limit_bytes: usize) -> anyhow::Result<Recovered> {
    let began = Instant::now();
    ensure!(!directory.exists(), "{} is there already", directory.display());
    let partial = beside(directory, ".partial");
    let archive: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(file).with_context(|| format!("cannot open {}", file.display()))?),
    };
    let made = store::unpack(BufReader::new(archive), &partial).and_then(|()| {
        let budget = MemoryBudget::new(memory_limit_bytes);
        let (_, found) = Database::open(&partial, Arc::new(RealDisk), budget)?;
        Ok(found)
    });
    let mut found = match made {
        Ok(found) => found,
        Err(error) => {
            // Nobody is to take it for a store.
            let _ = std::fs::remove_dir_all(&partial);
            return Err(error).with_context(|| format!("cannot restore {}", file.display()));
        }
    };
    let named = std::fs::rename(&partial, directory);
    named.with_context(|| format!("cannot make {}", directory.display()))?;
    found.took = began.elapsed();
    Ok(found)
}

/// A path whose last name has an ending more.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.components().as_path());
    name.push(ending);
    name.into()
}
