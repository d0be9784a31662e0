//! The running server: its listeners, its connections and its end.

use crate::config::Config;
use crate::http;
use crate::metrics::Metrics;
use crate::wire;
use crate::wire::auth::{Auth, Scram};
use crate::wire::cancel::Backends;
use crate::wire::hba::Hba;
use crate::wire::login::RoleConnections;
use anyhow::Context;
use parking_lot::RwLock;
use pgwire::tokio::TlsAcceptor;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenon_planner::engine::{Engine, EngineOptions, Spill};
use tenon_planner::session::{Clients, Ends};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Sockets that may be in their startup beyond those that may be connected.
const STARTING_MAX: usize = 100;
/// Connections have this long to end once the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// What all connections share.
pub struct Server {
    pub engine: Arc<Engine>,
    pub auth: Auth,
    hba: Option<RwLock<Arc<Hba>>>,
    pub tls: Option<TlsAcceptor>,
    pub backends: Arc<Backends>,
    /// One permit a connected client.
    pub connections: Arc<Semaphore>,
    pub connections_max: usize,
    pub role_connections: Arc<RoleConnections>,
    pub metrics: Arc<Metrics>,
    /// Whether clients are served.
    listens: AtomicBool,
    /// Cancelled when the server stops.
    pub shutdown: CancellationToken,
    pub statement_timeout: Option<Duration>,
    pub client_stalled_timeout: Duration,
    pub log_min_duration_statement: Option<Duration>,
    pub log_min_duration_plan: Option<Duration>,
    /// One permit a socket, connected or starting.
    sockets: Arc<Semaphore>,
    sockets_max: usize,
}

/// Clients over IPv4 at a socket for both kinds are named as such.
fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

impl Server {
    /// Sets up everything that can fail before a socket is opened.
    pub fn new(config: &Config) -> anyhow::Result<Arc<Self>> {
        let tls = match &config.tls {
            Some((certificate, key)) => {
                let client_authority = config.tls_client_ca.as_deref();
                Some(wire::tls::acceptor(certificate, key, client_authority)?)
            }
            None => None,
        };
        let auth = match &config.password_file {
            Some(path) => {
                let certificate = config
                    .tls
                    .as_ref()
                    .map(|(certificate, _)| std::fs::read(certificate))
                    .transpose()?;
                Auth::Scram(Scram::read(path, certificate.as_deref())?)
            }
            None => Auth::Trust,
        };
        let hba = match &config.hba_file {
            Some(path) => Some(RwLock::new(Arc::new(hba(config, path)?))),
            None => None,
        };
        let superusers = match &auth {
            Auth::Scram(scram) => scram.users(),
            Auth::Trust => Vec::new(),
        };
        let engine = Engine::new(EngineOptions {
            superusers,
            password_verifier: wire::auth::kept,
            memory_limit_bytes: config.memory_limit_bytes,
            query_memory_limit_bytes: config.query_memory_limit_bytes,
            gpu_memory_limit_bytes: config.gpu_memory_limit_bytes,
            allowed_directories: config.data_directories.clone(),
            target_partitions: config.target_partitions,
            query_threads: config.threads,
            max_concurrent_queries: config.max_concurrent_queries,
            store: config.store.clone(),
            spill: config.spill_directory.clone().map(|directory| Spill {
                directory,
                limit_bytes: config.spill_limit_bytes as u64,
            }),
        })?;
        let metrics = Arc::<Metrics>::default();
        let own = metrics.clone();
        engine.observe_turns(move |waited| own.turned(waited));
        let backends: Arc<Backends> = Arc::default();
        let clients: Arc<dyn Clients> = backends.clone();
        engine.serves(&clients);
        if let Some(hba) = &hba {
            engine.show_connection_rules(hba.read().shown());
        }
        Ok(Arc::new(Self {
            engine,
            auth,
            hba,
            tls,
            backends,
            connections: Arc::new(Semaphore::new(config.max_connections)),
            connections_max: config.max_connections,
            role_connections: Arc::default(),
            metrics,
            listens: AtomicBool::new(false),
            shutdown: CancellationToken::new(),
            statement_timeout: config.statement_timeout,
            client_stalled_timeout: config.client_stalled_timeout,
            log_min_duration_statement: config.log_min_duration_statement,
            log_min_duration_plan: config.log_min_duration_plan,
            sockets: Arc::new(Semaphore::new(config.max_connections + STARTING_MAX)),
            sockets_max: config.max_connections + STARTING_MAX,
        }))
    }

    /// The rules of who may connect, if there is a file of them.
    pub fn hba(&self) -> Option<Arc<Hba>> {
        Some(self.hba.as_ref()?.read().clone())
    }

    /// Reads the file of who may connect once more. One that is wrong changes nothing.
    pub fn reload(&self, config: &Config) {
        let (Some(own), Some(path)) = (&self.hba, &config.hba_file) else {
            return;
        };
        match hba(config, path) {
            Ok(read) => {
                self.engine.show_connection_rules(read.shown());
                *own.write() = Arc::new(read);
                tracing::info!("{} holds from now on", path.display());
            }
            Err(error) => tracing::error!("the rules of before go on: {error:#}"),
        }
    }

