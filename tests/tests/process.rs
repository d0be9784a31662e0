//! A server process for one test: started on a free port, killed when dropped, its log kept for a failure's report.

use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

/// A whole minute: a loaded machine may be generating TPC-H for two tests at once.
const START_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Server {
    child: Child,
    address: SocketAddr,
    log: tempfile::NamedTempFile,
}

impl Server {
    /// Starts the server with these arguments beside `--listen`, and waits until it accepts connections.
    pub fn start(args: &[&str]) -> Result<Server> {
        Self::start_with(args, &[])
    }

    /// The same where no GPU is used: what is tried depends on what the CPU does.
    pub fn start_without_gpu(args: &[&str]) -> Result<Server> {
        Self::start_with(args, &[("TENON_DEVICE", "none")])
    }

    /// The same with environment variables.
    pub fn start_with(args: &[&str], env: &[(&str, &str)]) -> Result<Server> {
        Self::start_by(Command::new(binary()), args, env)
    }

    /// The same in a process that has first run something in the shell.
    pub fn start_in(first: &str, args: &[&str]) -> Result<Server> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{first} && exec \"$0\" \"$@\"")])
            .arg(binary());
        Self::start_by(shell, args, &[])
    }

    /// Another program may take the port before the server does: then with another.
    fn start_by(command: Command, args: &[&str], env: &[(&str, &str)]) -> Result<Server> {
        const PORTS: usize = 5;
        let mut tried = 0;
        loop {
            let mut own = Command::new(command.get_program());
            own.args(command.get_args());
            tried += 1;
            match Self::start_once(own, args, env) {
                Err(error) if tried < PORTS && error.to_string().contains("the port is in use") => {}
                started => return started,
            }
        }
    }

    fn start_once(mut command: Command, args: &[&str], env: &[(&str, &str)]) -> Result<Server> {
        let address = free_address()?;
        let log = tempfile::NamedTempFile::new()?;
        // One open file for both streams: two would each write from the file's start, one over the other.
        let output = log.reopen()?;
        let child = command
            .arg("--listen")
            .arg(address.to_string())
            .args(args)
            // Choices by fixed costs, and no test waits for another's measurements.
            .env("TENON_CALIBRATE", "off")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start the server under test")?;
        let mut server = Server { child, address, log };
        let begun = Instant::now();
        // Its own word for it: another program may have taken the port meanwhile, and answer there.
        let listens = format!("listens on {address}");
        while !answers(address) || !server.log().contains(&listens) {
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended at start with {status}; its log:\n{}", server.log());
            }
            if begun.elapsed() > START_TIMEOUT {
                bail!(
                    "the server does not listen after {START_TIMEOUT:?}; its log:\n{}",
                    server.log()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    /// A libpq connection string. TLS is not offered.
    pub fn dsn(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=tenon dbname=tenon sslmode=disable",
            self.address.port()
        )
    }

    /// A new connection.
    pub async fn connect(&self) -> Result<Client> {
        connect(&self.dsn()).await
    }

    pub fn is_alive(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Resident memory now and at its highest, in bytes.
    pub fn resident_bytes(&self) -> Result<(u64, u64)> {
        Ok((self.status("VmRSS:")?, self.status("VmHWM:")?))
    }

    /// Resident memory that is the program's file, in bytes.
    pub fn program_bytes(&self) -> Result<u64> {
        self.status("RssFile:")
    }

    /// A field of the process's status that is a size.
    fn status(&self, name: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find(|line| line.starts_with(name))
            .context("no such field")?;
        let kib: u64 = line.split_whitespace().nth(1).context("no value")?.parse()?;
        Ok(kib * 1024)
    }

    /// How many threads there are.
    pub fn threads(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/task", self.child.id()))?.count())
    }

    /// Processor time used so far, in clock ticks of 10 ms.
    pub fn processor_ticks(&self) -> Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
    }

    /// Asks the server to end, as `docker stop` does, and gives its exit status.
    pub fn terminate(mut self) -> Result<std::process::ExitStatus> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if begun.elapsed() > Duration::from_secs(20) {
                bail!("the server does not end on SIGTERM; its log:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

/// Whether a server at the address answers a startup packet: it asks for authentication, grants it, or has rules of who may
/// connect that say no.
fn answers(address: SocketAddr) -> bool {
    let probe = || -> std::io::Result<u8> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"\0\0\0\x23\0\x03\0\0user\0probe\0database\0tenon\0\0")?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        // Gone before the test begins, so that it does not count as a client.
        stream.write_all(b"X\0\0\0\x04")?;
        let _ = stream.read_to_end(&mut Vec::new());
        std::thread::sleep(Duration::from_millis(5));
        Ok(first[0])
    };
    matches!(probe(), Ok(b'R' | b'E'))
}

/// The program under test: the one built with the tests, or the one that `TENON_TEST_BINARY` names.
pub fn binary() -> PathBuf {
    std::env::var_os("TENON_TEST_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_tenon-under-test").into(), PathBuf::from)
}

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// A loopback address that was free a moment ago.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Connects with tokio-postgres; the connection's task ends with the client.
pub async fn connect(dsn: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(dsn, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The SQLSTATE of an error, or its text where the server did not say one.
pub fn sql_state(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.code().code().to_string(),
        None => format!("no SQLSTATE: {error}"),
    }
}

/// Runs `sql`, expects it to fail and gives the SQLSTATE.
pub async fn failing(client: &Client, sql: &str) -> Result<String> {
    match client.simple_query(sql).await {
        Ok(_) => bail!("should have failed: {sql}"),
        Err(error) => Ok(sql_state(&error)),
    }
}

/// The rows of one statement in text format.
pub async fn rows(client: &Client, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
    let messages = client.simple_query(sql).await.with_context(|| sql.to_string())?;
    let mut rows = Vec::new();
    for message in messages {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|i| row.get(i).map(String::from)).collect());
        }
    }
    Ok(rows)
}

/// The one value of one statement in text format; NULL as "NULL".
pub async fn value(client: &Client, sql: &str) -> Result<String> {
    let rows = rows(client, sql).await?;
    match rows.as_slice() {
        [row] if row.len() == 1 => Ok(row[0].clone().unwrap_or_else(|| "NULL".into())),
        _ => bail!("not one value but {rows:?}: {sql}"),
    }
}
