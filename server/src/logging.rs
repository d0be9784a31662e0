//! Logs to standard error, through `tracing`.

use crate::config::{Config, LogFormat};
use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

/// Starts logging; a second call in one process changes nothing. A panic is logged as an error with its place.
pub fn start(config: &Config) {
    let filter = EnvFilter::builder().parse_lossy(&config.log_level);
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    let _ = match config.log_format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Compact => logs.compact().without_time().with_target(false).try_init(),
    };
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}
