//! `tenon health`: whether a server answers, for container health checks.

use anyhow::{Context, bail};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(3);

/// Asks for TLS and waits for the yes or no: a server that accepts and reads has its runtime alive, whatever its
/// authentication, and sees no failed login.
pub async fn check(to: &str) -> anyhow::Result<()> {
    let talk = async {
        let mut socket = TcpStream::connect(to)
            .await
            .with_context(|| format!("cannot connect to {to}"))?;
        socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await?;
        match socket.read_u8().await? {
            b'S' | b'N' => Ok(()),
            other => bail!("{to} is no PostgreSQL server: it answered with byte {other}"),
        }
    };
    match timeout(TIMEOUT, talk).await {
        Ok(result) => result,
        Err(_) => bail!("{to} did not answer in {TIMEOUT:?}"),
    }
}
