//! A PostgreSQL of one's own: a new cluster in a directory that goes when it does.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Of Debian's package postgresql-15.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

pub struct Postgres {
    directory: TempDir,
    port: u16,
    user: Option<(String, u32)>,
}

impl Postgres {
    /// Starts it, without fsync where nothing need outlive it, on these cores where they are given (`0-1`).
    pub fn start(cores: Option<&str>, fsync: bool) -> Result<Postgres> {
        let programs = Path::new(PROGRAMS);
        ensure!(
            programs.join("postgres").exists(),
            "needs PostgreSQL 15: apt-get install postgresql-15"
        );
        let directory = tempfile::Builder::new().prefix("tenon-bench.").tempdir()?;
        // It refuses to run as root.
        let number = |option, name: &[&str]| -> Result<u32> { Ok(told("id", &[&[option], name].concat())?.parse()?) };
        let user = match number("-u", &[])? {
            0 => Some(("postgres".to_owned(), number("-u", &["postgres"])?)),
            _ => None,
        };
        if let Some((_, id)) = user {
            std::os::unix::fs::chown(directory.path(), Some(id), None)?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Postgres { directory, port, user };
        let fsync = if fsync { "on" } else { "off" };
        let options = format!("-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync={fsync}");
        server.command(
            "initdb",
            None,
            &["-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
        )?;
        server.command("pg_ctl", cores, &["-w", "-l", "/dev/null", "-o", &options, "start"])?;
        Ok(server)
    }

    /// A libpq connection string.
    pub fn dsn(&self) -> Result<String> {
        let user = match &self.user {
            Some((name, _)) => name.clone(),
            None => told("id", &["-un"])?,
        };
        Ok(format!(
            "host=127.0.0.1 port={} user={user} dbname=postgres sslmode=disable",
            self.port
        ))
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Runs one of its programs.
    fn command(&self, name: &str, cores: Option<&str>, args: &[&str]) -> Result<()> {
        let program = Path::new(PROGRAMS).join(name);
        let mut command = match cores {
            Some(cores) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cores]).arg(program);
                command
            }
            None => Command::new(program),
        };
        if let Some((_, id)) = &self.user {
            command.uid(*id);
        }
        // What pg_ctl starts has its output too: nobody must wait for the end of that.
        let log = tempfile::NamedTempFile::new()?;
        let output = log.reopen()?;
        let status = command
            .current_dir(self.directory.path())
            .arg("-D")
            .arg(self.data())
            .args(args)
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .with_context(|| name.to_owned())?;
        let log = std::fs::read_to_string(log.path())?;
        ensure!(status.success(), "{name}: {status}\n{log}");
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Err(error) = self.command("pg_ctl", None, &["-m", "immediate", "stop"]) {
            eprintln!("PostgreSQL was not stopped: {error:#}");
        }
    }
}

/// What a program prints.
pub fn told(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {}\n{text}{errors}", output.status);
    Ok(text.trim().to_owned())
}
