//! Clients that send what is no message, or go without a word. The server is to end their connections, and no one else's.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::data;
use super::requests::{Answered, ENDLESS, Trouble};

/// A server ends the connection of a client that has said nonsense and nothing more after this time.
const ENDS_AFTER: Duration = Duration::from_secs(10);
/// What such clients call themselves, so that they can be looked for.
pub const NAME: &str = "bench load bad";

/// Where the server is, and how a client introduces itself.
pub struct Door {
    address: SocketAddr,
    startup: Vec<u8>,
}

impl Door {
    pub async fn find(config: &Config) -> Result<Door> {
        let host = match config.get_hosts().first().context("no host")? {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => anyhow::bail!("{}: bad clients come over TCP", path.display()),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let address = tokio::net::lookup_host((host.as_str(), port)).await?;
        let address = address.into_iter().next().context("no address")?;
        let user = config.get_user().unwrap_or("postgres");
        let database = config.get_dbname().unwrap_or(user);
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        // PostgreSQL looks for clients that have gone where it is told to; Tenon does so anyway.
        let check = ("client_connection_check_interval", "1s");
        for (name, value) in [
            ("user", user),
            ("database", database),
            ("application_name", NAME),
            check,
        ] {
            for text in [name, value] {
                body.extend_from_slice(text.as_bytes());
                body.push(0);
            }
        }
        body.push(0);
        let startup = [&(body.len() as i32 + 4).to_be_bytes()[..], &body].concat();
        Ok(Door { address, startup })
    }

    /// Does one of several bad things.
    pub async fn knock(&self, dice: u64) -> Answered {
        let done = async {
            match dice % 6 {
                0 => self.noise(dice).await,
                1 => self.message(&[b'!', 0, 0, 0, 9, 1, 2, 3, 4, 5]).await,
                2 => self.message(&[b'Q', 0, 0, 0, 3]).await,
                3 => self.vanish(ENDLESS, &[], 5).await,
                4 => {
                    // Its rows must not be there in the end.
                    let rows = data::copied(-data::COPIED);
                    let length = (rows.len() as i32 + 4).to_be_bytes();
                    let rows = [&b"d"[..], &length, rows.as_bytes()].concat();
                    self.vanish("COPY load_copied FROM STDIN", &rows, 5).await
                }
                _ => {
                    self.vanish("SELECT * FROM load_items ORDER BY amount", &[], dice % 10)
                        .await
                }
            }
        };
        match done.await {
            Ok(()) => Ok(()),
            Err(Problem::Io) => Err(Trouble::Lost),
            Err(Problem::Refused(state)) => Err(Trouble::Sql(state)),
            Err(Problem::Wrong(what)) => Err(Trouble::Wrong(what)),
        }
    }

    /// Bytes instead of a startup packet.
    async fn noise(&self, dice: u64) -> Result<(), Problem> {
        let mut socket = TcpStream::connect(self.address).await?;
        let bytes: Vec<u8> = (0..64).map(|at| (super::mix::dice(dice, at) >> 24) as u8).collect();
        socket.write_all(&bytes).await?;
        ended(socket).await
    }

    /// What is no message, after a startup as it should be.
    async fn message(&self, bytes: &[u8]) -> Result<(), Problem> {
        let mut socket = self.enter().await?;
        socket.write_all(bytes).await?;
        ended(socket).await
    }

    /// Goes while a statement runs.
    async fn vanish(&self, sql: &str, more: &[u8], milliseconds: u64) -> Result<(), Problem> {
        let mut socket = self.enter().await?;
        let length = (sql.len() as i32 + 5).to_be_bytes();
        let query = [&b"Q"[..], &length, sql.as_bytes(), b"\0", more].concat();
        socket.write_all(&query).await?;
        sleep(Duration::from_millis(milliseconds)).await;
        Ok(())
    }

    /// A connection that is ready; or that asks for a password, and goes no further.
    async fn enter(&self) -> Result<TcpStream, Problem> {
        let mut socket = TcpStream::connect(self.address).await?;
        socket.write_all(&self.startup).await?;
        loop {
            let kind = socket.read_u8().await?;
            let length = socket.read_i32().await?;
            let mut body = vec![0; usize::try_from(length - 4).unwrap_or_default().min(1 << 16)];
            socket.read_exact(&mut body).await?;
            match kind {
                b'E' => return Err(Problem::Refused(state_of(&body))),
                b'R' if body != [0; 4] => return Ok(socket),
                b'Z' => return Ok(socket),
                _ => {}
            }
        }
    }
}

enum Problem {
    Io,
    Refused(String),
    Wrong(String),
}

impl From<std::io::Error> for Problem {
    fn from(_: std::io::Error) -> Self {
        Problem::Io
    }
}

/// The SQLSTATE in an ErrorResponse's body.
fn state_of(body: &[u8]) -> String {
    let fields = body.split(|byte| *byte == 0);
    let state = fields.into_iter().find_map(|field| field.strip_prefix(b"C"));
    String::from_utf8_lossy(state.unwrap_or_default()).into_owned()
}

/// The server's end of the connection comes, with nothing but errors before it.
async fn ended(mut socket: TcpStream) -> Result<(), Problem> {
    // Where the noise looks like the beginning of something long.
    let _ = socket.shutdown().await;
    let mut answer = vec![];
    match timeout(ENDS_AFTER, socket.read_to_end(&mut answer)).await {
        // Reset: more was on its way than the server cared to read.
        Ok(_) if answer.is_empty() || matches!(answer[0], b'E' | b'N') => Ok(()),
        Ok(_) => Err(Problem::Wrong(format!(
            "nonsense is answered: {:?}",
            String::from_utf8_lossy(&answer)
        ))),
        Err(_) => Err(Problem::Wrong(format!(
            "nonsense is suffered for more than {ENDS_AFTER:?}"
        ))),
    }
}
