//! One client's connection, from its session to its end: the loop that answers messages.

use super::aside::{Aside, LONG_BYTES, aside};
use super::cancel::{Backend, Entered, Reason, Running};
use super::extended::{Portal, Portals};
use super::failure::{Failure, Step};
use super::input::{Input, InputError};
use super::login::RoleConnection;
use super::message::Message;
use super::output::{Output, Severity};
use super::startup::{self, Started};
use crate::encode::Style;
use crate::serve::Server;
use pgwire::messages::startup::{BackendKeyData, SecretKey};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tenon_planner::error::{Result, SqlError, state};
use tenon_planner::session::{Ends, Session, SessionInfo, TransactionStatus};
use tenon_storage::heap::Account;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// A client must be through with startup and authentication after this time.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// What a stopped statement may hold still when its client goes on, bytes: what stays with the session is no more.
const SETTLED_BYTES: usize = 8 << 20;
const SETTLE_LOOK: Duration = Duration::from_millis(1);
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// Plain TCP or TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
pub type Socket = Box<dyn Stream>;

/// Serves one accepted socket until it ends.
pub async fn serve(socket: Socket, ends: Ends, server: Arc<Server>) {
    let started = match timeout(STARTUP_TIMEOUT, startup::start(socket, ends.client.ip(), &server)).await {
        Ok(Ok(Some(started))) => started,
        Ok(Ok(None)) => return,
        Ok(Err(failure)) => return log_end(&failure),
        Err(_) => return tracing::info!("a client did not finish its startup in {STARTUP_TIMEOUT:?}"),
    };
    let Ok(_permit) = server.connections.clone().try_acquire_owned() else {
        server.metrics.connections_refused.inc();
        let error = SqlError::new(state::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
        let _ = startup::refuse(started.input, started.output, error).await;
        return;
    };
    let mut connection = match Connection::open(started, ends, server).await {
        Ok(connection) => connection,
        Err(failure) => return log_end(&failure),
    };
    if let Err(failure) = connection.run().await {
        if let Failure::Fatal(error) | Failure::Sql(error) = &failure {
            startup::part(&mut connection.input, &mut connection.output, error).await;
        }
        log_end(&failure);
    }
    // With all its statements, and temporary tables.
    aside(true, || drop(connection));
}

fn log_end(failure: &Failure) {
    match failure {
        Failure::Gone(None) => tracing::debug!("a client went away"),
        Failure::Gone(Some(e)) => tracing::info!("could not talk to a client: {e}"),
        Failure::Fatal(e) | Failure::Sql(e) => tracing::info!("connection ended: {e}"),
    }
}

/// A client with a session.
pub struct Connection {
    pub(super) input: Input<ReadHalf<Socket>>,
    pub(super) output: Output<WriteHalf<Socket>>,
    pub(super) session: Session,
    pub(super) portals: Portals,
    backend: Backend,
    /// Counted among those of its role.
    _role_connection: Option<RoleConnection>,
    /// Cancelled with the server's own, whose clones all connections would wait for each other to make; and by
    /// `pg_terminate_backend`.
    shutdown: CancellationToken,
    /// An extended-protocol message failed: everything up to Sync is passed over.
    skipping: bool,
    /// When the first message came that is not answered yet.
    asked: Option<Instant>,
}

impl Connection {
    async fn open(started: Started, ends: Ends, server: Arc<Server>) -> Step<Self> {
        let Started {
            input,
            mut output,
            user,
            database,
            settings,
            login,
            role_connection,
            secret_bytes,
        } = started;
        let shutdown = server.shutdown.child_token();
        let backend = server.backends.register(secret_bytes, login.oid(), shutdown.clone());
        let application_name = settings.iter().find(|(name, _)| name == "application_name");
        let application_name = application_name.map(|(_, value)| value.clone()).unwrap_or_default();
        let info = SessionInfo {
            user,
            database,
            application_name,
            process_id: backend.pid,
            ends: Some(ends),
        };
        let mut session = server.engine.session_of(info, &login);
        if let Err(error) = super::settings::apply(&mut session, &server, settings) {
            let mut input = input;
            startup::part(&mut input, &mut output, &error).await;
            return Err(Failure::Gone(None));
        }
        for (name, value) in session.startup_parameters() {
            output.parameter_status(&name, &value);
        }
        let key = SecretKey::Bytes(backend.secret.clone().into());
        output.put(&BackendKeyData::new(backend.pid, key));
        server.metrics.connections_opened.inc();
        output.metrics = Some(server.metrics.clone());
        let mut connection = Self {
            input,
            output,
            session,
            portals: Portals::default(),
            backend,
            _role_connection: role_connection,
            shutdown,
            skipping: false,
            asked: None,
        };
        connection.speak();
        connection.tell();
        connection.ready().await?;
        Ok(connection)
    }

    /// Answers messages until the client leaves.
    async fn run(&mut self) -> Step<()> {
        loop {
            let message = match self.next().await? {
                Ok(message) => message,
                Err(InputError::Bad(kind, error)) => {
                    if !self.skipping {
                        self.fail(error)?;
                    }
                    match kind {
                        // These are answered at once; the others fail up to the next Sync.
                        b'Q' | b'F' if !self.skipping => self.ready().await?,
                        _ => {
                            self.skipping = true;
                            self.output.flush().await?;
                        }
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            self.asked.get_or_insert_with(Instant::now);
            if self.skipping && !matches!(message, Message::Sync | Message::Terminate) {
                continue;
            }
            let result = match message {
                Message::Terminate => return Ok(()),
                Message::Query(sql) => {
                    match sql.len() < LONG_BYTES {
                        true => self.simple_query(&sql).await?,
                        false => Aside::new(self.simple_query(&sql)).await?,
                    }
                    self.ready().await?;
                    Ok(())
                }
                Message::Sync => {
                    let ok = !std::mem::take(&mut self.skipping);
                    self.sync(ok).await?;
                    self.ready().await?;
                    Ok(())
                }
                Message::Flush => Ok(self.output.flush().await?),
                // What is left of a COPY that failed.
                Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
                Message::Password(_) => Err(Failure::Fatal(super::message::violation("unexpected password message"))),
                Message::FunctionCall => {
                    self.fail(SqlError::unsupported("the function call protocol"))?;
                    self.ready().await?;
                    Ok(())
                }
                extended if self.is_long(&extended) => Aside::new(self.extended(extended)).await,
                extended => self.extended(extended).await,
            };
            match result {
                Ok(()) if self.output.is_full() => self.output.flush().await?,
                Ok(()) => {}
                Err(Failure::Sql(error)) => {
                    self.fail(error)?;
                    self.skipping = true;
                    // A client may wait for it before it sends Sync.
                    self.output.flush().await?;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// ReadyForQuery, with all that is pending, to the client.
    async fn ready(&mut self) -> Step<()> {
        let status = match self.session.transaction_status() {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.settle().await?;
        self.session.rest();
        if self.shutdown.is_cancelled() {
            return Err(Failure::Fatal(Reason::Shutdown.error()));
        }
        self.tell();
        self.notify();
        self.output.put_raw(b'Z', &[status]);
        self.output.flush().await?;
        if let (Some(asked), Some(metrics)) = (self.asked.take(), &self.output.metrics) {
            metrics.answered(asked.elapsed());
        }
        Ok(())
    }

    /// A statement that was stopped ends where its tasks look up from their work. The client knows, but its next statement
    /// waits: what that one takes would come on top.
    async fn settle(&mut self) -> Step<()> {
        let held = |account: &Account| account.interrupt().is_some() && account.bytes() > SETTLED_BYTES;
        if !held(self.session.account()) {
            return Ok(());
        }
        self.output.flush().await?;
        let until = Instant::now() + SETTLE_MAX;
        while held(self.session.account()) && Instant::now() < until {
            sleep(SETTLE_LOOK).await;
        }
        // Many pages: not on a thread that others wait for.
        let _ = tokio::task::spawn_blocking(crate::allocator::purge).await;
        Ok(())
    }

    /// Notices and changed parameters that the session has for the client.
    pub(super) fn tell(&mut self) {
        for notice in self.session.take_notices() {
            self.output.notice(notice.severity, &notice.report);
        }
        for (name, value) in self.session.changed_parameters() {
            if name == "client_encoding" {
                self.speak();
            }
            self.output.parameter_status(&name, &value);
        }
    }

    /// Texts are read and written as `client_encoding` says from now on.
    fn speak(&mut self) {
        let charset = self.session.charset();
        (self.input.charset, self.output.charset) = (charset, charset);
    }

    /// Notifications that have come for the session, between its transactions.
    fn notify(&mut self) {
        for notification in self.session.take_notifications() {
            self.output.notification(&notification);
        }
    }

    /// The next message; and meanwhile, where the client waits for nothing, the notifications that come. Fails where a
    /// limit of time is past, or the server ends.
    async fn next(&mut self) -> Step<std::result::Result<Message, InputError>> {
        let (until, timed_out) = match self.idle_limit() {
            Some((limit, error)) => (Some(Instant::now() + limit), Some(error)),
            None => (None, None),
        };
        loop {
            let inbox = match self.asked.is_none() && self.session.transaction_status() == TransactionStatus::Idle {
                true => self.session.inbox(),
                false => None,
            };
            tokio::select! {
                biased;
                message = self.input.next() => return Ok(message),
                () = async { match &inbox {
                    Some(inbox) => inbox.arrived().await,
                    None => pending().await,
                } } => {
                    self.notify();
                    self.output.flush().await?;
                }
                () = async { match until {
                    Some(until) => sleep_until(until).await,
                    None => pending().await,
                } } => return Err(timed_out.map_or(Failure::Gone(None), Failure::Fatal)),
                () = self.shutdown.cancelled() => return Err(Failure::Fatal(Reason::Shutdown.error())),
            }
        }
    }

    /// Reports a statement's error.
    pub(super) fn fail(&mut self, error: SqlError) -> Step<()> {
        if error.state == state::ADMIN_SHUTDOWN {
            return Err(Failure::Fatal(error));
        }
        let (pid, query_id) = (self.backend.pid, self.session.running_query_id());
        match error.state {
            state::INTERNAL_ERROR => tracing::error!(pid, query_id, "{error}"),
            _ => tracing::debug!(pid, query_id, "{error}"),
        }
        self.session.fail_transaction();
        self.tell();
        self.output.error(Severity::Error, &error);
        Ok(())
    }

    /// How values are written in this session.
    pub(super) fn style(&self) -> Style {
        Style {
            conventions: self.session.conventions(),
            extra_float_digits: self.session.fewer_float_digits(),
            escaped_bytea: self.session.escapes_bytea(),
            charset: self.output.charset,
        }
    }

    /// The end of a client that leaves its session idle for too long.
    fn idle_limit(&self) -> Option<(Duration, SqlError)> {
        let times = self.session.times();
        let (limit, state, message) = match self.session.transaction_status() {
            TransactionStatus::Idle => (
                times.idle,
                state::IDLE_SESSION_TIMEOUT,
                "terminating connection due to idle-session timeout",
            ),
            TransactionStatus::InTransaction | TransactionStatus::Failed => (
                times.idle_in_transaction,
                state::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout",
            ),
        };
        Some((limit?, SqlError::new(state, message)))
    }

    /// Starts the clock of a statement and lets cancel requests reach it.
    pub(super) fn begin_statement(&mut self) -> (Arc<Running>, Entered) {
        let times = self.session.times();
        let deadline = times.statement.map(|limit| Instant::now() + limit);
        let (token, shutdown) = (self.session.cancel_token(), self.shutdown.clone());
        let running = Running::new(token, self.session.account().clone(), deadline, shutdown);
        self.output.stalled_after = times.client_stalled;
        let entered = self.backend.enter(running.clone());
        (running, entered)
    }

    /// The portal of a name, or 34000.
    pub(super) fn portal<'a>(portals: &'a mut Portals, name: &str) -> Result<&'a mut Portal> {
        portals
            .get_mut(name)
            .ok_or_else(|| SqlError::new(state::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist")))
    }
}
