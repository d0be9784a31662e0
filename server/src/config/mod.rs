//! Configuration: the command line over the environment over a TOML file, every value checked with its name, its source
//! and what is allowed in the message.

pub mod cli;
mod layers;
mod machine;
pub mod value;

use anyhow::{Context, bail};
use cli::SettingArgs;
use figment::Figment;
use figment::providers::{Format, Toml};
use figment::value::{Dict, Value};
use layers::{Layer, Layers};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tenon_executor::join::calibrate::Calibration;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: Vec<SocketAddr>,
    /// Where supervisors are answered over HTTP.
    pub http: Vec<SocketAddr>,
    /// TPC-H scale factor to generate at start.
    pub demo: Option<f64>,
    /// Bytes that tables may use.
    pub memory_limit_bytes: usize,
    /// Bytes that running queries may use, all together.
    pub query_memory_limit_bytes: usize,
    /// Bytes of GPU memory to use; `None`: all that is free.
    pub gpu_memory_limit_bytes: Option<usize>,
    pub max_connections: usize,
    pub statement_timeout: Option<Duration>,
    /// How long a client may read nothing; zero: for ever.
    pub client_stalled_timeout: Duration,
    /// The log has the statements, and the plans of those, that take so long; none: it does not.
    pub log_min_duration_statement: Option<Duration>,
    pub log_min_duration_plan: Option<Duration>,
    /// Where queries write what does not fit in memory.
    pub spill_directory: Option<PathBuf>,
    /// Bytes of disk for it, all together.
    pub spill_limit_bytes: usize,
    /// Where tables outlive the process.
    pub store: Option<PathBuf>,
    pub data_directories: Vec<PathBuf>,
    pub password_file: Option<PathBuf>,
    /// Rules of who may connect from where.
    pub hba_file: Option<PathBuf>,
    pub insecure_trust: bool,
    /// Certificate chain and key, both PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Certificates of who signs those of clients.
    pub tls_client_ca: Option<PathBuf>,
    pub log_level: String,
    pub log_format: LogFormat,
    pub threads: usize,
    pub target_partitions: usize,
    pub max_concurrent_queries: usize,
    pub calibration: Calibration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, module and message.
    Text,
    /// The same on shorter lines, without the time: for supervisors that add it.
    Compact,
    /// One JSON object a line, for programs that gather logs.
    Json,
}

/// What times are for the log.
const LOGGED: &str = "a time such as 250ms or 2s; 0 for all statements, -1 for none";

impl Config {
    /// Puts the layers together. `args` is the command line's part, `environment` the process's variables.
    pub fn load(args: &SettingArgs, environment: impl Iterator<Item = (String, String)>) -> anyhow::Result<Self> {
        let known = SettingArgs::NAMES;
        let mut path = args.config.clone();
        let mut variables = Dict::new();
        for (name, value) in environment {
            match name.strip_prefix("TENON_").map(str::to_ascii_lowercase) {
                Some(name) if name == "config" => path = path.or(Some(value.into())),
                Some(name) if known.contains(&name.as_str()) => drop(variables.insert(name, value.into())),
                _ => {}
            }
        }
        let mut layers = Figment::new();
        if let Some(path) = path {
            if !path.is_file() {
                bail!("the configuration file {} does not exist", path.display());
            }
            let file = Figment::from(Toml::file_exact(&path));
            let keys: Dict = file.extract().with_context(|| format!("in {}", path.display()))?;
            if let Some(unknown) = keys.keys().find(|key| !known.contains(&key.as_str())) {
                bail!(
                    "{}: unknown setting \"{unknown}\"; known are {}",
                    path.display(),
                    known.join(", ")
                );
            }
            layers = layers.merge(file);
        }
        let arguments = match Value::serialize(args)? {
            Value::Dict(_, arguments) => arguments,
            other => bail!("the command line is not a set of names and values: {other:?}"),
        };
        let layers = layers
            .merge(Layer("environment", variables))
            .merge(Layer("command line", arguments));
        Self::check(&Layers(layers))
    }

