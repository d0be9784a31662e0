//! The command line. Values are taken as text here and checked in one place for all sources.

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use std::path::PathBuf;

/// Tenon: a columnar in-memory SQL server for joins, on the GPU where there is one.
///
/// Speaks the PostgreSQL protocol. Without a command it serves. Every setting can be given on the command line, as an
/// environment variable (TENON_ and the name in capitals, such as TENON_MEMORY_LIMIT) or in the TOML file that --config
/// names (memory_limit = "16GiB"); the command line covers the environment, and that the file.
#[derive(Parser, Debug)]
#[command(name = "tenon", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub settings: SettingArgs,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Load a file into a table of a running server, by COPY
    Load(LoadArgs),
    /// Copy all that a running server with --store holds into a file
    Backup {
        /// The server, as postgres://user:password@host:port
        #[arg(long, value_name = "URL", default_value = "postgres://tenon@127.0.0.1:5432")]
        from: String,
        /// The file, which must not be there, or - for standard output
        file: PathBuf,
    },
    /// Make a directory for --store of a backup, and check all of it
    Restore {
        /// The backup, or - for standard input
        file: PathBuf,
        /// The directory, which must not be there
        #[arg(long, value_name = "DIR")]
        store: PathBuf,
    },
    /// Tell whether a server answers: exit code 0 or 1
    Health {
        /// The server's address
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5432")]
        to: String,
    },
    /// Show the GPU that Tenon can use, and what joins cost on this machine
    GpuInfo,
}

#[derive(Args, Debug)]
pub struct LoadArgs {
    /// The server, as postgres://user:password@host:port
    #[arg(long, value_name = "URL", default_value = "postgres://tenon@127.0.0.1:5432")]
    pub to: String,
    /// The table, with its schema where that is not public
    pub table: String,
    /// The file, or - for standard input
    pub file: PathBuf,
    /// text, csv or binary; by default from the file's name
    #[arg(long)]
    pub format: Option<String>,
    /// The file's first line holds column names
    #[arg(long)]
    pub header: bool,
    /// The character between values
    #[arg(long)]
    pub delimiter: Option<String>,
    /// What stands for NULL
    #[arg(long)]
    pub null: Option<String>,
}

#[derive(Args, Serialize, Debug, Default)]
pub struct SettingArgs {
    /// TOML file with settings
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    #[serde(skip)]
    pub config: Option<PathBuf>,

    /// Address and port to listen on; any but loopback needs --password-file or --insecure-trust [default: 127.0.0.1:5432]
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,

    /// Address and port for /metrics, /healthz and /readyz over HTTP [default: none]
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,

    /// Generate the TPC-H tables at this scale factor before serving [default when given bare: 0.1]
    #[arg(long, value_name = "SF", num_args = 0..=1, require_equals = true, default_missing_value = "0.1",
          help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    demo: Option<String>,

    /// Memory for tables: 16GiB, or 60% of what the machine, or the process's control group, has [default: 60%]
    #[arg(long, value_name = "SIZE", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_limit: Option<String>,

    /// Memory for all running queries together [default: 30%]
    #[arg(long, value_name = "SIZE", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    query_memory_limit: Option<String>,

    /// GPU memory to use [default: what is free]
    #[arg(long, value_name = "SIZE", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_memory_limit: Option<String>,

    /// Clients connected at a time; more are refused with 53300 [default: 100]
    #[arg(long, value_name = "N", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_connections: Option<String>,

    /// Longest time of a statement, such as 30s; 0 for none. Sessions can SET it [default: 0]
    #[arg(long, value_name = "TIME", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    statement_timeout: Option<String>,

    /// Longest time for which a client may read nothing of its result; 0 for none. Sessions can SET it [default: 15min]
    #[arg(long, value_name = "TIME", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    client_stalled_timeout: Option<String>,

    /// The log has a line for each statement that takes so long, such as 250ms; 0 for all. Sessions can SET it [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_min_duration_statement: Option<String>,

    /// The log has the plan of each statement that runs for so long. Sessions can SET auto_explain.log_min_duration [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_min_duration_plan: Option<String>,

    /// Directory for what queries write to disk where they have too little memory; without one they fail [default: none]
    #[arg(long, value_name = "DIR", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    spill_dir: Option<String>,

    /// Disk space for all running queries together [default: 100GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    spill_limit: Option<String>,

    /// Directory in which tables outlive the process; it is made if it is not there. Without one the server forgets [default: none]
    #[arg(long, value_name = "DIR", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,

    /// Directory whose files SQL may read (COPY t FROM 'file'); may be given more than once [default: none]
    #[arg(long, value_name = "DIR", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data_dir: Vec<String>,

    /// Ask for passwords (SCRAM-SHA-256) of this file: a line a user, name:password or name:SCRAM-SHA-256$...
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<String>,

    /// Who may connect from where and by what proof: rules as of PostgreSQL's pg_hba.conf; SIGHUP or pg_reload_conf() reads it again [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    hba_file: Option<String>,

    /// Believe every client on any address: whoever reaches the port may do everything
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
          help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    insecure_trust: Option<String>,

    /// TLS certificate chain, PEM
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_cert: Option<String>,

    /// TLS private key, PEM
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_key: Option<String>,

    /// Certificates of who signs those of clients, PEM; --hba-file says which clients must have one
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_client_ca: Option<String>,

    /// error, warn, info, debug, trace, or a filter such as info,tenon::wire=debug [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_level: Option<String>,

    /// text, compact or json [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_format: Option<String>,

    /// Threads that run queries [default: the cores]
    #[arg(long, value_name = "N", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<String>,

    /// Parts that a query's work is split into [default: --threads]
    #[arg(long, value_name = "N", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    target_partitions: Option<String>,

    /// Queries that run at a time; others wait [default: twice the threads, at least 8]
    #[arg(long, value_name = "N", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_concurrent_queries: Option<String>,

    /// Measure the machine for the choice of join operators: auto (once, in the background, and kept on disk), off or
    /// again [default: auto]
    #[arg(long, value_name = "WHEN", help_heading = "Settings")]
    #[serde(skip_serializing_if = "Option::is_none")]
    calibrate: Option<String>,
}

impl SettingArgs {
    /// The settings' names in a file; in the environment, the same in capitals after `TENON_`.
    pub const NAMES: &[&str] = &[
        "listen",
        "http",
        "demo",
        "memory_limit",
        "query_memory_limit",
        "gpu_memory_limit",
        "max_connections",
        "statement_timeout",
        "client_stalled_timeout",
        "log_min_duration_statement",
        "log_min_duration_plan",
        "spill_dir",
        "spill_limit",
        "store",
        "data_dir",
        "password_file",
        "hba_file",
        "insecure_trust",
        "tls_cert",
        "tls_key",
        "tls_client_ca",
        "log_level",
        "log_format",
        "threads",
        "target_partitions",
        "max_concurrent_queries",
        "calibrate",
    ];
}
