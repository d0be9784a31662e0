//! Files of the server: which ones a client may read, and files as relations in FROM.

mod relation;

pub(crate) use relation::{named, source, whole};

use crate::catalog::services::Services;
use crate::pg::error::canceled;
use crate::pg::error::{Result, SqlError, state};
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// The file that a client names, where it lies below an allowed directory once links are followed: 42501 elsewhere,
/// 58P01 where it does not exist. A relative path is looked for in each allowed directory.
pub(crate) fn allowed(services: &Services, path: &str) -> Result<PathBuf> {
    let directories = &services.allowed_directories;
    let given = Path::new(path);
    let candidates: Vec<PathBuf> = if given.is_absolute() {
        vec![given.to_path_buf()]
    } else {
        directories.iter().map(|directory| directory.join(given)).collect()
    };
    let inside = |real: &Path| directories.iter().any(|directory| real.starts_with(directory));
    for candidate in &candidates {
        match candidate.canonicalize() {
            Ok(real) if inside(&real) && real.is_file() => return Ok(real),
            Ok(real) if inside(&real) => {
                let message = format!("\"{path}\" is not a file");
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
            }
            _ => {}
        }
    }
    // Whether a file exists outside is not told.
    let near = |candidate: &PathBuf| {
        let parent = candidate.parent().and_then(|parent| parent.canonicalize().ok());
        !candidate.exists() && parent.is_some_and(|parent| inside(&parent))
    };
    if candidates.iter().any(near) {
        let message = format!("could not open file \"{path}\" for reading: No such file or directory");
        return Err(SqlError::new(state::UNDEFINED_FILE, message));
    }
    let error = SqlError::new(
        state::INSUFFICIENT_PRIVILEGE,
        format!("permission denied to read file \"{path}\""),
    );
    Err(if directories.is_empty() {
        error.hint("No directory is allowed: start the server with --data-dir, or use COPY FROM STDIN.")
    } else {
        error.hint("Only files below the directories of --data-dir can be read.")
    })
}

/// Runs work that waits, off the threads of queries. A cancelled statement does not wait for its end.
pub(crate) async fn in_background<T: Send + 'static>(
    services: &Services,
    cancel: &CancellationToken,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let work = services.threads.spawn_blocking(tenon_storage::heap::carry(work));
    tokio::select! {
        () = cancel.cancelled() => Err(canceled()),
        done = work => done.map_err(SqlError::internal)?,
    }
}
