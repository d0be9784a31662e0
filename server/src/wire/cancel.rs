//! Stopping a running statement: by a cancel request on another connection, by its timeout, because its client has
//! gone, or because the server stops.

use super::input::Input;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use tenon_planner::error::out_of_memory;
use tenon_planner::error::{SqlError, state};
use tenon_planner::session::Clients;
use tenon_storage::heap::{Account, within};
use tokio::io::AsyncRead;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long a cancel request waits for a statement: about what PostgreSQL takes to begin a process for the request. A statement that is
/// not meant may come within it.
const COMING: Duration = Duration::from_millis(4);

/// Why a statement was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    User,
    Timeout,
    Gone,
    Shutdown,
}

impl Reason {
    pub fn error(self) -> SqlError {
        let (state, message) = match self {
            Self::User => (state::QUERY_CANCELED, "canceling statement due to user request"),
            Self::Timeout => (state::QUERY_CANCELED, "canceling statement due to statement timeout"),
            Self::Gone => (state::CONNECTION_FAILURE, "connection to client lost"),
            Self::Shutdown => (
                state::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ),
        };
        SqlError::new(state, message)
    }
}

/// One statement while it runs.
pub struct Running {
    token: CancellationToken,
    /// What it holds; too much ends it by the token.
    account: Arc<Account>,
    reason: Mutex<Option<Reason>>,
    deadline: Option<Instant>,
    shutdown: CancellationToken,
}

impl Running {
    pub fn new(
        token: CancellationToken,
        account: Arc<Account>,
        deadline: Option<Instant>,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            token,
            account,
            reason: Mutex::new(None),
            deadline,
            shutdown,
        })
    }

    /// Stops the statement; the first reason counts.
    pub fn stop(&self, reason: Reason) {
        self.reason.lock().get_or_insert(reason);
        self.token.cancel();
    }

    pub fn reason(&self) -> Option<Reason> {
        *self.reason.lock()
    }

    /// Waits for a stop, and gives up by itself at the deadline and where the server stops; the client is not watched.
    pub async fn stopped(&self) {
        let deadline = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.token.cancelled() => {}
            () = deadline => self.stop(Reason::Timeout),
            () = self.shutdown.cancelled() => self.stop(Reason::Shutdown),
        }
    }

    /// The error of a statement that was stopped.
    pub fn stop_error(&self) -> SqlError {
        match self.reason() {
            None if self.account.is_over() => out_of_memory(),
            reason => reason.unwrap_or(Reason::User).error(),
        }
    }

    /// The error of a stopped statement in place of whatever the stop led to.
    pub fn explain(&self, error: SqlError) -> SqlError {
        self.reason().map_or(error, Reason::error)
    }

    /// An error where the statement is stopped or its time is up. Where rows come and go without a pause, a task's budget may
    /// end before its timers are looked at, each time anew.
    pub fn check(&self) -> Result<(), SqlError> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) && !self.token.is_cancelled() {
            self.stop(Reason::Timeout);
        }
        match self.token.is_cancelled() {
            true => Err(self.stop_error()),
            false => Ok(()),
        }
    }

    /// Runs work that notices the token by itself, stopping the statement where its client goes away, its time is up
    /// or the server stops.
    pub async fn drive<R: AsyncRead + Unpin, T>(&self, input: &mut Input<R>, work: impl Future<Output = T>) -> T {
        let watch = async {
            let reason = tokio::select! {
                _ = input.gone() => Reason::Gone,
                () = self.shutdown.cancelled() => Reason::Shutdown,
                () = async { match self.deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => pending().await,
                } } => Reason::Timeout,
            };
            if !self.token.is_cancelled() {
                self.stop(reason);
            }
            pending::<T>().await
        };
        let work = within(Some(self.account.clone()), false, work);
        tokio::select! {
            biased;
            result = work => result,
            never = watch => never,
        }
    }

    /// Like `drive`, for work that may be dropped at any await: it ends as soon as the statement is stopped.
    ///
    /// # Errors
    /// The reason's error.
    pub async fn drive_until_stopped<R: AsyncRead + Unpin, T>(
        &self,
        input: &mut Input<R>,
        work: impl Future<Output = T>,
    ) -> Result<T, SqlError> {
        let stopped = async {
            self.token.cancelled().await;
            Err(self.stop_error())
        };
        let either = async {
            tokio::select! {
                biased;
                result = work => Ok(result),
                error = stopped => error,
            }
        };
        self.drive(input, either).await
    }
}

/// The statement that a connection runs, if any, where cancel requests find it.
type Slot = Arc<Mutex<Option<Arc<Running>>>>;

/// What is known of a connection.
struct Registered {
    secret: Vec<u8>,
    slot: Slot,
    /// Who connected.
    role: u32,
    /// Ends it, as the server's own end does.
    end: CancellationToken,
}

