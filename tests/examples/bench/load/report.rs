//! What a run has measured: for each kind and in all, and for each second.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tenon_tests::histogram::Histogram;

use super::mix::Kind;
use super::requests::{Answered, Trouble};

/// Wrong answers that are told in full.
const TOLD_MAX: usize = 10;

/// Of one kind, or of all.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// From when the request was due, of all that were answered, by an error too.
    pub latency: Histogram,
    /// From when it was sent.
    pub service: Histogram,
    pub errors: BTreeMap<String, u64>,
    pub wrong: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub kinds: BTreeMap<Kind, Tally>,
    /// Latencies by the second in which their answers came.
    pub seconds: Vec<BTreeMap<Kind, Histogram>>,
    /// The first wrong answers.
    pub told: Vec<String>,
    /// Requests that were due and of which nothing came until the run was given up.
    pub unanswered: u64,
    /// How long was measured.
    pub time: Duration,
}

impl Report {
    /// `end`: since measuring began.
    pub fn record(&mut self, kind: Kind, end: Duration, latency: Duration, service: Duration, answered: Answered) {
        let second = end.as_secs() as usize;
        if second >= self.seconds.len() {
            self.seconds.resize_with(second + 1, BTreeMap::new);
        }
        self.seconds[second].entry(kind).or_default().record(latency);
        let tally = self.kinds.entry(kind).or_default();
        tally.latency.record(latency);
        tally.service.record(service);
        match answered {
            Ok(()) => {}
            Err(Trouble::Sql(state)) => *tally.errors.entry(state).or_default() += 1,
            Err(Trouble::Lost) => *tally.errors.entry("lost".to_owned()).or_default() += 1,
            Err(Trouble::Wrong(what)) => {
                tally.wrong += 1;
                if self.told.len() < TOLD_MAX {
                    self.told.push(what);
                }
            }
        }
    }

    /// Something that is not as it must be, apart from the requests.
    pub fn wrong(&mut self, what: String) {
        self.told.push(what);
    }

    pub fn all(&self) -> Tally {
        let mut all = Tally::default();
        for tally in self.kinds.values() {
            all.latency.add(&tally.latency);
            all.service.add(&tally.service);
            all.wrong += tally.wrong;
            for (state, count) in &tally.errors {
                *all.errors.entry(state.clone()).or_default() += count;
            }
        }
        all
    }

    /// A line a second and kind.
    pub fn csv(&self) -> String {
        let mut text = "second,kind,count,p50_ms,p99_ms,max_ms\n".to_owned();
        for (second, kinds) in self.seconds.iter().enumerate() {
            for (kind, latency) in kinds {
                let [p50, p99] = [0.5, 0.99].map(|share| milliseconds(latency.quantile(share)));
                let (name, count, max) = (kind.name(), latency.count(), milliseconds(latency.max()));
                // A String takes all that is written.
                let _ = writeln!(text, "{second},{name},{count},{p50:.3},{p99:.3},{max:.3}");
            }
        }
        text
    }

    pub fn write_csv(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.csv()).with_context(|| path.display().to_string())
    }
}

pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}  errors",
            "ms", "count", "a second", "p50", "p90", "p99", "p99.9", "max", "p99 (sent)"
        )?;
        let all = self.all();
        let kinds = self.kinds.iter().map(|(kind, tally)| (kind.name(), tally));
        for (name, tally) in kinds.chain([("all", &all)]) {
            let latency = &tally.latency;
            let rate = latency.count() as f64 / self.time.as_secs_f64();
            write!(f, "{name:<8} {:>9} {rate:>9.1}", latency.count())?;
            for share in [0.5, 0.9, 0.99, 0.999, 1.0] {
                write!(f, " {:>9.2}", milliseconds(latency.quantile(share)))?;
            }
            write!(f, " {:>11.2} ", milliseconds(tally.service.quantile(0.99)))?;
            for (state, count) in &tally.errors {
                write!(f, " {state}: {count}")?;
            }
            if tally.wrong > 0 {
                write!(f, " WRONG: {}", tally.wrong)?;
            }
            writeln!(f)?;
        }
        if self.unanswered > 0 {
            writeln!(
                f,
                "{} requests were due and were not sent, or had no answer",
                self.unanswered
            )?;
        }
        for what in &self.told {
            writeln!(f, "wrong: {what}")?;
        }
        Ok(())
    }
}
