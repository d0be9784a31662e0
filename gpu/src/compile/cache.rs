//! The disk cache: one file a compiled program, named by its key.
//!
//! A file is the code followed by its BLAKE3 hash and a mark, so that a torn or damaged file is seen and rebuilt.
//! (Bytes after an ELF image do no harm: the simulator loads the cached file itself.) Files are published by
//! renaming a temporary file, so a reader never sees half of one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Artifact, Compiler, MachineCode, Program};
use crate::error::{GpuError, Result};

const MARK: &[u8; 8] = b"TENONKC1";

/// Compiled programs on disk.
pub struct Cache {
    directory: PathBuf,
    compiled: AtomicU64,
}

/// `TENON_KERNEL_CACHE`, or `tenon/kernels` in the user's cache directory.
pub fn default_directory() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    from("TENON_KERNEL_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|d| d.join("tenon/kernels")))
        .or_else(|| from("HOME").map(|d| d.join(".cache/tenon/kernels")))
        .unwrap_or_else(|| std::env::temp_dir().join("tenon-kernels"))
}

impl Cache {
    /// A cache in this directory, or in one for this process only when that cannot be written.
    pub fn open(directory: PathBuf) -> Result<Cache> {
        let usable = |d: &Path| fs::create_dir_all(d).and_then(|()| writable(d));
        let directory = match usable(&directory) {
            Ok(()) => directory,
            Err(error) => {
                let fallback = std::env::temp_dir().join(format!("tenon-kernels-{}", std::process::id()));
                tracing::warn!(%error, directory = %directory.display(), fallback = %fallback.display(),
                    "kernel cache directory cannot be written");
                usable(&fallback).map_err(|e| GpuError::io(format!("kernel cache {}", fallback.display()), e))?;
                fallback
            }
        };
        Ok(Cache {
            directory,
            compiled: AtomicU64::new(0),
        })
    }

    /// Compilations made by this cache, that is, misses.
    pub fn compiled(&self) -> u64 {
        self.compiled.load(Ordering::Relaxed)
    }

    /// The file that holds, or will hold, this program.
    pub fn path(&self, compiler: &dyn Compiler, program: &Program) -> PathBuf {
        let stem = program.source.name.trim_end_matches(".cu");
        let key = program.key(&compiler.toolchain());
        self.directory
            .join(format!("{stem}-{}.{}", &key[..40], compiler.extension()))
    }

    /// The compiled program, from disk or made now.
    pub fn get(&self, compiler: &dyn Compiler, program: &Program) -> Result<Artifact> {
        let path = self.path(compiler, program);
        let code = match read(&path) {
            Some(code) => code,
            None => {
                let start = std::time::Instant::now();
                let code = compiler.compile(program)?;
                self.compiled.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(
                    program = program.describe(),
                    elapsed_ms = start.elapsed().as_millis() as u64,
                    "compiled"
                );
                publish(&path, &code).map_err(|e| GpuError::io(format!("kernel cache {}", path.display()), e))?;
                code
            }
        };
        let code = if compiler.extension() == "so" {
            MachineCode::SharedObject(path)
        } else {
            MachineCode::Image(code)
        };
        Ok(Artifact {
            name: program.describe(),
            code,
        })
    }

    /// The same, shared.
    pub fn get_shared(&self, compiler: &dyn Compiler, program: &Program) -> Result<Arc<Artifact>> {
        self.get(compiler, program).map(Arc::new)
    }
}

fn writable(directory: &Path) -> std::io::Result<()> {
    let probe = directory.join(temporary_name("probe"));
    fs::write(&probe, b"")?;
    fs::remove_file(probe)
}

fn temporary_name(stem: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(
        ".{stem}.{}.{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// The code in a whole cache file; none if the file is missing or damaged.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path).ok()?;
    let body = bytes.len().checked_sub(40)?;
    let whole = bytes[body + 32..] == MARK[..] && bytes[body..body + 32] == blake3::hash(&bytes[..body]).as_bytes()[..];
    if !whole {
        tracing::warn!(path = %path.display(), "damaged kernel cache file; compiling again");
        return None;
    }
    bytes.truncate(body);
    Some(bytes)
}

fn publish(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_file_name(temporary_name("new"));
    let mut file = fs::File::create(&temporary)?;
    let written = file
        .write_all(code)
        .and_then(|()| file.write_all(blake3::hash(code).as_bytes()))
        .and_then(|()| file.write_all(MARK));
    drop(file);
    let published = written.and_then(|()| fs::rename(&temporary, path));
    if published.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    published
}