/// All connections, by the process id that their clients were told.
#[derive(Default)]
pub struct Backends {
    connections: Mutex<HashMap<i32, Registered>>,
    last_pid: AtomicI32,
    /// Told when a session asks for the server's files to be read again.
    pub reload: Notify,
}

impl Backends {
    /// Registers a connection, with a secret of `secret_bytes` (a multiple of 4, at most 32).
    /// `end` is what ends the connection of the role.
    pub fn register(self: &Arc<Self>, secret_bytes: usize, role: u32, end: CancellationToken) -> Backend {
        let secret: Vec<u8> = [uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat();
        let secret = secret[..secret_bytes].to_vec();
        let slot = Slot::default();
        let mut connections = self.connections.lock();
        let pid = loop {
            let pid = (self.last_pid.fetch_add(1, Ordering::Relaxed) & 0x3fff_ffff) + 1;
            if !connections.contains_key(&pid) {
                break pid;
            }
        };
        let registered = Registered {
            secret: secret.clone(),
            slot: slot.clone(),
            role,
            end,
        };
        connections.insert(pid, registered);
        Backend {
            pid,
            secret,
            slot,
            all: self.clone(),
        }
    }

    /// A cancel request: stops what the connection runs now, if the secret is right. Says nothing either way.
    ///
    /// The statement may still be on its way: its bytes come by another socket. So where nothing runs, this waits a little
    /// for what begins. Clients take the end of the request's own connection for the end of the cancel, and send what is
    /// not to be stopped only then.
    pub async fn cancel(&self, pid: i32, secret: &[u8]) {
        let slot = match self.connections.lock().get(&pid) {
            Some(known) if same(&known.secret, secret) => known.slot.clone(),
            _ => {
                tracing::warn!(pid, "a cancel request with a wrong key was ignored");
                return;
            }
        };
        let until = Instant::now() + COMING;
        loop {
            let running = slot.lock().clone();
            if let Some(running) = running {
                return running.stop(Reason::User);
            }
            if Instant::now() >= until {
                return;
            }
            sleep(COMING / 4).await;
        }
    }
}

impl Clients for Backends {
    fn cancel(&self, pid: i32) -> bool {
        let slot = self.connections.lock().get(&pid).map(|known| known.slot.clone());
        let Some(slot) = slot else { return false };
        let running = slot.lock().clone();
        if let Some(running) = running {
            running.stop(Reason::User);
        }
        true
    }

    fn terminate(&self, pid: i32) -> bool {
        let end = self.connections.lock().get(&pid).map(|known| known.end.clone());
        end.inspect(CancellationToken::cancel).is_some()
    }

    fn role(&self, pid: i32) -> Option<u32> {
        self.connections.lock().get(&pid).map(|known| known.role)
    }

    fn reload(&self) {
        self.reload.notify_one();
    }
}

impl std::fmt::Debug for Backends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Backends")
    }
}

/// Compares in a time that does not tell where the first difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// One registered connection; leaves the register when dropped.
pub struct Backend {
    pub pid: i32,
    pub secret: Vec<u8>,
    slot: Slot,
    all: Arc<Backends>,
}

impl Backend {
    /// Makes the statement reachable for cancel requests, until the guard is dropped.
    pub fn enter(&self, running: Arc<Running>) -> Entered {
        *self.slot.lock() = Some(running);
        Entered(self.slot.clone())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.all.connections.lock().remove(&self.pid);
    }
}

/// While this lives, cancel requests reach the statement.
pub struct Entered(Slot);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_key_cancels() {
        let backends = Arc::new(Backends::default());
        let backend = backends.register(4, 0, CancellationToken::new());
        let running = || {
            let token = CancellationToken::new();
            Running::new(token.clone(), Account::new(token), None, CancellationToken::new())
        };
        let later = running();
        let running = running();
        let entered = backend.enter(running.clone());
        backends.cancel(backend.pid, b"????").await;
        backends.cancel(backend.pid, &backend.secret[..3]).await;
        backends.cancel(backend.pid + 1, &backend.secret).await;
        assert_eq!(running.reason(), None);
        backends.cancel(backend.pid, &backend.secret).await;
        assert_eq!(running.reason(), Some(Reason::User));
        assert_eq!(running.explain(SqlError::internal("x")).state.0, "57014");
        drop(entered);
        backends.cancel(backend.pid, &backend.secret).await;
        assert_eq!(later.reason(), None);
        // One that begins while the request waits is what it is for.
        let begins = async {
            tokio::task::yield_now().await;
            backend.enter(later.clone())
        };
        let ((), _entered) = tokio::join!(backends.cancel(backend.pid, &backend.secret), begins);
        assert_eq!(later.reason(), Some(Reason::User));
        let pid = backend.pid;
        drop(backend);
        assert!(!backends.connections.lock().contains_key(&pid));
    }
}
