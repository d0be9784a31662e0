//! The running server: its listeners, its connections and its end.

use crate::config::Config;
use crate::wire;
use crate::wire::auth::{Auth, Scram};
use crate::wire::cancel::Backends;
use anyhow::Context;
use pgwire::tokio::TlsAcceptor;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use tenon_planner::engine::{Engine, EngineOptions};
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
    pub tls: Option<TlsAcceptor>,
    pub backends: Arc<Backends>,
    /// One permit a connected client.
    pub connections: Arc<Semaphore>,
    /// Cancelled when the server stops.
    pub shutdown: CancellationToken,
    pub statement_timeout: Option<Duration>,
    /// One permit a socket, connected or starting.
    sockets: Arc<Semaphore>,
    sockets_max: usize,
}

impl Server {
    /// Sets up everything that can fail before a socket is opened.
    pub fn new(config: &Config) -> anyhow::Result<Arc<Self>> {
        let tls = match &config.tls {
            Some((certificate, key)) => Some(wire::tls::acceptor(certificate, key)?),
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
        let engine = Engine::new(EngineOptions {
            memory_limit_bytes: config.memory_limit_bytes,
            query_memory_limit_bytes: config.query_memory_limit_bytes,
            gpu_memory_limit_bytes: config.gpu_memory_limit_bytes,
            allowed_directories: config.data_directories.clone(),
            target_partitions: config.target_partitions,
            query_threads: config.threads,
            max_concurrent_queries: config.max_concurrent_queries,
        })?;
        Ok(Arc::new(Self {
            engine,
            auth,
            tls,
            backends: Arc::default(),
            connections: Arc::new(Semaphore::new(config.max_connections)),
            shutdown: CancellationToken::new(),
            statement_timeout: config.statement_timeout,
            sockets: Arc::new(Semaphore::new(config.max_connections + STARTING_MAX)),
            sockets_max: config.max_connections + STARTING_MAX,
        }))
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
            tokio::spawn(self.clone().accept(listener));
        }
        Ok(addresses)
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shutdown.cancelled() => return,
            };
            match accepted {
                Ok((socket, peer)) => self.clone().spawn(socket, peer),
                Err(e) => {
                    // Out of file descriptors, most likely: waiting lets connections end.
                    tracing::warn!("cannot accept a connection: {e}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn spawn(self: Arc<Self>, socket: TcpStream, peer: SocketAddr) {
        let Ok(permit) = self.sockets.clone().try_acquire_owned() else {
            tracing::warn!(%peer, "too many sockets: one was closed");
            return;
        };
        let _ = socket.set_nodelay(true);
        keep_alive(&socket);
        tracing::debug!(%peer, "connection");
        let server = self.clone();
        tokio::spawn(async move {
            wire::connection::serve(Box::new(socket), server).await;
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

/// Lets the kernel notice clients whose machine has gone without a word.
fn keep_alive(socket: &TcpStream) {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the option's value is the `c_int` that
    // SO_KEEPALIVE takes, of the size given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_KEEPALIVE,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result != 0 {
        tracing::debug!("no keep-alive: {}", std::io::Error::last_os_error());
    }
}
