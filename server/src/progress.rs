//! How far a long job is: a bar on a terminal, a log line every few seconds elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const LOG_EVERY: Duration = Duration::from_secs(5);

/// A job of a known size.
pub struct Progress {
    bar: ProgressBar,
    what: String,
    /// When the last line was logged; `None` where the bar shows.
    logged: Option<Mutex<Instant>>,
}

impl Progress {
    /// `total` of 0 is an unknown size. `bytes`: it counts bytes, not rows.
    pub fn new(what: &str, total: u64, bytes: bool) -> Self {
        let terminal = stderr().is_terminal();
        let target = if terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target((total > 0).then_some(total), target);
        let template = match (bytes, total > 0) {
            (true, true) => "{msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            (true, false) => "{msg} {spinner} {bytes} {bytes_per_sec}",
            (false, true) => "{msg} [{bar:40}] {human_pos}/{human_len} rows {per_sec} {eta}",
            (false, false) => "{msg} {spinner} {human_pos} rows {per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Self {
            bar,
            what: what.to_owned(),
            logged: (!terminal).then(|| Mutex::new(Instant::now())),
        }
    }

    pub fn add(&self, amount: u64) {
        self.bar.inc(amount);
        let Some(logged) = &self.logged else { return };
        let Ok(mut last) = logged.try_lock() else { return };
        if last.elapsed() >= LOG_EVERY {
            *last = Instant::now();
            match self.bar.length() {
                Some(total) if total > 0 => tracing::info!("{}: {}%", self.what, self.bar.position() * 100 / total),
                _ => tracing::info!("{}: {}", self.what, self.bar.position()),
            }
        }
    }

    pub fn finish(self) -> Duration {
        self.bar.finish_and_clear();
        self.bar.elapsed()
    }
}
