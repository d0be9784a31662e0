//! A server in this process, with the TPC-H tables or none, and a client of it.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use tenon::config::Config;
use tenon::config::cli::SettingArgs;
use tenon::serve::Server;
use tenon_storage::Database;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::Options;
use crate::raw::Raw;

pub struct Served {
    server: Arc<Server>,
    config: Config,
}

impl Served {
    /// `settings`: more of the environment, such as `("TENON_DATA_DIR", "/data")`.
    pub fn new(options: &Options, settings: &[(&str, String)]) -> Result<Served> {
        let served = Self::empty(options, settings)?;
        tenon::demo::load(served.database(), options.factor, options.threads)?;
        Ok(served)
    }

    /// The same without tables.
    pub fn empty(options: &Options, settings: &[(&str, String)]) -> Result<Served> {
        let threads = options.threads.to_string();
        let fixed = [("TENON_LISTEN", "127.0.0.1:0".to_owned()), ("TENON_THREADS", threads)];
        let environment = fixed.iter().chain(settings);
        let environment = environment.map(|(name, value)| ((*name).to_owned(), value.clone()));
        let config = Config::load(&SettingArgs::default(), environment)?;
        let server = Server::new(&config)?;
        Ok(Served { server, config })
    }

    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub fn database(&self) -> &Arc<Database> {
        self.server.engine.database()
    }

    /// Serves while `work` runs with a client.
    pub fn run(self, work: impl AsyncFnOnce(&Client) -> Result<()>) -> Result<()> {
        self.run_with_clients(1, async |clients| work(&clients[0]).await)
    }

    /// Serves while `work` runs with a client of each kind.
    pub fn run_with_raw(self, work: impl AsyncFnOnce(&Client, &mut Raw) -> Result<()>) -> Result<()> {
        self.run_at(1, async |clients, address| {
            let mut raw = tokio::task::block_in_place(|| Raw::connect(address))?;
            work(&clients[0], &mut raw).await
        })
    }

    /// Serves while `work` runs with so many clients.
    pub fn run_with_clients(self, count: usize, work: impl AsyncFnOnce(Vec<Arc<Client>>) -> Result<()>) -> Result<()> {
        self.run_at(count, async |clients, _| work(clients).await)
    }

    /// The same, for clients that find the server by its address.
    pub fn run_at(
        self,
        count: usize,
        work: impl AsyncFnOnce(Vec<Arc<Client>>, SocketAddr) -> Result<()>,
    ) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(count.max(2))
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let listeners = self.server.bind(&self.config.listen).await?;
            let address = *self.server.listen(listeners)?.first().context("no address")?;
            let connect = format!("host={} port={} user=bench", address.ip(), address.port());
            let (mut clients, mut connections) = (vec![], vec![]);
            for _ in 0..count {
                let (client, connection) = tokio_postgres::connect(&connect, NoTls).await?;
                clients.push(Arc::new(client));
                connections.push(tokio::spawn(connection));
            }
            work(clients, address).await?;
            for connection in connections {
                connection.await??;
            }
            self.server.stop().await;
            Ok(())
        })
    }
}

/// The rows as text.
pub async fn query(client: &Client, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
    let mut rows = vec![];
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
        }
    }
    Ok(rows)
}

/// CPU time of this process's threads so far, from /proc; 0 where there is none.
pub fn process_cpu_ms() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of_task = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    tasks.filter_map(of_task).sum::<f64>() / 1e6
}