    /// Opens the addresses. Clients may knock from now on, and wait for `listen`.
    pub async fn bind(&self, addresses: &[SocketAddr]) -> anyhow::Result<Vec<TcpListener>> {
        let mut open = Vec::new();
        for address in addresses {
            open.push(TcpListener::bind(address).await.map_err(|e| match e.kind() {
                ErrorKind::AddrInUse => anyhow::anyhow!(
                    "cannot listen on {address}: the port is in use. Stop the other server, or choose another port: \
                     --listen {}:{}",
                    address.ip(),
                    address.port().wrapping_add(1)
                ),
                _ => anyhow::anyhow!("cannot listen on {address}: {e}"),
            })?);
        }
        Ok(open)
    }

    /// Starts to accept connections. Gives the addresses with their true ports.
    pub fn listen(self: &Arc<Self>, listeners: Vec<TcpListener>) -> anyhow::Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for listener in listeners {
            addresses.push(listener.local_addr().context("the listener's address")?);
            let server = self.clone();
            let spawn = move |socket, peer| server.clone().spawn(socket, peer);
            tokio::spawn(accept(listener, self.shutdown.clone(), spawn));
        }
        self.listens.store(true, Ordering::Relaxed);
        Ok(addresses)
    }

    /// Whether clients are served, and go on to be.
    pub fn is_ready(&self) -> bool {
        self.listens.load(Ordering::Relaxed) && !self.shutdown.is_cancelled()
    }

    /// Answers supervisors on an address, whose true port it gives.
    pub async fn observe(self: &Arc<Self>, address: SocketAddr) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address} (--http)"))?;
        let address = listener.local_addr().context("the listener's address")?;
        tokio::spawn(http::serve(listener, self.clone()));
        Ok(address)
    }

    fn spawn(self: Arc<Self>, socket: TcpStream, peer: SocketAddr) {
        let Ok(permit) = self.sockets.clone().try_acquire_owned() else {
            tracing::warn!(%peer, "too many sockets: one was closed");
            return;
        };
        let _ = socket.set_nodelay(true);
        keep_alive(&socket, self.client_stalled_timeout);
        tracing::debug!(%peer, "connection");
        let server = self.clone();
        let own = socket.local_addr();
        tokio::spawn(async move {
            let server_end = own.unwrap_or_else(|_| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
            let ends = Ends {
                client: canonical(peer),
                server: canonical(server_end),
            };
            wire::connection::serve(Box::new(socket), ends, server).await;
            drop(permit);
        });
    }

    /// Stops: running statements are cancelled and clients told (57P01).
    pub async fn stop(&self) {
        self.shutdown.cancel();
        let all = self.sockets.acquire_many(self.sockets_max as u32);
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, all).await.is_err() {
            let left = self.sockets_max - self.sockets.available_permits();
            tracing::warn!("{left} connections did not end in {SHUTDOWN_TIMEOUT:?}");
        }
    }
}

fn hba(config: &Config, path: &Path) -> anyhow::Result<Hba> {
    Hba::read(path, config.tls.is_some(), config.tls_client_ca.is_some())
}

/// Gives the connections to an address to `take`, until the server stops.
pub(crate) async fn accept(listener: TcpListener, shutdown: CancellationToken, take: impl Fn(TcpStream, SocketAddr)) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => return,
        };
        match accepted {
            Ok((socket, peer)) => take(socket, peer),
            Err(e) => {
                // Out of file descriptors, most likely: waiting lets connections end.
                tracing::warn!("cannot accept a connection: {e}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// A client's machine that says nothing for so long is asked whether it is there, every so often.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(120);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(30);
const KEEP_ALIVE_QUESTIONS: libc::c_int = 4;

/// Lets the kernel notice clients whose machine has gone without a word, or that leave what they were sent unread.
fn keep_alive(socket: &TcpStream, stalled: Duration) {
    let number = |time: u128| libc::c_int::try_from(time).unwrap_or(libc::c_int::MAX);
    let mut options = vec![(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)];
    #[cfg(target_os = "linux")]
    options.extend([
        (
            libc::IPPROTO_TCP,
            libc::TCP_KEEPIDLE,
            number(KEEP_ALIVE_AFTER.as_secs().into()),
        ),
        (
            libc::IPPROTO_TCP,
            libc::TCP_KEEPINTVL,
            number(KEEP_ALIVE_EVERY.as_secs().into()),
        ),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEP_ALIVE_QUESTIONS),
    ]);
    // A while more than the server's own limit, which tells what happened.
    #[cfg(target_os = "linux")]
    if !stalled.is_zero() {
        let limit = (stalled + KEEP_ALIVE_AFTER).as_millis();
        options.push((libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, number(limit)));
    }
    for (level, name, value) in options {
        // SAFETY: the descriptor is open as long as `socket` is borrowed, and the option's value is the `c_int` that it
        // takes, of the size given.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        if result != 0 {
            tracing::debug!("socket option {name}: {}", std::io::Error::last_os_error());
        }
    }
}
