//! `tenon load`: a file into a table of a running server, by COPY, with progress.

use crate::config::cli::LoadArgs;
use crate::progress::Progress;
use anyhow::{Context, bail};
use bytes::BytesMut;
use futures::SinkExt;
use std::fs::File;
use std::io::Read;
use std::time::Duration;
use tenon_storage::quote;
use tokio_postgres::NoTls;

/// Bytes read and sent at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Runs the command. Gives the rows loaded and the time.
pub async fn run(args: &LoadArgs) -> anyhow::Result<(u64, Duration)> {
    let statement = statement(args)?;
    let (mut file, bytes): (Box<dyn Read>, u64) = if args.file.as_os_str() == "-" {
        (Box::new(std::io::stdin()), 0)
    } else {
        let file = File::open(&args.file).with_context(|| format!("cannot open {}", args.file.display()))?;
        let bytes = file.metadata()?.len();
        (Box::new(file), bytes)
    };
    let client = connected("--to", &args.to).await?;
    let progress = Progress::new(&args.table, bytes, true);
    let sink = client.copy_in(&statement).await.map_err(told)?;
    let mut sink = std::pin::pin!(sink);
    loop {
        // Blocks this thread only: the connection has its own.
        let mut piece = BytesMut::zeroed(PIECE_BYTES);
        let read = file
            .read(&mut piece)
            .with_context(|| format!("cannot read {}", args.file.display()))?;
        if read == 0 {
            break;
        }
        piece.truncate(read);
        if let Err(error) = sink.send(piece.freeze()).await {
            // The server ended the COPY: finishing it gives the server's reason.
            return Err(told(sink.finish().await.err().unwrap_or(error)));
        }
        progress.add(read as u64);
    }
    let rows = sink.finish().await.map_err(told)?;
    Ok((rows, progress.finish()))
}

/// A client of the server at a URL, which an option of the command gives.
pub(crate) async fn connected(option: &str, url: &str) -> anyhow::Result<tokio_postgres::Client> {
    let config: tokio_postgres::Config = url
        .parse()
        .with_context(|| format!("{option} {url}: expected postgres://user:password@host:port"))?;
    let (client, connection) = config
        .connect(NoTls)
        .await
        .with_context(|| format!("cannot connect to {url}"))?;
    tokio::spawn(connection);
    Ok(client)
}

/// A server's error with all that it says.
pub(crate) fn told(error: tokio_postgres::Error) -> anyhow::Error {
    let Some(server) = error.as_db_error() else {
        return error.into();
    };
    let mut text = format!("{} ({})", server.message(), server.code().code());
    for more in [server.detail(), server.hint(), server.where_()].into_iter().flatten() {
        text += &format!("\n  {more}");
    }
    anyhow::anyhow!(text)
}

/// The COPY statement that the arguments ask for.
fn statement(args: &LoadArgs) -> anyhow::Result<String> {
    let by_name = args
        .file
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    let format = match (args.format.as_deref(), by_name) {
        (Some(format @ ("csv" | "text" | "binary")), _) => format,
        (Some(other), _) => bail!("invalid value \"{other}\" for --format: allowed is text, csv or binary"),
        (None, "csv") => "csv",
        (None, "bin" | "pgcopy") => "binary",
        (None, "parquet" | "arrow") => bail!(
            "{} is read by the server itself: start it with --data-dir and use COPY {} FROM '{}'",
            args.file.display(),
            args.table,
            args.file.display()
        ),
        (None, _) => "text",
    };
    let mut options = format!("FORMAT {format}");
    if args.header {
        options += ", HEADER";
    }
    for (name, value) in [("DELIMITER", &args.delimiter), ("NULL", &args.null)] {
        if let Some(value) = value {
            options += &format!(", {name} {}", quote::literal(value));
        }
    }
    let table: Vec<_> = args.table.split('.').map(quote::name).collect();
    Ok(format!("COPY {} FROM STDIN ({options})", table.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements() {
        let args = |file: &str, format: Option<&str>| LoadArgs {
            to: String::new(),
            table: "my.t\"x".into(),
            file: file.into(),
            format: format.map(str::to_owned),
            header: true,
            delimiter: Some("|".into()),
            null: Some("it's".into()),
        };
        assert_eq!(
            statement(&args("a.csv", None)).unwrap(),
            r#"COPY "my"."t""x" FROM STDIN (FORMAT csv, HEADER, DELIMITER '|', NULL 'it''s')"#
        );
        assert!(statement(&args("a.tbl", None)).unwrap().contains("FORMAT text"));
        assert!(
            statement(&args("a", Some("xml")))
                .unwrap_err()
                .to_string()
                .contains("text, csv or binary")
        );
        assert!(
            statement(&args("a.parquet", None))
                .unwrap_err()
                .to_string()
                .contains("--data-dir")
        );
    }
}