    fn check(layers: &Layers) -> anyhow::Result<Self> {
        let memory_bytes = machine::memory_bytes();
        let size = |text: &str| value::size(text, memory_bytes);
        let positive = |text: &str| text.parse().ok().filter(|n| *n > 0);
        let cores = machine::cores();
        let count = "a whole number from 1";
        let sizes = "a size such as 512MiB, 16GB or 60% (of the machine's memory)";

        let threads = layers.get("threads", count, positive)?.unwrap_or(cores);
        let config = Self {
            listen: layers
                .get(
                    "listen",
                    "an address and a port, such as 127.0.0.1:5432 or 0.0.0.0:5432",
                    value::addresses,
                )?
                .unwrap_or_else(|| vec![SocketAddr::from(([127, 0, 0, 1], 5432))]),
            http: layers
                .get(
                    "http",
                    "an address and a port, such as 127.0.0.1:9187",
                    value::addresses,
                )?
                .unwrap_or_default(),
            demo: layers.get(
                "demo",
                "a TPC-H scale factor above 0 and up to 1000, such as 0.1",
                |text| text.parse().ok().filter(|factor| *factor > 0.0 && *factor <= 1000.0),
            )?,
            memory_limit_bytes: layers
                .get("memory_limit", sizes, size)?
                .unwrap_or(memory_bytes / 100 * 60),
            query_memory_limit_bytes: layers
                .get("query_memory_limit", sizes, size)?
                .unwrap_or(memory_bytes / 100 * 30),
            gpu_memory_limit_bytes: layers
                .get("gpu_memory_limit", "a size such as 16GiB", |text| value::size(text, 0))?,
            max_connections: layers.get("max_connections", count, positive)?.unwrap_or(100),
            statement_timeout: layers
                .get(
                    "statement_timeout",
                    "a time such as 500ms, 30s or 5min; 0 for none",
                    value::duration,
                )?
                .filter(|timeout| !timeout.is_zero()),
            client_stalled_timeout: layers
                .get(
                    "client_stalled_timeout",
                    "a time such as 30s or 5min; 0 for none",
                    value::duration,
                )?
                .unwrap_or(Duration::from_secs(15 * 60)),
            log_min_duration_statement: layers
                .get("log_min_duration_statement", LOGGED, value::logged)?
                .flatten(),
            log_min_duration_plan: layers.get("log_min_duration_plan", LOGGED, value::logged)?.flatten(),
            spill_directory: layers.get("spill_dir", "an existing directory", |text| {
                Some(PathBuf::from(text)).filter(|path| path.is_dir())
            })?,
            spill_limit_bytes: layers
                .get("spill_limit", "a size such as 16GiB", |text| value::size(text, 0))?
                .unwrap_or(100 << 30),
            store: layers.path("store")?,
            data_directories: layers.directories()?,
            password_file: layers.get("password_file", "a path", |text| Some(PathBuf::from(text)))?,
            hba_file: layers.path("hba_file")?,
            insecure_trust: layers
                .get("insecure_trust", "true or false", value::boolean)?
                .unwrap_or(false),
            tls: match (layers.path("tls_cert")?, layers.path("tls_key")?) {
                (Some(certificate), Some(key)) => Some((certificate, key)),
                (None, None) => None,
                (Some(_), None) => bail!("tls_cert is set and tls_key is not: TLS needs both"),
                (None, Some(_)) => bail!("tls_key is set and tls_cert is not: TLS needs both"),
            },
            tls_client_ca: layers.path("tls_client_ca")?,
            log_level: layers
                .get(
                    "log_level",
                    "error, warn, info, debug, trace, or a filter such as info,tenon::wire=debug",
                    |text| {
                        tracing_subscriber::EnvFilter::builder()
                            .parse(text)
                            .ok()
                            .map(|_| text.to_owned())
                    },
                )?
                .unwrap_or_else(|| "info".to_owned()),
            log_format: layers
                .get("log_format", "text, compact or json", |text| match text {
                    "text" => Some(LogFormat::Text),
                    "compact" => Some(LogFormat::Compact),
                    "json" => Some(LogFormat::Json),
                    _ => None,
                })?
                .unwrap_or(LogFormat::Text),
            threads,
            target_partitions: layers.get("target_partitions", count, positive)?.unwrap_or(threads),
            max_concurrent_queries: layers
                .get("max_concurrent_queries", count, positive)?
                .unwrap_or_else(|| (2 * threads).max(8)),
            calibration: layers
                .get("calibrate", &Calibration::NAMES.join(", "), Calibration::named)?
                .unwrap_or_default(),
        };
        if let Some(open) = config.listen.iter().find(|address| !address.ip().is_loopback())
            && config.password_file.is_none()
            && !config.insecure_trust
        {
            bail!(
                "listen is {open}, which other machines can reach: set password_file to ask clients for passwords, or \
                 insecure_trust to let everybody in"
            );
        }
        if config.hba_file.is_some() {
            if config.password_file.is_none() {
                bail!("hba_file is set and password_file is not: that names who is a superuser");
            }
            if config.insecure_trust {
                bail!("hba_file and insecure_trust do not go together: the file has the method trust");
            }
        }
        if config.tls_client_ca.is_some() && (config.tls.is_none() || config.hba_file.is_none()) {
            bail!(
                "tls_client_ca is set, which needs tls_cert, tls_key, and hba_file to say which clients must have a certificate"
            );
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn load(environment: &[(&str, &str)], file: &str, args: &[&str]) -> anyhow::Result<Config> {
        let path = std::env::temp_dir().join(format!("tenon-{}.toml", uuid::Uuid::new_v4()));
        std::fs::write(&path, file).expect("a file");
        let file = path.to_str().expect("a path");
        let all = ["tenon", "--config", file].into_iter().chain(args.iter().copied());
        let args = cli::Cli::try_parse_from(all).expect("arguments").settings;
        let result = Config::load(&args, environment.iter().map(|(n, v)| (n.to_string(), v.to_string())));
        std::fs::remove_file(path).expect("the file");
        result
    }

    #[test]
    fn layers_cover_each_other() {
        let file = "max_connections = 7\nthreads = 3\nstatement_timeout = \"5s\"";
        let config = load(&[("TENON_THREADS", "4"), ("TENON_DEMO", "1")], file, &["--demo"]).unwrap();
        assert_eq!((config.max_connections, config.threads), (7, 4));
        assert_eq!(config.demo, Some(0.1));
        assert_eq!(config.statement_timeout, Some(Duration::from_secs(5)));
        assert_eq!(load(&[], "", &[]).unwrap().listen[0].to_string(), "127.0.0.1:5432");
        assert_eq!(load(&[], "", &["--demo=2"]).unwrap().demo, Some(2.0));
    }

    #[test]
    fn bad_values_say_what_is_wrong() {
        for (env, file, args, parts) in [
            (
                &[][..],
                "",
                &["--memory-limit", "lots"][..],
                &["\"lots\"", "memory_limit", "command line", "512MiB"][..],
            ),
            (
                &[("TENON_THREADS", "0")],
                "",
                &[],
                &["\"0\"", "threads", "environment", "from 1"],
            ),
            (&[], "demo = 0", &[], &["\"0\"", "demo", "TOML", "scale factor"]),
            (&[], "speed = 9", &[], &["unknown setting \"speed\"", "max_connections"]),
            (
                &[],
                "",
                &["--listen", "nowhere"],
                &["\"nowhere\"", "listen", "127.0.0.1:5432"],
            ),
            (
                &[],
                "",
                &["--listen", "0.0.0.0:5432"],
                &["password_file", "insecure_trust"],
            ),
            (&[], "", &["--tls-cert", "a.pem"], &["tls_key"]),
            (
                &[],
                "",
                &["--hba-file", "h"],
                &["hba_file", "password_file", "superuser"],
            ),
            (
                &[],
                "",
                &["--hba-file", "h", "--password-file", "p", "--insecure-trust"],
                &["hba_file", "insecure_trust"],
            ),
            (&[], "", &["--tls-client-ca", "ca.pem"], &["tls_client_ca", "hba_file"]),
            (&[], "", &["--log-format", "xml"], &["log_format", "compact"]),
            (
                &[],
                "",
                &["--data-dir", "/no/such/place"],
                &["data_dir", "existing directory"],
            ),
        ] {
            let error = format!("{:#}", load(env, file, args).unwrap_err());
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
    }

    #[test]
    fn other_machines_need_a_password_or_a_wish() {
        assert!(
            load(&[], "", &["--listen", "0.0.0.0:5432", "--insecure-trust"])
                .unwrap()
                .insecure_trust
        );
        let config = load(&[], "", &["--listen", "0.0.0.0:5432", "--password-file", "p"]).unwrap();
        assert_eq!(config.password_file, Some(PathBuf::from("p")));
    }
}
